//! Active health checks on Tokio: HTTP, gRPC, TCP, TLS, Redis, DNS, programs, files and gauges. One
//! thread can run ten thousand checks.
//!
//! One run of a [`Runner`] performs the check once and returns one [`Finding`], within its timeout
//! and with bounded memory, whatever the peer does:
//!
#![cfg_attr(feature = "kinds", doc = "```")]
#![cfg_attr(not(feature = "kinds"), doc = "```ignore")]
//! use doorbell_checks::options::{Check, CheckKind, EgressOptions};
//! use doorbell_checks::{Connector, Runner, SharedResources};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let target = format!("tcp://{}", listener.local_addr()?);
//! let check = Check::new("db", CheckKind::parse(&target).ok_or("no target")?);
//!
//! let mut shared = SharedResources::new(Arc::new(Connector::open(&EgressOptions::default())?));
//! let runner = Runner::build(&check, &mut shared)?.ok_or("results of this check are pushed")?;
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let finding = runtime.block_on(runner.run());
//! assert_eq!((finding.outcome.as_str(), finding.reason.as_str()), ("success", ""));
//! # Ok(())
//! # }
//! ```
//!
//! A [`Plan`] starts a [`Scheduler`], which runs many checks on one thread. Each check has its own
//! offset within the interval, so that the checks of a process, and the same checks of its
//! replicas, do not all run at once. Findings go to a [`ResultSink`], which determines states and
//! intervals; `doorbell-health` implements this logic. `examples/watch.rs` is a complete program.
//!
//! | module | what it owns |
//! |---|---|
//! | [`options`] | plain data: targets, intervals, expectations |
//! | `kinds` | one module for each kind of check, and shared code |
//! | `connect` | connections to targets: resolver, dialer, TLS, certificates |
//! | `runner` | one run of a check, of a built-in kind or a [`Call`]: timeout, all addresses of a name, number of descriptors |
//! | `scheduler` | start times, limit of concurrent runs, requests for runs, pushed results |
//! | `progress` | stages of a run and its observations |
//! | `finding` | outcome, latency and reason of a run |
//! | `stats` | counters by check, kept across plans |
//!
//! `doorbell-egress` opens the connections and avoids TIME-WAIT. [`SharedResources`] hold one TLS
//! configuration for all checks with equal options. Names are resolved on a bounded number of
//! threads, and cached addresses stay in use while a resolver hangs. Programs run in process groups
//! that are killed as a whole; [`CHILDREN`] lists the processes that a reaper must not wait for.
//!
//! The feature `kinds` (default) adds [`options`] and the built-in kinds. Without it, the scheduler
//! runs only functions of the embedding program, and the crate has few dependencies. `alias`,
//! `icmp`, `link`, `mail` (SMTP, IMAP, POP3), `mysql`, `postgres`, `process`, `udp` and `websocket`
//! each add the kind of that name.
#![forbid(unsafe_code)]

#[cfg(feature = "kinds")]
mod connect;
mod finding;
#[cfg(feature = "kinds")]
mod kinds;
mod limits;
#[cfg(feature = "kinds")]
pub mod options;
mod phase_times;
#[cfg(feature = "kinds")]
mod progress;
mod runner;
mod scheduler;
mod stats;
#[cfg(test)]
#[cfg(feature = "kinds")]
mod tests;

#[cfg(feature = "kinds")]
pub use connect::certificate::CertificateInfo;
#[cfg(feature = "kinds")]
pub use connect::connector::{ConnectCounters, Connector};
#[cfg(feature = "kinds")]
pub use connect::resolver::lookup_host;
#[cfg(feature = "kinds")]
pub use connect::tls::{TlsClient, handshake_failure, tls_client};
pub use finding::{Finding, cause_of};
#[cfg(feature = "kinds")]
pub use kinds::children::{CHILDREN, Children};
#[cfg(feature = "kinds")]
pub use kinds::grpc::UNKNOWN as GRPC_UNKNOWN;
#[cfg(feature = "kinds")]
pub use kinds::http::{is_same_origin, join as url_of_location};
#[cfg(feature = "kinds")]
pub use kinds::materials::SharedResources;
#[cfg(feature = "alias")]
pub use kinds::materials::StateReader;
pub use phase_times::{Phase, PhaseTimes};
#[cfg(feature = "kinds")]
pub use progress::phases::Phases;
#[cfg(feature = "kinds")]
pub use progress::{DnsAnswer, Seen, Stage, Trace};
pub use runner::Runner;
pub use runner::call::Call;
pub use runner::descriptors::FDS_PER_LOOKUP;
pub use scheduler::counters::SchedulerCounters;
pub use scheduler::lag::{LAG_BOUNDS_US, Lag, LagCounts};
pub use scheduler::push::{Push, PushRefused};
pub use scheduler::run::Run;
pub use scheduler::run_requests::RunRequest;
#[cfg(feature = "kinds")]
pub use scheduler::run_requests::RunStart;
pub use scheduler::sink::{LastRun, ResultSink};
pub use scheduler::work::first_runs;
pub use scheduler::{Heartbeat, Plan, ReadyScheduler, RunNow, Scheduler};
pub use stats::{CheckCounts, CheckStats, DURATION_BOUNDS_US, Durations, StatsByCheck};
