//! A run of the load generator and its report.

use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::plan::{Load, PATH};
use crate::tool;

/// The parts of the load generator's report that the rig uses.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Done {
    /// Requests with a correct reply.
    pub(crate) requests: u64,
    /// Requests without a correct reply.
    pub(crate) failed: u64,
    /// Requests that were due at a fixed rate and not started before the end of the run.
    #[serde(default)]
    unstarted: u64,
    #[serde(default)]
    pub(crate) requests_per_s: f64,
    /// Latency in microseconds from the due time of a request to the end of its reply, or with
    /// `close` to the end of its connection.
    #[serde(default)]
    latency_us: Value,
}

/// How long a load runs, and at which rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// As fast as replies arrive, up to a total.
    Count(u64),
    /// As fast as replies arrive, for a time.
    Full { seconds: u32 },
    /// At a rate, for a time after one second of warm-up.
    Rate { rate: f64, seconds: u32 },
}

/// Maximum number of unstarted requests per thousand at a fixed rate. It is below the one per cent
/// that p99 ignores.
const UNSTARTED_MAX: u64 = 5;

/// Runs `command`, which starts the load generator, against the server at `port`.
pub(crate) fn run(mut command: Command, load: Load, pace: Pace, port: u16) -> Result<Done, String> {
    command.args(arguments(load, pace)).arg(format!("http://127.0.0.1:{port}{PATH}"));
    let output = command.output().map_err(|error| format!("the load generator does not start: {error}"))?;
    // Exit code 1 means that requests failed (with a report), or that no request could be sent
    // (without a report).
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = tool::tail(&String::from_utf8_lossy(&output.stderr));
        format!("the load generator gave no report ({error}, {}): {said}", output.status)
    })
}

impl Done {
    /// Returns itself, or an error if a request failed or too many requests were not started,
    /// because only a correct server is measured.
    pub(crate) fn complete(self) -> Result<Self, String> {
        let Self { requests, failed, unstarted, .. } = &self;
        if *failed > 0 || *requests == 0 || unstarted * 1000 > requests * UNSTARTED_MAX {
            return Err(format!(
                "{requests} requests answered, {failed} failed, {unstarted} not started in time; is the machine busy?"
            ));
        }
        Ok(self)
    }

    /// Median and 99th percentile in microseconds.
    pub(crate) fn p50_p99_us(&self) -> [f64; 2] {
        ["p50", "p99"].map(|quantile| self.latency_us["total"][quantile].as_f64().unwrap_or(f64::NAN))
    }
}

fn arguments(load: Load, pace: Pace) -> Vec<String> {
    let mut args: Vec<String> = ["--quiet", "--output", "json", "--connections"].map(Into::into).into();
    args.push(load.in_flight.to_string());
    args.extend(load.mode.load_args().iter().map(|&word| word.to_owned()));
    let timed = |seconds: u32| ["--duration".to_owned(), format!("{seconds}s")];
    match pace {
        Pace::Count(count) => args.extend(["--requests".to_owned(), count.to_string()]),
        Pace::Full { seconds } => args.extend(timed(seconds)),
        Pace::Rate { rate, seconds } => {
            args.extend(timed(seconds));
            args.extend(["--rate".to_owned(), format!("{rate:.0}"), "--warm-up".into(), "1s".into()]);
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Mode;

    #[test]
    fn arguments_of_each_pace() {
        let of = |mode, pace| arguments(Load::new(mode, 64), pace).join(" ");
        let first = "--quiet --output json --connections 64";
        assert_eq!(of(Mode::Close, Pace::Count(7)), format!("{first} --requests 7"));
        let full = Pace::Full { seconds: 2 };
        assert_eq!(of(Mode::Keep, full), format!("{first} --keep-alive --duration 2s"));
        let rate = Pace::Rate { rate: 1234.6, seconds: 3 };
        assert_eq!(of(Mode::Close, rate), format!("{first} --duration 3s --rate 1235 --warm-up 1s"));
    }

    #[test]
    fn what_is_needed_is_found_in_a_report() {
        let report = r#"{"requests": 5, "failed": 0, "unstarted": 0, "requests_per_s": 2.5, "ring": "x",
            "latency_us": {"connect": {"p50": 1.0}, "total": {"count": 5, "p50": 3.5, "p99": 9.0, "max": 10.0}}}"#;
        let done: Done = serde_json::from_str(report).unwrap();
        assert_eq!((done.requests, done.p50_p99_us()), (5, [3.5, 9.0]));
        let done: Done = serde_json::from_str(r#"{"requests": 1999, "failed": 1, "mode": "new"}"#).unwrap();
        assert_eq!((done.requests, done.failed), (1999, 1));
        assert!(done.complete().is_err());
        assert!(serde_json::from_str::<Done>(r#"{"requests": 1}"#).is_err());
    }
}
