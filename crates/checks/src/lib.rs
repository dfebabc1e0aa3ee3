//! Active health checks on Tokio: HTTP, gRPC, TCP, TLS, Redis, DNS, programs, files and gauges, on
//! one thread for ten thousand of them.
//!
//! One run of a [`Runner`] checks once and gives one [`Finding`], within its timeout and with
//! bounded memory, whatever the peer does:
//!
//! ```
//! use doorbell_checks::options::{Check, CheckKind, EgressOptions};
//! use doorbell_checks::{Connector, Runner, Shared};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let target = format!("tcp://{}", listener.local_addr()?);
//! let check = Check::new("db", CheckKind::parse(&target).ok_or("no target")?);
//!
//! let mut shared = Shared::new(Arc::new(Connector::open(&EgressOptions::default())?));
//! let runner = Runner::build(&check, &mut shared)?.ok_or("results of this check are pushed")?;
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let finding = runtime.block_on(runner.run());
//! assert_eq!((finding.outcome.as_str(), finding.reason.as_str()), ("success", ""));
//! # Ok(())
//! # }
//! ```
//!
//! Many checks run on the thread of a [`Scheduler`], started by a [`Plan`]: each has its own phase,
//! so that neither the checks of a process nor those of its replicas run at once. Findings go to a
//! [`ResultSink`], which decides about states and intervals; `doorbell-health` implements that
//! logic. `examples/watch.rs` is a complete program of 80 lines.
//!
//! | module | what it owns |
//! |---|---|
//! | [`options`] | what to check, how often, and what a result must be: plain data |
//! | `kinds` | one module for each kind of check, and what several share |
//! | `connect` | from a host and a port to a connection: resolver, dialer, TLS, certificates |
//! | `runner` | one check as something that runs once: timeout, all addresses of a name, descriptors it needs |
//! | `scheduler` | when runs start, at most how many at once, requests for runs, pushed results |
//! | `progress` | stages of a run and its observations |
//! | `finding` | outcome, latency and reason of a run |
//! | `stats` | counters by check, which survive another plan |
//!
//! Connections are made by `doorbell-egress` and avoid TIME-WAIT. A [`Shared`] pool keeps one TLS
//! configuration for all checks with equal options. Names are resolved on a bounded number of
//! threads, and cached addresses stay in use while a resolver hangs. Programs run in process groups
//! that are killed as a whole; [`CHILDREN`] tells a reaper which processes to leave alone.
//!
//! Does not know about: configuration files, states and endpoints, metrics formats.
#![forbid(unsafe_code)]

mod connect;
mod finding;
mod kinds;
pub mod options;
mod progress;
mod runner;
mod scheduler;
mod stats;
#[cfg(test)]
mod tests;

pub use connect::certificate::CertificateInfo;
pub use connect::connector::{ConnectCounters, Connector};
pub use connect::resolver::lookup_host;
pub use connect::tls::{TlsClient, tls_client};
pub use finding::{Finding, cause_of};
pub use kinds::children::{CHILDREN, Children};
pub use kinds::grpc::UNKNOWN as GRPC_UNKNOWN;
pub use kinds::http::{is_same_origin, join as url_of_location};
pub use progress::phases::Phases;
pub use progress::{Phase, Seen, Spent, Stage, Trace};
pub use runner::descriptors::FDS_PER_LOOKUP;
pub use runner::{Runner, Shared};
pub use scheduler::counters::SchedulerCounters;
pub use scheduler::lag::{LAG_BOUNDS_US, Lag, LagCounts};
pub use scheduler::push::Push;
pub use scheduler::run::Run;
pub use scheduler::run_requests::RunRequest;
pub use scheduler::sink::{LastRun, ResultSink};
pub use scheduler::work::first_runs;
pub use scheduler::{Heartbeat, Plan, ReadyScheduler, RunNow, Scheduler};
pub use stats::{CheckCounts, CheckStats, DURATION_BOUNDS_US, Durations, StatsByCheck};
