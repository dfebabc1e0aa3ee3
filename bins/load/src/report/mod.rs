//! Results of a run, as text and as JSON.

mod text;

use serde::Serialize;

use crate::engine::Outcome;
use crate::plan::{Closer, Flow, Plan};
use crate::stats::{FailureKind, Latencies};

/// The figures of a run. Its JSON form is stable: keys are added, not changed.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `new` or `keep_alive`.
    pub mode: &'static str,
    /// The side that closes first, for new connections.
    pub close: Option<&'static str>,
    /// Requests in one write.
    pub pipeline: u32,
    /// Number of concurrent connections.
    pub connections: u32,
    /// Number of threads.
    pub threads: u32,
    /// Target addresses.
    pub targets: Vec<String>,
    /// Number of source addresses. 0 means that the kernel chose.
    pub sources: usize,
    /// The requested choice of ports.
    pub ports: String,
    /// Measured time in seconds.
    pub elapsed_s: f64,
    /// Total number of good replies.
    pub requests: u64,
    /// Good replies per second of the measured time.
    pub requests_per_s: f64,
    /// The requested rate.
    pub rate_wanted: Option<f64>,
    /// Requests that were due at the requested rate and never started.
    pub unstarted: u64,
    /// Requests that were unfinished when the user stopped the run.
    pub unfinished: u64,
    /// Number of connections opened.
    pub connects: u64,
    /// Connections opened per second.
    pub connects_per_s: f64,
    /// Kept connections that the server closed.
    pub reconnects: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Latencies in microseconds.
    pub latency_us: LatencyTable,
    /// Number of failed requests.
    pub failed: u64,
    /// Failed requests by kind. Only kinds that occurred are listed.
    pub failures: Vec<FailureRow>,
    /// Wrong bytes in place of the unique id. `None` without unique ids.
    pub foreign_bytes: Option<u64>,
    /// Replies by the first digit of their status.
    pub statuses: Vec<StatusRow>,
    /// CPU time of this program in seconds, including the warm-up.
    pub client_cpu_s: f64,
    /// CPU time of this program as a share of the time of all its threads, which is the duration of
    /// the run multiplied by the number of threads. A value near 1 means that this program, and not
    /// the server, is the limit.
    pub client_busy: f64,
    /// Whether the user stopped the run.
    pub stopped: bool,
    /// A description of the ring.
    pub ring: String,
}

/// Latencies of the parts of a request.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyTable {
    /// Latency of handshakes.
    pub connect: LatencyRow,
    /// Latency of first bytes.
    pub first_byte: LatencyRow,
    /// Latency of whole replies.
    pub total: LatencyRow,
}

/// Quantiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct LatencyRow {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub max: f64,
}

/// Failures of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct FailureRow {
    /// The name of the kind.
    pub kind: &'static str,
    /// A description of the kind.
    #[serde(skip)]
    pub sentence: &'static str,
    /// Number of failures.
    pub count: u64,
    /// The first system error of this kind.
    pub first_error: Option<String>,
}

/// Number of replies in one class of statuses.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StatusRow {
    /// The first digit. 0 stands for any digit outside 1 to 5.
    pub class: usize,
    /// Number of replies.
    pub count: u64,
}

impl Report {
    /// Computes the figures of `outcome`.
    #[must_use]
    pub fn new(plan: &Plan, outcome: &Outcome) -> Self {
        let stats = &outcome.stats;
        let (mode, close) = match plan.flow {
            Flow::Keep { .. } => ("keep_alive", None),
            Flow::New { closer: Closer::Client, .. } => ("new", Some("client")),
            Flow::New { closer: Closer::Reset, .. } => ("new", Some("reset")),
            Flow::New { closer: Closer::Server, .. } => ("new", Some("server")),
        };
        let elapsed_s = outcome.elapsed.as_secs_f64();
        let thread_time = outcome.whole.as_secs_f64() * f64::from(plan.threads);
        Self {
            mode,
            close,
            pipeline: plan.flow.pipeline(),
            connections: plan.conns,
            threads: plan.threads,
            targets: plan.targets.iter().map(ToString::to_string).collect(),
            sources: plan.sources.len(),
            ports: plan.ports.to_string(),
            elapsed_s,
            requests: stats.requests,
            requests_per_s: per_second(stats.requests_in_time, elapsed_s),
            rate_wanted: plan.rate,
            unstarted: stats.unstarted,
            unfinished: stats.unfinished,
            connects: stats.connects,
            connects_per_s: per_second(stats.connects_in_time, elapsed_s),
            reconnects: stats.reconnects,
            bytes_in: stats.bytes_in,
            latency_us: LatencyTable {
                connect: LatencyRow::new(&stats.connect),
                first_byte: LatencyRow::new(&stats.first_byte),
                total: LatencyRow::new(&stats.total),
            },
            failed: stats.failures.total(),
            failures: failures(outcome),
            foreign_bytes: plan.ids.then_some(stats.foreign_bytes),
            statuses: (0..)
                .zip(stats.statuses)
                .filter(|(_, count)| *count > 0)
                .map(StatusRow::from)
                .collect(),
            client_cpu_s: outcome.client_cpu.as_secs_f64(),
            client_busy: outcome.client_cpu.as_secs_f64() / thread_time.max(1e-9),
            stopped: outcome.stopped,
            ring: outcome.ring.clone(),
        }
    }

    /// Whether every request got the expected reply. A run that was not stopped needs at least one
    /// such reply.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failed == 0 && self.foreign_bytes.unwrap_or(0) == 0 && (self.requests > 0 || self.stopped)
    }

    /// Formats the report as a JSON object and a line break.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers and strings are JSON");
        text.push('\n');
        text
    }

    /// Formats the report as a text table.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::render(self)
    }
}

impl LatencyRow {
    #[expect(clippy::cast_precision_loss, reason = "latencies have three significant digits")]
    fn new(latencies: &Latencies) -> Self {
        let at = |quantile| latencies.at(quantile) as f64 / 1e3;
        Self {
            count: latencies.count(),
            mean: latencies.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: latencies.max() as f64 / 1e3,
        }
    }
}

impl From<(usize, u64)> for StatusRow {
    fn from((class, count): (usize, u64)) -> Self {
        Self { class, count }
    }
}

fn failures(outcome: &Outcome) -> Vec<FailureRow> {
    let failures = &outcome.stats.failures;
    let rows = FailureKind::ALL.into_iter().filter(|kind| failures.of(*kind) > 0).map(|kind| FailureRow {
        kind: kind.name(),
        sentence: kind.sentence(),
        count: failures.of(kind),
        first_error: failures.errno(kind).map(|errno| std::io::Error::from(errno).to_string()),
    });
    rows.collect()
}

#[expect(clippy::cast_precision_loss, reason = "a count of requests")]
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
