//! One turn of a server: how long requests take at a rate it can easily answer.
//!
//! Does not know about: the other server.

use serde::Serialize;

use super::client::{self, Pace};
use super::host::Running;
use super::subject::Subject;
use super::{Contest, IN_FLIGHT, Rules};
use crate::image::OurPrograms;
use crate::image::servers::Entry;
use crate::plan::{Load, Mode, PATH};

/// How long a server is loaded in full to learn its rate.
const FULL_S: u32 = 2;
/// The share of that rate.
const SHARE: f64 = 0.1;

/// What one turn found: from when a request was due to the end of its reply, and with `close` of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Turn {
    /// Half are faster, microseconds.
    pub(crate) p50_us: f64,
    /// One in a hundred is slower, microseconds.
    pub(crate) p99_us: f64,
}

/// The rate both are asked at: a tenth of what the slower of them answers.
pub(super) fn tenth_of_the_slower(
    contest: &Contest,
    rules: &Rules,
    ours: &OurPrograms,
) -> Result<f64, String> {
    let full = |entry: &Entry| {
        let done = load(entry, contest.mode, Pace::Full { seconds: FULL_S }, rules, ours)?;
        Ok::<f64, String>(done.requests_per_s)
    };
    Ok((full(contest.ours)?.min(full(contest.peer)?) * SHARE).max(1.0))
}

/// Starts the server and loads it at `rate`.
pub(super) fn turn(
    entry: &Entry,
    mode: Mode,
    rate: f64,
    seconds: u32,
    rules: &Rules,
    ours: &OurPrograms,
) -> Result<Turn, String> {
    let done = load(entry, mode, Pace::Rate { rate, seconds }, rules, ours)?;
    Ok(Turn { p50_us: done.latency_us.total.p50, p99_us: done.latency_us.total.p99 })
}

fn load(
    entry: &Entry,
    mode: Mode,
    pace: Pace,
    rules: &Rules,
    ours: &OurPrograms,
) -> Result<client::Done, String> {
    let asked = Load { mode, in_flight: IN_FLIGHT };
    let server = Running::start(Subject::Entry(entry), rules.server_core, ours)?;
    client::run(&ours.load, rules.client_core, &server.url(PATH), asked, pace)
        .map_err(|why| format!("{}: {why}", entry.name))
}
