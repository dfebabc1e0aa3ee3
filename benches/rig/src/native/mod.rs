//! Comparisons on the real machine: a server of ours and a peer take turns on one core, the load generator runs on another.
//!
//! Does not know about: guests, tables. A figure here depends on the machine and what else it does, which is why only the ratio
//! within a pair of neighboring turns is judged.

mod client;
mod cpu;
mod host;
mod latency;
mod pairs;
mod report;
mod subject;

#[cfg(test)]
mod tests;

use crate::error::RigError;
use crate::image::servers::{CATALOGUE, Entry};
use crate::image::{OurPrograms, programs};
use crate::plan::{Load, Mode};
use crate::session::{now_s, say, time_left};
use crate::variant::Variant;

pub(crate) use cpu::Turn as CpuTurn;
pub(crate) use host::{Running, pause};
pub(crate) use pairs::Summary;
pub(crate) use report::{Conditions, Report};
pub(crate) use subject::Subject;

/// Connections at a time.
pub(crate) const IN_FLIGHT: u32 = 64;
/// The loads.
pub(crate) const MODES: [Mode; 2] = [Mode::Close, Mode::Keep];
/// Whose latency is compared unless `--only` asks for others.
const LATENCY_PEER: &str = "nginx";

/// A server of ours against a peer under one load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    pub(crate) ours: &'static Entry,
    pub(crate) peer: &'static Entry,
    pub(crate) mode: Mode,
}

/// How contests are held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Pairs of turns of each contest.
    pub(crate) pairs: u32,
    /// The core of the server.
    pub(crate) server_core: u32,
    /// The core of the load generator.
    pub(crate) client_core: u32,
    /// The measure.
    pub(crate) measure: Measure,
}

/// What a turn measures.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    /// CPU time of the server a request: so many of new connections, ten times as many of kept ones.
    Cpu { requests: u64 },
    /// Latency at a tenth of what the slower of the two can answer, for so many seconds.
    Latency { seconds: u32 },
}

/// Two turns, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<T> {
    pub(crate) ours: T,
    pub(crate) peer: T,
}

/// What became of a contest.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) contest: Contest,
    pub(crate) result: Result<Findings, String>,
}

/// The pairs of a contest.
#[derive(Clone, Debug)]
pub(crate) enum Findings {
    Cpu(Vec<Pair<CpuTurn>>),
    Latency { rate: f64, pairs: Vec<Pair<latency::Turn>> },
}

impl Contest {
    /// `ours/peer/mode/in flight`.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}/{}/{IN_FLIGHT}", self.ours.name, self.peer.name, self.mode)
    }

    fn matches(&self, pattern: &str) -> bool {
        format!("/{}/", self.id()).contains(&format!("/{}/", pattern.trim_matches('/')))
    }
}

/// The contests that match one of the patterns; without patterns those of both drivers with every peer in its tuned form, or
/// for latency with nginx.
pub(crate) fn contests(measure: Measure, patterns: &[String]) -> Result<Vec<Contest>, RigError> {
    // The floor may stand in our place: what it does not reach against a peer, nobody does.
    let ours = CATALOGUE.iter().filter(|entry| entry.is_ours() || entry.is_floor());
    let all = ours.flat_map(|ours| {
        let peers = CATALOGUE.iter().filter(move |peer| !peer.is_ours() && peer.name != ours.name);
        peers.flat_map(move |peer| {
            let modes = MODES.into_iter().filter(|&mode| ours.serves(mode) && peer.serves(mode));
            modes.map(move |mode| Contest { ours, peer, mode })
        })
    });
    let is_usual = |contest: &Contest| {
        let wanted = matches!(measure, Measure::Cpu { .. }) || contest.peer.name == LATENCY_PEER;
        let is_variation = contest.ours.is_variation() || contest.peer.is_variation();
        wanted && contest.ours.is_ours() && !is_variation
    };
    let chosen: Vec<Contest> = if patterns.is_empty() {
        all.filter(is_usual).collect()
    } else {
        all.filter(|contest| patterns.iter().any(|pattern| contest.matches(pattern))).collect()
    };
    if chosen.is_empty() { Err(RigError::NoRow { patterns: patterns.to_vec() }) } else { Ok(chosen) }
}

/// Holds the contests, one outcome for each, with a line of progress for each pair.
pub(crate) fn run(contests: &[Contest], rules: &Rules, ours: &mut OurPrograms) -> Result<Report, RigError> {
    let conditions = Conditions::read(rules)?;
    let from_s = now_s();
    let mut outcomes = Vec::new();
    for (at, contest) in contests.iter().enumerate() {
        let result = hold(contest, rules, ours);
        let left = time_left(at + 1, contests.len(), now_s() - from_s);
        let shown = match &result {
            Ok(findings) => findings.to_string(),
            Err(why) => format!("SKIP: {why}"),
        };
        say(&format!("[{}/{}, {left}] {}: {shown}", at + 1, contests.len(), contest.id()));
        outcomes.push(Outcome { contest: *contest, result });
    }
    Ok(Report { conditions, outcomes })
}

fn hold(contest: &Contest, rules: &Rules, ours: &mut OurPrograms) -> Result<Findings, String> {
    for entry in [contest.ours, contest.peer] {
        programs::provide(entry, ours).map_err(|error| error.to_string())?;
    }
    match rules.measure {
        Measure::Cpu { requests } => {
            let load = Load { mode: contest.mode, in_flight: IN_FLIGHT };
            let turn =
                |entry| cpu::turn(Subject::Entry(entry), load, requests_of(load, requests), rules, ours);
            alternate(contest.ours, contest.peer, rules.pairs, turn).map(Findings::Cpu)
        }
        Measure::Latency { seconds } => {
            let rate = latency::tenth_of_the_slower(contest, rules, ours)?;
            let pairs = alternate(contest.ours, contest.peer, rules.pairs, |entry| {
                latency::turn(entry, contest.mode, rate, seconds, rules, ours)
            });
            Ok(Findings::Latency { rate, pairs: pairs? })
        }
    }
}

/// CPU time of two of our own servers, which take turns as a server of ours and a peer do: `with` in our place.
pub(crate) fn between(
    with: &Variant,
    without: &Variant,
    load: Load,
    requests: u64,
    rules: &Rules,
    ours: &OurPrograms,
) -> Result<Vec<Pair<CpuTurn>>, String> {
    alternate(with, without, rules.pairs, |variant| {
        cpu::turn(Subject::Variant(variant), load, requests_of(load, requests), rules, ours)
    })
}

/// A kept connection's request is quick, so a turn has more of them.
fn requests_of(load: Load, requests: u64) -> u64 {
    if load.mode.keeps() { 10 * requests } else { requests }
}

/// Ours first in even pairs, the peer first in odd ones, so that neither always follows the other.
pub(crate) fn alternate<S: Copy, T>(
    ours: S,
    peer: S,
    count: u32,
    mut turn: impl FnMut(S) -> Result<T, String>,
) -> Result<Vec<Pair<T>>, String> {
    (0..count)
        .map(|at| {
            if at % 2 == 0 {
                let ours = turn(ours)?;
                Ok(Pair { ours, peer: turn(peer)? })
            } else {
                let peer = turn(peer)?;
                Ok(Pair { ours: turn(ours)?, peer })
            }
        })
        .collect()
}
