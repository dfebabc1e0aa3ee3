//! A plan of measurements: rows, their loads, and the lines that a guest writes. Both ends of the
//! serial console use these types.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::error::RigError;

/// The port of every server inside the guest.
pub(crate) const PORT: u16 = 8080;
/// The request target for every server.
pub(crate) const PATH: &str = "/livez";
/// The token of guarded servers, with the usual length of 128 bits in hexadecimal.
pub(crate) const AUTHORIZATION: &str = "Authorization: Bearer 6e1f0f0a9d3c4b7c8f5e2d1a0b9c8d7e";
/// Prefix of console lines that are meant for the rig.
pub(crate) const MARK: &str = "@rig ";

/// The plan of one boot.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Plan {
    /// Number of measurements per row.
    pub(crate) repeat: u32,
    /// Rows in the order of measurement.
    pub(crate) rows: Vec<Row>,
    /// The servers of the rows.
    pub(crate) servers: Vec<Server>,
    /// Programs that run once, in this order, after the rows.
    #[serde(default)]
    pub(crate) checks: Vec<Check>,
}

/// A program that runs once in the guest.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// The name in reports.
    pub(crate) name: String,
    /// Program and arguments, with paths of the guest.
    pub(crate) argv: Vec<String>,
    /// Time limit in seconds of the guest's time, after which the program is killed.
    pub(crate) seconds_max: u32,
}

/// The result of a check.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Checked {
    /// Exit status. `None` if a signal or the time limit ended the program, or if it did not start.
    pub(crate) status: Option<i32>,
    /// Duration in seconds of the guest's time.
    pub(crate) seconds: f64,
    /// The end of the combined output of both streams.
    pub(crate) output: String,
}

/// A server as a program to start.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Server {
    /// A unique name.
    pub(crate) name: String,
    /// Program and arguments, with paths of the guest.
    pub(crate) argv: Vec<String>,
    /// Name of the threads whose run time and context switches are counted; `None` counts those of
    /// all threads.
    #[serde(default)]
    pub(crate) thread: Option<String>,
}

/// One server under one load, which is one row of a table.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    /// Name of the server ([`Server::name`]).
    #[serde(rename = "server_name")]
    pub(crate) server: String,
    /// The load on the server.
    #[serde(flatten)]
    pub(crate) load: Load,
}

/// A load, written as `mode/in flight`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Load {
    /// Behaviour of the clients.
    pub(crate) mode: Mode,
    /// Number of concurrent connections.
    pub(crate) in_flight: u32,
}

/// Behaviour of the clients, and scheduling of both sides.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// A new connection for each request, with `Connection: close`. Both sides use SCHED_BATCH, so
    /// the server always has queued work.
    Close,
    /// As `close`, with 1,000 idle connections that sent one request before.
    CloseIdle1k,
    /// As `close`, with 50,000 idle connections.
    CloseIdle50k,
    /// As `close`, under default scheduling, so that the server is woken for each event.
    Free,
    /// As `close`, with the request sent 1 ms after the handshake.
    Gap,
    /// Keep-alive, one request per write; SCHED_BATCH.
    Keep,
    /// As `keep`, under default scheduling.
    KeepFree,
    /// Keep-alive, 16 requests per write; SCHED_BATCH.
    #[serde(rename = "keep-16")]
    #[value(name = "keep-16")]
    Keep16,
    /// As `keep`, each request with a bearer token.
    KeepToken,
}

/// Output of the guest: one JSON value after each [`MARK`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// The check at this index of the plan has ended.
    Checked { check: usize, report: Checked },
    /// All rows and checks have been tried.
    Done,
    /// The row at this index of the plan could not be measured, with the reason.
    Failed { row: usize, detail: String },
    /// One measurement of the row at this index of the plan.
    Measured { row: usize, sample: Sample },
    /// The first line, with the release of the booted kernel.
    Up { kernel: String },
}

/// One measurement, which is the difference between a long and a short load. Start-up, the first
/// connections and the end of a load cancel out.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Sample {
    /// Number of requests by which the long load exceeds the short load.
    pub(crate) requests: u64,
    /// Instructions of the server, kernel included.
    pub(crate) server: i64,
    /// Instructions of the whole machine, except idle time.
    pub(crate) machine: i64,
    /// Virtual time in nanoseconds. It exceeds `machine` if the machine was idle.
    pub(crate) elapsed: i64,
    /// Context switches of the server, voluntary or not.
    pub(crate) switches: i64,
    /// Requests that failed or got a wrong byte, in both loads.
    pub(crate) failed: u64,
}

impl Sample {
    /// Returns the difference from an earlier reading.
    pub(crate) const fn less(&self, before: &Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            server: self.server - before.server,
            machine: self.machine - before.machine,
            elapsed: self.elapsed - before.elapsed,
            switches: self.switches - before.switches,
            failed: 0,
        }
    }
}

impl Mode {
    /// Whether client and server run under SCHED_BATCH, where a woken process does not preempt the
    /// running one.
    pub(crate) const fn is_batch(self) -> bool {
        !matches!(self, Self::Free | Self::KeepFree)
    }

    /// Options for the load generator.
    pub(crate) const fn load_args(self) -> &'static [&'static str] {
        match self {
            Self::Close | Self::CloseIdle1k | Self::CloseIdle50k | Self::Free => &[],
            Self::Gap => &["--gap", "1ms"],
            Self::Keep | Self::KeepFree => &["--keep-alive"],
            Self::Keep16 => &["--keep-alive", "--pipeline", "16"],
            Self::KeepToken => &["--keep-alive", "--header", AUTHORIZATION],
        }
    }

    const fn requests_a_write(self) -> u64 {
        if matches!(self, Self::Keep16) { 16 } else { 1 }
    }

    /// Number of idle connections during the load.
    pub(crate) const fn idle_conns(self) -> u32 {
        match self {
            Self::CloseIdle1k => 1_000,
            Self::CloseIdle50k => 50_000,
            _ => 0,
        }
    }

    /// Whether the load keeps its connections open.
    pub(crate) const fn keeps(self) -> bool {
        matches!(self, Self::Keep | Self::KeepFree | Self::Keep16 | Self::KeepToken)
    }
}

