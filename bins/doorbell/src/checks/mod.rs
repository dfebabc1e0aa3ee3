//! Active checks: one run asks once and gives one finding, and a scheduler makes each run when it is due.
//!
//! Does not know about: what follows from a finding.

mod connect;
mod finding;
mod kinds;
mod progress;
mod runner;
mod scheduler;
mod stats;
#[cfg(test)]
mod tests;

pub(crate) use connect::certificate::Named;
pub(crate) use connect::connector::Connector;
pub(crate) use connect::resolver::find;
pub(crate) use connect::tls::client;
pub(crate) use finding::{Finding, cause_of};
pub(crate) use kinds::children::CHILDREN;
pub(crate) use kinds::grpc::UNKNOWN as GRPC_UNKNOWN;
pub(crate) use kinds::http::{is_same_origin, join as url_of_location};
pub(crate) use progress::phases::Phases;
pub(crate) use progress::{Seen, Stage, Trace};
pub(crate) use runner::descriptors::FDS_A_LOOK_UP;
pub(crate) use runner::{Runner, Shared};
pub(crate) use scheduler::counters::SchedulerCounters;
pub(crate) use scheduler::lag::{LAG_BOUNDS_US, LagCounts};
pub(crate) use scheduler::push::Push;
pub(crate) use scheduler::run::Run;
pub(crate) use scheduler::run_requests::RunRequest;
pub(crate) use scheduler::sink::{LastRun, ResultSink};
pub(crate) use scheduler::work::first_runs;
pub(crate) use scheduler::{Heartbeat, Plan, ReadyScheduler, RunNow, Scheduler};
pub(crate) use stats::{CheckCounts, CheckStats, DURATION_BOUNDS_US};
