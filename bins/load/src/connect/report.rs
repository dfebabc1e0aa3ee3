//! Results of a study, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io;

use serde::Serialize;

use super::sample::Sample;
use super::{Run, Study};

/// The figures of a study. Its JSON form is stable: keys are added, not changed.
#[derive(Clone, Debug, Serialize)]
pub struct StudyReport {
    /// `uname -r` up to the first `-`, without the suffix that a distribution adds.
    pub kernel: String,
    /// Local ports of the network namespace, first and last.
    pub ports: [u16; 2],
    /// The target address.
    pub target: String,
    /// Number of source addresses.
    pub sources: usize,
    /// Connections of each run, all open at once.
    pub connections: u32,
    /// Maximum number of connections per helper process of this study.
    pub connections_per_process: u32,
    /// A row for each run.
    pub runs: Vec<Row>,
}

/// One run. Times are in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `tcp` or `udp`.
    pub transport: &'static str,
    /// The requested choice of ports.
    pub asked: String,
    /// The strategy that was used.
    pub strategy: String,
    /// Processes that held the connections.
    pub processes: u32,
    /// Connections that were made.
    pub connected: u32,
    /// Connections that failed.
    pub failed: u32,
    /// Number of failures by error.
    pub errors: BTreeMap<String, u32>,
    /// Number of attempts that were repeated with other candidate ports, because no candidate was
    /// free.
    pub retries: u64,
    /// Time in seconds to make all connections, including sockets and options.
    pub seconds: f64,
    /// Connections per second during that time.
    pub per_s: f64,
    /// Times of `connect()` on even ports.
    pub even: Half,
    /// Times of `connect()` on odd ports.
    pub odd: Half,
    /// Median of odd ports / median of even ports. `None` if either has no connection.
    pub odd_over_even: Option<f64>,
    /// Median time to a connected socket, including every attempt.
    pub whole_p50: f64,
    /// The run divided into at most twenty parts, in order.
    pub by_number: Vec<Part>,
}

/// Quantiles of `connect()` on one half of the ports.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct Half {
    pub count: u32,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// Consecutive connections of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Part {
    /// Number of the first connection, starting at 0.
    pub from: usize,
    /// Median on even ports; `None` without connections.
    pub even_p50: Option<f64>,
    /// Median on odd ports; `None` without connections.
    pub odd_p50: Option<f64>,
}

const PARTS: usize = 20;

impl StudyReport {
    /// Summarizes runs.
    #[must_use]
    pub fn new(study: &Study, runs: &[Run]) -> Self {
        Self {
            kernel: kernel(),
            ports: [study.ports.first(), study.ports.last()],
            target: study.target.to_string(),
            sources: study.sources.len().max(1),
            connections: study.conns,
            connections_per_process: study.conns_per_helper,
            runs: runs.iter().map(Row::new).collect(),
        }
    }

    /// Whether every connection succeeded.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.runs.iter().all(|row| row.failed == 0)
    }

    /// Formats the report as JSON with a line break at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers and names");
        text.push('\n');
        text
    }

    /// Formats the report as a table.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a write to a string cannot fail");
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let [first, last] = self.ports;
        writeln!(
            out,
            "{} connections to one port of {}, all open at once, from {} address{}\nLinux {}, ports {first}-{last} ({})\n",
            self.connections,
            self.target,
            self.sources,
            if self.sources == 1 { "" } else { "es" },
            self.kernel,
            u32::from(last) - u32::from(first) + 1,
        )?;
        writeln!(
            out,
            "  {:<12}{:>9}{:>9}{:>10}{:>10}{:>10}{:>10}{:>9}{:>10}{:>9}{:>11}",
            "ports by",
            "failed",
            "retries",
            "even p50",
            "p99",
            "odd p50",
            "p99",
            "odd/even",
            "whole p50",
            "total",
            "a second"
        )?;
        for row in &self.runs {
            let ratio = row.odd_over_even.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            writeln!(
                out,
                "  {:<12}{:>9}{:>9}{:>10}{:>10}{:>10}{:>10}{:>9}{:>10}{:>9}{:>11.0}",
                format!("{} {}", row.transport, row.name()),
                row.failed,
                row.retries,
                time(row.even.p50, row.even.count),
                time(row.even.p99, row.even.count),
                time(row.odd.p50, row.odd.count),
                time(row.odd.p99, row.odd.count),
                ratio,
                time(row.whole_p50, row.connected),
                format!("{:.2} s", row.seconds),
                row.per_s,
            )?;
        }
        for row in self.runs.iter().filter(|row| row.failed > 0) {
            let kinds: Vec<_> =
                row.errors.iter().map(|(name, count)| format!("{count} times {name}")).collect();
            writeln!(out, "\n  {} {}: {}", row.transport, row.name(), kinds.join(", "))?;
        }
        Ok(())
    }
}

impl Row {
    fn new(run: &Run) -> Self {
        let good = || run.samples.iter().filter(|sample| sample.is_connected());
        let half = |odd: bool| Half::new(good().filter(|sample| sample.is_odd() == odd));
        let (even, odd) = (half(false), half(true));
        let mut errors = BTreeMap::new();
        for sample in run.samples.iter().filter(|sample| !sample.is_connected()) {
            *errors.entry(io::Error::from_raw_os_error(sample.errno).to_string()).or_default() += 1;
        }
        let connected = count(good().count());
        let seconds = run.samples.iter().map(|sample| f64::from(sample.whole_ns)).sum::<f64>() / 1e9;
        Self {
            transport: run.transport.name(),
            asked: run.asked.to_string(),
            strategy: run.strategy.to_string(),
            processes: run.helpers,
            connected,
            failed: errors.values().sum(),
            errors,
            retries: run.samples.iter().map(|sample| u64::from(sample.retries)).sum(),
            seconds,
            per_s: if seconds > 0.0 { f64::from(connected) / seconds } else { 0.0 },
            odd_over_even: (even.p50 > 0.0 && odd.count > 0).then(|| odd.p50 / even.p50),
            even,
            odd,
            whole_p50: quantile(&sorted(good().map(|sample| sample.whole_ns)), 0.5),
            by_number: parts(&run.samples),
        }
    }