impl Row {
    /// The identifier `server/mode/in flight`, which `--only` matches.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.server, self.load)
    }
}

/// The name of a value on the command line.
pub(crate) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |named| named.get_name().to_owned())
}

/// Whether `pattern` is a sequence of whole parts of `id`, such as `free`, `doorbell-epoll/close`
/// or `close/64`.
pub(crate) fn matches(id: &str, pattern: &str) -> bool {
    format!("/{id}/").contains(&format!("/{}/", pattern.trim_matches('/')))
}

/// The elements of `all` whose id matches a pattern. Without patterns, the default elements.
pub(crate) fn select<T>(
    all: impl Iterator<Item = T>,
    patterns: &[String],
    id: impl Fn(&T) -> String,
    is_usual: impl Fn(&T) -> bool,
) -> Result<Vec<T>, RigError> {
    let is_chosen = |one: &T| match patterns {
        [] => is_usual(one),
        _ => patterns.iter().any(|pattern| matches(&id(one), pattern)),
    };
    let chosen: Vec<T> = all.filter(is_chosen).collect();
    if chosen.is_empty() { Err(RigError::NoRow { patterns: patterns.to_vec() }) } else { Ok(chosen) }
}

impl Load {
    /// A load with this mode and number of concurrent connections.
    pub(crate) const fn new(mode: Mode, in_flight: u32) -> Self {
        Self { mode, in_flight }
    }

    /// Number of requests in the short and in the long load. The short load is long enough to fill
    /// every buffer and cache once.
    pub(crate) fn requests(self) -> (u64, u64) {
        let round = u64::from(self.in_flight) * self.mode.requests_a_write();
        let short = (2 * round).max(300);
        let more = if self.mode.keeps() { 8_000 * self.mode.requests_a_write() } else { 2_000 };
        (short, short + more.max(6 * round))
    }
}

impl std::str::FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(mode, in_flight)| {
            let in_flight = in_flight.parse().ok().filter(|count| (1..=4096).contains(count))?;
            Some(Self::new(Mode::from_str(mode, false).ok()?, in_flight))
        });
        parsed.ok_or_else(|| {
            let modes: Vec<String> = Mode::value_variants().iter().map(Mode::to_string).collect();
            format!(
                "expected MODE/N, such as close/64: a mode of {}, and 1 to 4096 requests in flight",
                modes.join(", ")
            )
        })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.mode, self.in_flight)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&name_of(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mode: Mode, in_flight: u32) -> Row {
        Row { server: "doorbell-epoll".into(), load: Load::new(mode, in_flight) }
    }

    #[test]
    fn only_matches_whole_parts() {
        let row = row(Mode::Close, 64);
        for good in
            ["close", "64", "doorbell-epoll", "doorbell-epoll/close", "close/64", "doorbell-epoll/close/64"]
        {
            assert!(matches(&row.id(), good), "{good}");
        }
        for bad in ["doorbell", "clos", "6", "epoll/close", "close/6", "free", "64/close"] {
            assert!(!matches(&row.id(), bad), "{bad}");
        }
    }

    #[test]
    fn a_long_load_is_several_rounds_longer_than_a_short_one() {
        for &mode in Mode::value_variants() {
            for in_flight in [1, 8, 64, 512] {
                let row = row(mode, in_flight);
                let (short, long) = row.load.requests();
                let round = u64::from(in_flight) * mode.requests_a_write();
                assert!(short >= 2 * round && long - short >= 6 * round, "{}", row.id());
                assert!(long <= 150_000, "the load {} would take minutes", row.id());
            }
        }
    }

    #[test]
    fn names_are_those_of_the_console_lines() {
        for &mode in Mode::value_variants() {
            assert_eq!(serde_json::to_string(&mode).unwrap(), format!("\"{mode}\""));
        }
    }

    #[test]
    fn idle_connections_are_those_of_the_name() {
        for &mode in Mode::value_variants() {
            let name = mode.to_string();
            let (_, count) = name.split_once("-idle").unwrap_or_default();
            let count = count.replace('k', "000").parse().unwrap_or(0);
            assert_eq!(mode.idle_conns(), count, "{mode}");
        }
    }

    #[test]
    fn loads_are_read_and_written() {
        for text in ["close/64", "close-idle50k/64", "keep-16/1", "free/4096"] {
            assert_eq!(text.parse::<Load>().unwrap().to_string(), text);
        }
        for text in ["", "close", "close/", "close/0", "close/4097", "clos/64", "/64", "close/64/1"] {
            assert!(text.parse::<Load>().unwrap_err().contains("close/64"), "{text}");
        }
    }

    #[test]
    fn events_survive_the_console() {
        let events = [
            Event::Up { kernel: "6.12".into() },
            Event::Checked {
                check: 1,
                report: Checked { status: Some(3), seconds: 0.5, output: "a\nb".into() },
            },
            Event::Measured { row: 3, sample: Sample { requests: 5, server: -7, ..Sample::default() } },
            Event::Failed { row: 1, detail: "a\nb \"c\"".into() },
            Event::Done,
        ];
        for event in events {
            let line = serde_json::to_string(&event).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
        }
    }
}
