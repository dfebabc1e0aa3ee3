//! Comparisons on the real machine. Two servers take turns on one core, and the client runs on
//! another.
//!
//! Figures depend on the machine and its other work, so only the ratio within a pair of
//! neighbouring turns is judged.

mod host;
mod report;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use serde::Serialize;

use crate::error::RigError;
use crate::guest::group_run_time;
use crate::image::servers::{CATALOGUE, Entry, ServerEnvironment};
use crate::image::{OurPrograms, programs};
use crate::load::{self, Done, Pace};
use crate::plan::{self, Load, Mode};
use crate::process::sleep;
use crate::session::{now_s, say, time_left};
use crate::variant::Variant;

pub(crate) use host::Running;
use host::pinned;
use report::Conditions;
pub(crate) use report::{CPU, Figure, Report, Shape};

/// Number of concurrent connections.
const IN_FLIGHT: u32 = 64;
/// The measured loads.
const MODES: [Mode; 2] = [Mode::Close, Mode::Keep];
/// The default peer for latency.
const LATENCY_PEER: &str = "nginx";
/// Duration of the full load that determines the maximum rate of a server.
const FULL_S: u32 = 2;
/// Share of the slower server's maximum rate at which latency is measured.
const SHARE: f64 = 0.1;
/// Time for a server to handle the end of the last connection and to sleep, so that the kernel
/// updates its run time.
const AFTER_LOAD: Duration = Duration::from_millis(60);

const CPU_SHAPE: Shape = Shape {
    about: "64 connections at a time",
    heads: ["server", "peer", "load"],
    sides: ["ours", "peer"],
    figures: &[CPU],
    note: "",
};

const LATENCY_SHAPE: Shape = Shape {
    figures: &[
        Figure { key: "p50_us", head: "p50 us", unit: 1.0, is_judged: true },
        Figure { key: "p99_us", head: "p99 us", unit: 1.0, is_judged: true },
    ],
    note: "requests per second",
    ..CPU_SHAPE
};

/// Options of comparisons in alternating pairs.
#[derive(Clone, Copy, Debug, clap::Args, Serialize)]
pub(crate) struct Rules {
    /// Pairs of turns for each comparison; a turn is one measurement of one side, and the side that
    /// starts alternates
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) pairs: u32,

    /// Core for the server
    #[arg(long, value_name = "CORE", default_value = "0")]
    pub(crate) server_core: u32,

    /// Core for the client
    #[arg(long, value_name = "CORE", default_value = "1")]
    pub(crate) client_core: u32,
}

/// A comparison of two sides that alternate.
#[derive(Clone, Debug)]
pub(crate) struct Contest<S> {
    /// Names in the report: doorbell, peer and load, or technique, driver and load.
    pub(crate) names: [String; 3],
    pub(crate) ours: S,
    pub(crate) peer: S,
    /// Promised maximum of the ratio, if there is one.
    pub(crate) at_most: Option<f64>,
}

/// Results of one turn, which is one measurement of one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Turn {
    /// Measured values by key.
    #[serde(flatten)]
    pub(crate) figures: BTreeMap<&'static str, f64>,
    /// Additional text for the report.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
}

/// One turn of doorbell and one turn of the peer.
pub(crate) type Pair = [Turn; 2];

/// A server of the catalogue under a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<L> {
    pub(crate) entry: &'static Entry,
    pub(crate) load: L,
}

impl<L: Display> Contest<Side<L>> {
    /// A comparison of two servers, named by the load of the first one.
    pub(crate) fn of(ours: Side<L>, peer: Side<L>, at_most: Option<f64>) -> Self {
        let names = [ours.entry.name.to_owned(), peer.entry.name.to_owned(), ours.load.to_string()];
        Self { names, ours, peer, at_most }
    }
}

impl<S> Contest<S> {
    /// The identifier matched by `--only`.
    pub(crate) fn id(&self) -> String {
        self.names.join("/")
    }
}

