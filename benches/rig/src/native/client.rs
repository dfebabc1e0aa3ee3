//! One run of the load generator on its core, and what it reports.
//!
//! Does not know about: which server answers.

use std::path::Path;

use serde::Deserialize;

use super::host::pinned;
use crate::plan::Load;
use crate::tool;

/// What is read of the report.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(super) struct Done {
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) unstarted: u64,
    pub(super) requests_per_s: f64,
    pub(super) latency_us: Latencies,
}

/// Times of exchanges.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(super) struct Latencies {
    pub(super) total: Quantiles,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(super) struct Quantiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// When a load ends, and how fast it asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// As fast as answers come, so many in all.
    Count(u64),
    /// As fast as answers come, for so many seconds.
    Full { seconds: u32 },
    /// So many a second, for so many seconds after one of warm-up.
    Rate { rate: f64, seconds: u32 },
}

/// Requests that a fixed rate may leave unstarted at its end, in a thousand: fewer than the one in a hundred that p99 leaves out.
const UNSTARTED_MAX: u64 = 5;

/// Loads `url`. A failed request is an error: a server that does not do the work is not measured.
pub(super) fn run(program: &Path, core: u32, url: &str, load: Load, pace: Pace) -> Result<Done, String> {
    let mut command = pinned(core, program)?;
    command.args(arguments(load, pace)).arg(url);
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    let done: Done = serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = tool::tail(&String::from_utf8_lossy(&output.stderr));
        format!("the load generator gave no report ({error}, {}): {said}", output.status)
    })?;
    let Done { requests, failed, unstarted, .. } = done;
    if failed > 0 || requests == 0 || unstarted * 1000 > requests * UNSTARTED_MAX {
        return Err(format!(
            "{requests} requests answered, {failed} failed, {unstarted} not started in time; is the machine busy?"
        ));
    }
    Ok(done)
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
        let of = |mode, pace| arguments(Load { mode, in_flight: 64 }, pace).join(" ");
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
        assert_eq!((done.requests, done.latency_us.total), (5, Quantiles { p50: 3.5, p99: 9.0 }));
    }
}
