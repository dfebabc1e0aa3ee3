//! Views for operators: the program, its endpoints, checks and probers.

use super::word::{
    AudienceWord, CauseWord, CheckWord, ClassWord, EndpointWord, HoldSource, Lifecycle, OutcomeWord,
    SeverityWord,
};
use bitcode::{Decode, Encode};
use serde::Serialize;
use std::collections::BTreeMap;

/// The status of the program.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode, Serialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Process ID.
    pub pid: u32,
    /// Time of this view.
    pub now_unix_ms: u64,
    /// Time since the start of the program, on a monotonic clock.
    pub uptime_ms: u64,
    /// Lifecycle state.
    pub lifecycle: Lifecycle,
    /// Time since the lifecycle state was reached.
    pub lifecycle_age_ms: u64,
    /// Reason of a drain or stop; may be empty.
    pub reason: String,
    /// Time until listeners close; `None` unless a stop is in progress.
    pub stops_in_ms: Option<u64>,
    /// Remaining time of `drain_delay`, in which load balancers detect the drain; `None` unless all
    /// endpoints drain.
    pub observed_in_ms: Option<u64>,
    /// Time until an operator's drain of all endpoints ends; `None` without a time limit.
    pub drain_ends_in_ms: Option<u64>,
    /// Source of the configuration.
    pub config: String,
    /// Number of the current generation; 1 at the start.
    pub generation: u64,
    /// The last reload, if it failed. The configuration in use is then older than the file.
    pub refused_reload: Option<RefusedReloadView>,
    /// Why drains and maintenance are not saved to the configured state file; `None` if they are, or
    /// without a state file.
    pub unsaved: Option<String>,
    /// Bound addresses, in the order of the configuration.
    pub addresses: Vec<String>,
    /// Listeners that wait for their certificate.
    pub waiting: Vec<WaitingView>,
    /// Other addresses by purpose: `admin`, `blackbox`, `links`, `tcp_gate.NAME`. Closed gates are
    /// included.
    pub ports: BTreeMap<String, Vec<String>>,
    /// Workers, in order.
    pub workers: Vec<WorkerView>,
    /// Endpoints in the order of the configuration.
    pub endpoints: Vec<EndpointView>,
    /// Number of checks by state; states without checks are absent.
    pub checks: BTreeMap<String, u32>,
    /// Drains of single endpoints.
    pub drains: Vec<DrainView>,
    /// All declarations of maintenance, ordered by source.
    pub maintenance: Vec<HoldView>,
    /// Counters since the start, by name; those whose name ends in `_live` are current values.
    pub counters: BTreeMap<String, u64>,
    /// Reason for the failure of the last attempt to write the history; `None` after a success, and
    /// without a history.
    pub history_failure: Option<String>,
    /// The number of the last event.
    pub event: u64,
}

impl Status {
    /// Open connections of any protocol; `conns_live` does not include HTTP/2.
    pub fn conns_open(&self) -> u64 {
        self.counter("conns_live") + self.counter("http2_conns_live")
    }

    /// Requests served by any protocol.
    pub fn requests(&self) -> u64 {
        self.counter("requests") + self.counter("http2_requests")
    }

    /// A counter; 0 if it is absent.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}

/// A failed reload.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct RefusedReloadView {
    /// The error message.
    pub reason: String,
    /// Time since the failed reload.
    pub age_ms: u64,
}