impl Rules {
    /// Runs the comparisons and prints a line of progress for each. `turns` runs the pairs of one
    /// comparison.
    pub(crate) fn hold<S>(
        &self,
        contests: &[Contest<S>],
        shape: Shape,
        mut turns: impl FnMut(&Contest<S>) -> Result<Vec<Pair>, String>,
    ) -> Result<Report, RigError> {
        let mut report = Report { shape, conditions: Conditions::read(self)?, contests: Vec::new() };
        let from_s = now_s();
        for (at, contest) in contests.iter().enumerate() {
            let shown = report.add(contest, turns(contest));
            let left = time_left(at + 1, contests.len(), now_s() - from_s);
            say(&format!("[{}/{}, {left}] {}: {shown}", at + 1, contests.len(), contest.id()));
        }
        Ok(report)
    }

    /// Runs doorbell first in even pairs and the peer first in odd pairs, so that neither side
    /// always follows the other.
    pub(crate) fn alternate<S: Copy>(
        &self,
        contest: &Contest<S>,
        mut turn: impl FnMut(S) -> Result<Turn, String>,
    ) -> Result<Vec<Pair>, String> {
        let mut pair = |at: u32| {
            if at.is_multiple_of(2) {
                Ok([turn(contest.ours)?, turn(contest.peer)?])
            } else {
                let peer = turn(contest.peer)?;
                Ok([turn(contest.ours)?, peer])
            }
        };
        (0..self.pairs).map(&mut pair).collect()
    }

    /// Measures CPU time for `requests` new connections, or for ten times as many requests on kept
    /// connections.
    fn cpu_turn(
        &self,
        server: &Running,
        load: Load,
        requests: u64,
        ours: &OurPrograms,
    ) -> Result<Turn, String> {
        let requests = if load.mode.keeps() { 10 * requests } else { requests };
        let ask = |count| Ok(self.ask(server, load, Pace::Count(count), ours)?.requests);
        Ok(Turn::of([("cpu_ns", cpu_time(server, requests, ask)?)]))
    }

    fn ask(&self, server: &Running, load: Load, pace: Pace, ours: &OurPrograms) -> Result<Done, String> {
        load::run(pinned(self.client_core, &ours.load)?, load, pace, server.port())?.complete()
    }

    fn start(&self, entry: &Entry, ours: &mut OurPrograms) -> Result<Running, String> {
        let program = programs::provide(entry, ours).map_err(|error| error.to_string())?;
        Running::start(&program, self.server_core, |program, place| entry.at(program, place))
    }
}