    /// The requested choice, with the strategy that was used if it has another name.
    pub(super) fn name(&self) -> String {
        if self.asked == self.strategy {
            self.asked.clone()
        } else {
            format!("{}={}", self.asked, self.strategy)
        }
    }
}

impl Half {
    fn new<'a>(samples: impl Iterator<Item = &'a Sample>) -> Self {
        let times = sorted(samples.map(|sample| sample.connect_ns));
        Self {
            count: count(times.len()),
            p50: quantile(&times, 0.5),
            p90: quantile(&times, 0.9),
            p99: quantile(&times, 0.99),
            max: quantile(&times, 1.0),
        }
    }
}

fn kernel() -> String {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    release.split('-').next().unwrap_or_default().to_owned()
}

fn parts(samples: &[Sample]) -> Vec<Part> {
    let len = samples.len().div_ceil(PARTS).max(1);
    let parts = samples.chunks(len).enumerate().map(|(index, part)| {
        let median = |odd: bool| {
            let half =
                Half::new(part.iter().filter(|sample| sample.is_connected() && sample.is_odd() == odd));
            (half.count > 0).then_some(half.p50)
        };
        Part { from: index * len, even_p50: median(false), odd_p50: median(true) }
    });
    parts.collect()
}

fn sorted(times: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut times: Vec<u32> = times.collect();
    times.sort_unstable();
    times
}

/// The quantile `share` (0 to 1) of the times, in microseconds; 0 without samples.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index of a list"
)]
fn quantile(sorted: &[u32], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).map_or(0.0, |nanos| f64::from(*nanos) / 1e3)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("CONNS_MAX fits")
}

/// Formats a time, given in microseconds, in us or ms.
fn time(micros: f64, count: u32) -> String {
    match micros {
        _ if count == 0 => "-".to_owned(),
        micros if micros < 10.0 => format!("{micros:.2} us"),
        micros if micros < 1e3 => format!("{micros:.1} us"),
        micros => format!("{:.2} ms", micros / 1e3),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::connect::{LOCALHOST, Transport};
    use doorbell_egress::{PortChoice, PortRange, Strategy};

    pub(in crate::connect) fn sample(port: u16, micros: u32) -> Sample {
        Sample { connect_ns: micros * 1_000, whole_ns: micros * 2_000, port, ..Sample::default() }
    }

    pub(in crate::connect) fn study(samples: Vec<Sample>) -> (Study, Vec<Run>) {
        let study = Study {
            transports: vec![Transport::Tcp],
            strategies: vec![PortChoice::Auto],
            conns: count(samples.len()),
            sources: Vec::new(),
            target: LOCALHOST,
            ports: PortRange::DEFAULT,
            conns_per_helper: 1_000,
        };
        let run = Run {
            transport: Transport::Tcp,
            asked: PortChoice::Auto,
            strategy: Strategy::FullRange,
            helpers: 2,
            samples,
        };
        (study, vec![run])
    }

    #[test]
    fn halves_are_separate_and_failures_are_not_timed() {
        let mut samples = vec![sample(2, 10), sample(4, 30), sample(6, 20), sample(3, 100), sample(5, 300)];
        samples.push(Sample { errno: 99, whole_ns: 1_000, retries: 7, ..Sample::default() });
        let (study, runs) = study(samples);
        let report = StudyReport::new(&study, &runs);
        let row = &report.runs[0];
        assert_eq!((row.connected, row.failed, row.retries), (5, 1, 7));
        assert_eq!((row.even.count, row.even.p50, row.even.max), (3, 20.0, 30.0));
        assert_eq!((row.odd.count, row.odd.p50, row.odd.p99), (2, 100.0, 300.0));
        assert_eq!((row.odd_over_even, row.whole_p50), (Some(5.0), 60.0));
        assert_eq!(row.errors.values().sum::<u32>(), 1);
        assert!(!report.is_clean());
        let text = report.to_text();
        for part in ["tcp auto=full", "5.00", "20.0 us", "1 times Cannot assign", "Linux "] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["runs"][0]["odd"]["count"], 2);
        assert_eq!(json["runs"][0]["by_number"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn one_half_alone_has_no_ratio() {
        let (study, runs) = study(vec![sample(2, 10); 40]);
        let report = StudyReport::new(&study, &runs);
        assert_eq!((report.runs[0].odd_over_even, report.runs[0].by_number.len()), (None, PARTS));
        assert!(report.is_clean() && report.to_text().contains(" - "));
    }

    #[test]
    fn quantiles_are_times_that_occurred() {
        let times = sorted([4_000, 1_000, 3_000, 2_000].into_iter());
        for (share, want) in [(0.5, 2.0), (0.51, 3.0), (0.99, 4.0), (1.0, 4.0), (0.0, 1.0)] {
            assert!((quantile(&times, share) - want).abs() < 1e-9, "{share}");
        }
        assert!(quantile(&[], 0.5).abs() < 1e-9);
        assert_eq!(
            (time(4_590.0, 1), time(9.0, 1), time(1.0, 0)),
            ("4.59 ms".into(), "9.00 us".into(), "-".into())
        );
    }
}