/// A listener that waits for its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct WaitingView {
    /// `[listener.NAME]`
    pub listener: String,
    /// What the listener waits for: `its certificate: ` and its error, or the error of the last
    /// attempt to open it.
    pub reason: String,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct WorkerView {
    /// `io_uring` or `epoll`.
    pub driver: String,
    /// Reason for this driver; of a failed worker, the reason of the failure.
    pub why: String,
    /// Whether the driver is a fallback from another driver.
    pub is_fallback: bool,
    /// Why this driver is used, as a word: `ok`, `forced`, or the problem of io_uring.
    pub cause: String,
    /// Whether the worker has failed.
    pub has_failed: bool,
    /// Open connections.
    pub conns_live: u64,
    /// Requests served.
    pub requests: u64,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct EndpointView {
    /// `[health.NAME]`
    pub name: String,
    /// State of the endpoint.
    pub state: EndpointWord,
    /// The rule that determines the state.
    pub cause: CauseWord,
    /// The operator's reason for the state; may be empty.
    pub note: String,
    /// Time in this state.
    pub age_ms: u64,
    /// The reply to each audience.
    pub answers: Vec<AnswerView>,
    /// Weight for agent checks; `None` if no check has a weight.
    pub weight: Option<u32>,
    /// Checks of the endpoint, in the order of the configuration.
    pub uses: Vec<UseView>,
}

/// The reply to one audience.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct AnswerView {
    /// The audience.
    pub audience: AudienceWord,
    /// The reported state.
    pub state: EndpointWord,
    /// The status code.
    pub code: u16,
}

/// One check of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct UseView {
    /// `[check.NAME]`
    pub check: String,
    /// Effect on the endpoint if the check fails.
    pub severity: SeverityWord,
    /// Whether the check is a member of the quorum.
    pub in_quorum: bool,
    /// Weight that the check contributes to the endpoint.
    pub weight: u32,
    /// How the endpoint counts the check's current state.
    pub class: ClassWord,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct CheckView {
    /// `[check.NAME]`
    pub name: String,
    /// The `type` of the check.
    pub kind: String,
    /// The other instance that ran the check last, if the check is shared.
    pub from: Option<String>,
    /// State of the check.
    pub state: CheckWord,
    /// Time in this state.
    pub age_ms: u64,
    /// The last result.
    pub last: Option<ResultView>,
    /// Reason of the last result or of the maintenance; empty for a plain success.
    pub reason: String,
    /// Time since the last success.
    pub last_success_age_ms: Option<u64>,
    /// Successes since the last failure.
    pub successes: u32,
    /// Failures since the last success.
    pub failures: u32,
    /// The interval that applies now.
    pub interval_ms: u64,
    /// Time until the next run, without the check's fixed offset (phase) and random jitter; `None`
    /// if the results are pushed, or if the check runs on demand and has a result.
    pub next_in_ms: Option<u64>,
    /// The last results, oldest first; empty unless requested.
    pub history: Vec<ResultView>,
}

/// The result of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct ResultView {
    /// Age of the result.
    pub age_ms: u64,
    /// The outcome.
    pub outcome: OutcomeWord,
    /// Duration of the run.
    pub latency_us: u32,
}

/// One declaration of maintenance. [`HoldSource`] sets the precedence of several declarations for
/// one target.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct HoldView {
    /// An endpoint, a check, or `all`.
    pub target: String,
    /// Source of the maintenance.
    pub source: HoldSource,
    /// Reason.
    pub reason: String,
    /// Remaining time, if it is limited.
    pub left_ms: Option<u64>,
}

/// A drain of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct DrainView {
    /// The endpoint.
    pub endpoint: String,
    /// Reason.
    pub reason: String,
    /// Remaining time of `drain_delay`, in which load balancers detect the drain.
    pub observed_in_ms: u64,
    /// Remaining time, if it is limited.
    pub left_ms: Option<u64>,
}

/// Probers of one kind at one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct ProberView {
    /// The endpoint.
    pub endpoint: String,
    /// Kind of the prober: `kubelet`, `haproxy`, `elb`...
    pub prober: String,
    /// Number of probes.
    pub count: u64,
    /// Time since the last probe.
    pub age_ms: u64,
    /// Interval between probes, once it is known.
    pub interval_ms: Option<u64>,
    /// State in the last reply.
    pub verdict: EndpointWord,
    /// The load balancer's view of this server, if the load balancer sends it.
    pub their_view: Option<String>,
}