impl Turn {
    pub(crate) fn of<const N: usize>(figures: [(&'static str, f64); N]) -> Self {
        Self { figures: figures.into(), note: String::new() }
    }
}

/// Warms up a server with a tenth of the load, then measures the load. Returns the user and system
/// time of all threads of the server in nanoseconds per successful request, as counted by `ask`.
pub(crate) fn cpu_time(
    server: &Running,
    count: u64,
    mut ask: impl FnMut(u64) -> Result<u64, String>,
) -> Result<f64, String> {
    ask((count / 10).max(1))?;
    sleep(AFTER_LOAD);
    let before = group_run_time(server.group())?;
    let done = ask(count)?;
    sleep(AFTER_LOAD);
    Ok(share(group_run_time(server.group())? - before, done))
}

#[expect(clippy::cast_precision_loss, reason = "a load takes seconds, far below 2^53 ns")]
fn share(run_ns: i64, count: u64) -> f64 {
    run_ns as f64 / count as f64
}

/// Measures CPU time for the comparisons that match a pattern. The default is both drivers with
/// every peer, without variations of either.
pub(crate) fn cpu(
    patterns: &[String],
    requests: u64,
    rules: &Rules,
    mut given: impl FnMut() -> Result<OurPrograms, RigError>,
) -> Result<Report, RigError> {
    let contests = contests(patterns, |_| true)?;
    let mut ours = given()?;
    rules.hold(&contests, CPU_SHAPE, |contest| {
        provide(contest, &mut ours)?;
        rules.alternate(contest, |Side { entry, load }| {
            rules.cpu_turn(&rules.start(entry, &mut ours)?, load, requests, &ours)
        })
    })
}

/// Measures latency at a tenth of the maximum rate of the slower side. The default peer is nginx.
pub(crate) fn latency(
    patterns: &[String],
    seconds: u32,
    rules: &Rules,
    mut given: impl FnMut() -> Result<OurPrograms, RigError>,
) -> Result<Report, RigError> {
    let contests = contests(patterns, |peer| peer.name == LATENCY_PEER)?;
    let mut ours = given()?;
    rules.hold(&contests, LATENCY_SHAPE, |contest| {
        provide(contest, &mut ours)?;
        let mut ask = |Side { entry, load }, pace| {
            let server = rules.start(entry, &mut ours)?;
            rules.ask(&server, load, pace, &ours)
        };
        let mut full = |side| Ok::<_, String>(ask(side, Pace::Full { seconds: FULL_S })?.requests_per_s);
        let rate = (full(contest.ours)?.min(full(contest.peer)?) * SHARE).max(1.0);
        rules.alternate(contest, |side| {
            let [p50, p99] = ask(side, Pace::Rate { rate, seconds })?.p50_p99_us();
            Ok(Turn { note: format!("{rate:.0}"), ..Turn::of([("p50_us", p50), ("p99_us", p99)]) })
        })
    })
}

/// Measures CPU time of doorbell with two sets of settings.
pub(crate) fn variants(
    contests: &[Contest<(&Variant, Load)>],
    shape: Shape,
    requests: u64,
    rules: &Rules,
    ours: &OurPrograms,
) -> Result<Report, RigError> {
    rules.hold(contests, shape, |contest| {
        rules.alternate(contest, |(variant, load)| {
            let setup = |program: &str, place: &ServerEnvironment<'_>| variant.at(program, place);
            rules.cpu_turn(&Running::start(&ours.doorbell, rules.server_core, setup)?, load, requests, ours)
        })
    })
}

/// Builds or finds both programs, so that no turn has to wait for a build.
fn provide(contest: &Contest<Side<Load>>, ours: &mut OurPrograms) -> Result<(), String> {
    let mut provide = |side: Side<Load>| programs::provide(side.entry, ours).map(drop);
    provide(contest.ours).and_then(|()| provide(contest.peer)).map_err(|error| error.to_string())
}

fn contests(
    patterns: &[String],
    is_usual_peer: fn(&Entry) -> bool,
) -> Result<Vec<Contest<Side<Load>>>, RigError> {
    // A floor server may take the place of doorbell. Its result is the best that any server can
    // reach.
    let ours = CATALOGUE.iter().filter(|entry| entry.is_ours() || entry.is_floor());
    let all = ours.flat_map(|ours| {
        let peers = CATALOGUE.iter().filter(move |peer| !peer.is_ours() && peer.name != ours.name);
        peers.flat_map(move |peer| {
            let modes = MODES.into_iter().filter(|&mode| ours.serves(mode) && peer.serves(mode));
            modes.map(move |mode| {
                let load = Load::new(mode, IN_FLIGHT);
                Contest::of(Side { entry: ours, load }, Side { entry: peer, load }, None)
            })
        })
    });
    let is_usual = |contest: &Contest<Side<Load>>| {
        let (ours, peer) = (contest.ours.entry, contest.peer.entry);
        is_usual_peer(peer) && ours.is_ours() && !ours.is_variation() && !peer.is_variation()
    };
    plan::select(all, patterns, Contest::id, is_usual)
}

/// Whether this machine can measure a load.
pub(crate) fn is_native(load: Load) -> bool {
    MODES.contains(&load.mode)
}
