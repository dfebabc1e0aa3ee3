//! What an operator sees: the program, its endpoints, its checks, its probers.
//!
//! Does not know about: tables, colors, pages.

use super::word::{
    AudienceWord, CauseWord, CheckWord, ClassWord, EndpointWord, HoldSource, Lifecycle, OutcomeWord,
    SeverityWord,
};
use bitcode::{Decode, Encode};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything at a glance.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize)]
pub struct Status {
    /// Of the program.
    pub version: String,
    /// Of the process.
    pub pid: u32,
    /// When this view was taken.
    pub now_unix_ms: u64,
    /// How long the process has run, by a clock that nobody sets.
    pub uptime_ms: u64,
    /// How far it has come.
    pub lifecycle: Lifecycle,
    /// For how long it has been there.
    pub lifecycle_age_ms: u64,
    /// Why it drains or stops; empty otherwise.
    pub reason: String,
    /// When the drain ends in the end of the program; `None` when it does not.
    pub stops_in_ms: Option<u64>,
    /// How long load balancers still have to hear of the drain: what is left of `drain_delay`; `None` while the program does not drain.
    pub heard_in_ms: Option<u64>,
    /// When an operator's drain ends by itself.
    pub drain_ends_in_ms: Option<u64>,
    /// Where the configuration came from.
    pub config: String,
    /// Which configuration is in use: 1 at the start, one more with every reload.
    pub generation: u64,
    /// The last reload, when it was refused: what is served is older than the file.
    pub refused_reload: Option<RefusedReloadView>,
    /// Bound addresses, in the order of the configuration.
    pub addresses: Vec<String>,
    /// Listeners that are closed until their first certificate can be used.
    pub waiting: Vec<WaitingView>,
    /// Where else it listens, by what for: `admin`, `blackbox`, `tcp_gate.NAME`. A gate that is shut is not open.
    pub ports: BTreeMap<String, Vec<String>>,
    /// In their order.
    pub workers: Vec<WorkerView>,
    /// In the order of the configuration.
    pub endpoints: Vec<EndpointView>,
    /// How many checks are in each state; those that no check is in are left out.
    pub checks: BTreeMap<String, u32>,
    /// Endpoints that drain alone.
    pub drains: Vec<DrainView>,
    /// What is in maintenance.
    pub maintenance: Vec<HoldView>,
    /// Counts from the start on by name; those that end in `_live` are of this moment.
    pub counters: BTreeMap<String, u64>,
    /// The number of the last event.
    pub event: u64,
}

/// A reload that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct RefusedReloadView {
    /// What is wrong with the new configuration.
    pub reason: String,
    /// How long ago it was refused.
    pub age_ms: u64,
}

/// A listener that is not open yet.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct WaitingView {
    /// `[listener.NAME]`
    pub listener: String,
    /// What is wrong with its certificate.
    pub reason: String,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct WorkerView {
    /// `io_uring` or `epoll`.
    pub driver: String,
    /// Why this one.
    pub why: String,
    /// Whether it stands in for another one.
    pub is_fallback: bool,
    /// Whose doing it is, in a word: `ok`, `forced`, or what is wrong with io_uring.
    pub cause: String,
    /// Whether it failed and is gone.
    pub has_failed: bool,
    /// Connections open now.
    pub conns_live: u64,
    /// Requests answered.
    pub requests: u64,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct EndpointView {
    /// `[health.NAME]`
    pub name: String,
    /// Its state.
    pub state: EndpointWord,
    /// Which rule gave it.
    pub cause: CauseWord,
    /// What an operator said about it; empty when nobody did.
    pub note: String,
    /// For how long it has this state.
    pub age_ms: u64,
    /// What each audience is told.
    pub answers: Vec<AnswerView>,
    /// For an agent check; none when no check has a weight.
    pub weight: Option<u32>,
    /// Its checks, in the order of the configuration.
    pub uses: Vec<UseView>,
}

/// What one audience is told.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct AnswerView {
    /// Who asks.
    pub audience: AudienceWord,
    /// The state it sees.
    pub state: EndpointWord,
    /// The status code it gets.
    pub code: u16,
}

/// One check of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct UseView {
    /// `[check.NAME]`
    pub check: String,
    /// What it does when it is down.
    pub severity: SeverityWord,
    /// Whether the quorum counts it.
    pub in_quorum: bool,
    /// What it adds to the weight.
    pub weight: u32,
    /// What it counts as now.
    pub class: ClassWord,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct CheckView {
    /// `[check.NAME]`
    pub name: String,
    /// Its `type`.
    pub kind: String,
    /// Its state.
    pub state: CheckWord,
    /// For how long it has this state.
    pub age_ms: u64,
    /// The last result.
    pub last: Option<ResultView>,
    /// Why the last result was not a plain success, or why it is in maintenance.
    pub reason: String,
    /// How long ago the last success came.
    pub last_success_age_ms: Option<u64>,
    /// Successes since the last failure.
    pub successes: u32,
    /// Failures since the last success.
    pub failures: u32,
    /// The interval that applies now.
    pub interval_ms: u64,
    /// When the next run starts, without phase and jitter; `None` for one that somebody else runs, or that runs when somebody
    /// asks.
    pub next_in_ms: Option<u64>,
    /// The last results, oldest first; empty where nobody asked for them.
    pub history: Vec<ResultView>,
}

/// The result of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct ResultView {
    /// How long ago it came.
    pub age_ms: u64,
    /// What was found.
    pub outcome: OutcomeWord,
    /// From the start of the run to its end.
    pub latency_us: u32,
}

/// A maintenance that holds.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct HoldView {
    /// An endpoint, a check, or `all`.
    pub target: String,
    /// Who declared it.
    pub source: HoldSource,
    /// Why.
    pub reason: String,
    /// When it ends by itself.
    pub left_ms: Option<u64>,
}

/// A drain of one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct DrainView {
    /// Which.
    pub endpoint: String,
    /// Why.
    pub reason: String,
    /// How long load balancers still have to hear of it.
    pub heard_in_ms: u64,
    /// When it ends by itself.
    pub left_ms: Option<u64>,
}

/// Probers of one kind at one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct ProberView {
    /// Whom they ask for.
    pub endpoint: String,
    /// What they are: `kubelet`, `haproxy`, `elb`...
    pub prober: String,
    /// How many probes came.
    pub count: u64,
    /// How long ago the last one came.
    pub age_ms: u64,
    /// How far apart they come, once there were enough.
    pub interval_ms: Option<u64>,
    /// What they were told last.
    pub verdict: EndpointWord,
    /// How a load balancer says it sees us, where it says so.
    pub their_view: Option<String>,
}
