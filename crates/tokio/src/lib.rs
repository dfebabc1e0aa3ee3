//! Health for Tokio programs: checks, probes, and a server in front that serves the probes on its
//! own threads.
//!
//! # Where to start
//!
//! | the program needs | start at |
//! |---|---|
//! | checks and probe routes, on its existing listener | [`Health`], `Health::routes` (feature `axum`), `Health::layer` (`tower`), `Health::service` (`hyper`) |
//! | probes that are served even while the program is busy, and a drain at SIGTERM | [`Doorbell`] |
//! | in addition: redirects and other replies from memory, or several listeners | [`Embed`] with [`Probes`], [`Front`], [`HandOverAll`] |
//!
//! On Linux, threads of the engine (*ring threads*) serve the probes. On macOS and other Unix
//! systems [`Doorbell`] serves them on the runtime, with the same API and replies; [`Embed`] is for
//! Linux, and its program also depends on the crate `doorbell`. Features, all off by default:
//! `axum` (0.8) and `hyper` (1), which include `tower`; `grpc` (tonic 0.14); `metrics`
//! (prometheus-client 0.25); `checks` for built-in kinds of checks, and `alias` for those that
//! follow other checks and endpoints. After `cargo add doorbell-tokio --features axum`, in a
//! program that already uses axum and tokio (with `full`, or `macros` and `rt-multi-thread`):
//!
#![cfg_attr(feature = "axum", doc = concat!("```no_run\n", include_str!("../examples/hello.rs"), "```"))]
//!
//! Ring threads serve the probes of `health`; all other connections come out of `incoming`, which
//! replaces a listener. `examples/service.rs` has checks; `examples/health_alone.rs` has no ring
//! threads.
//!
//! | task | items |
//! |---|---|
//! | check dependencies of the program | [`HealthBuilder::check`], [`Check`]; `HealthBuilder::target` (feature `checks`) for built-in kinds |
//! | report results | [`HealthBuilder::push`], [`Pushed`]; [`Health::set_ready`], [`Health::set_live`] |
//! | receive connections | [`Handed`], [`Connection`], [`Preread`]; `Handed` implements axum's `Listener`; `examples/hyper_probes.rs` has the accept loop of hyper |
//! | drain and stop | [`Control`], `examples/shutdown.rs` |
//! | listen on a socket of a service manager | [`Embed`] with `doorbell::Listen::inherited` |
//! | share a TLS port | [`Handed`](Handed#tls) |
//! | export metrics | `Health::metrics`, `Metrics` (feature `metrics`), `examples/service.rs` |
//! | serve gRPC with tonic, and `grpc.health.v1` | `Health::grpc`, `Handed::streams` (feature `grpc`), `examples/grpc.rs` |
//!
//! # What runs where
//!
//! Ring threads accept, read and reply without the runtime: a probe costs the runtime nothing and
//! gets its reply even if all threads of the runtime are busy. A connection with any other request
//! is handed over to the runtime, together with the bytes that were already read. Hand-overs are
//! batched, with one wake-up per batch. The program holds at most [`Embed::handed_max`] of these
//! connections (default 16,384); beyond that limit, a client gets a 503 or waits
//! ([`Embed::when_full`]). Functions of checks run on the runtime. A separate thread schedules
//! them, enforces their timeouts, and monitors heartbeats of the runtime and waiting connections.
//! So `/readyz` and `/livez` fail if the runtime or one of its workers is stuck
//! ([`HealthBuilder::stalled_after`]), or if connections are not accepted
//! ([`HealthBuilder::accept_within`]).
#![forbid(unsafe_code)]

#[cfg(feature = "axum")]
mod axum;
mod bound;
mod control;
#[cfg(target_os = "linux")]
mod embed;
#[cfg(feature = "tower")]
mod fronts;
#[cfg(feature = "grpc")]
mod grpc;
mod handed;
mod health;
mod launch;
#[cfg(feature = "metrics")]
mod metrics;
mod portable;
mod preread;
mod probes;
mod pulse;
mod queue;
pub mod registry;
mod sync;
mod waits;
mod workers;

#[cfg(feature = "axum")]
pub use crate::axum::{Peer, SocketAddrs};
pub use bound::{BindError, Doorbell};
pub use control::{Control, Ended, Stats};
pub use doorbell_checks::SchedulerCounters;
#[cfg(feature = "checks")]
pub use doorbell_checks::options as checks;
#[cfg(feature = "grpc")]
pub use doorbell_grpc::GrpcHealth;
pub use doorbell_health::{CheckConfig, Details, EndpointState, FlapRule, Initial, Severity};
pub use doorbell_probes::Registry;
#[cfg(target_os = "linux")]
pub use embed::Embed;
#[cfg(feature = "tower")]
pub use fronts::{ProbeBody, ProbeLayer, WithProbes};
#[cfg(feature = "grpc")]
pub use grpc::Streams;
pub use handed::{Accept, Connection, Handed};
pub use health::{Check, Health, HealthBuilder, HealthError, Pushed, Ttl};
#[cfg(feature = "metrics")]
pub use metrics::{Metrics, prometheus_client};
pub use portable::RuntimeCounters;
pub use preread::{Parts, Preread};
pub use probes::{Front, HandOverAll, Probes};
