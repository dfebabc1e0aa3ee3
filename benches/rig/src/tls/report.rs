//! What contests of TLS came to: a table for people, JSON for machines.
//!
//! Does not know about: how turns are measured.

use std::fmt::Write;

use serde::Serialize;

use super::{Contest, IN_FLIGHT, Outcome, Turn};
use crate::native::{Conditions, Pair, Summary};
use crate::report::{median, thousands};

/// A peer that takes this many times our CPU time keeps the promise.
const PROMISED: f64 = 1.15;

/// All contests of a run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(super) conditions: Conditions,
    pub(super) outcomes: Vec<Outcome>,
}

#[derive(Serialize)]
struct Line<'a> {
    ours: &'a str,
    ours_load: super::TlsLoad,
    peer: &'a str,
    peer_load: super::TlsLoad,
    in_flight: u32,
    failure: Option<&'a str>,
    ratio: Option<Summary>,
    holds: Option<bool>,
    ours_turns: Vec<&'a Turn>,
    peer_turns: Vec<&'a Turn>,
}

impl Report {
    /// Whether every contest was held to its end.
    pub(crate) fn is_complete(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.result.is_ok())
    }

    /// For machines.
    pub(crate) fn json(&self) -> String {
        #[derive(Serialize)]
        struct All<'a> {
            conditions: &'a Conditions,
            promised: f64,
            contests: Vec<Line<'a>>,
        }
        let contests = self.outcomes.iter().map(line).collect();
        let all = All { conditions: &self.conditions, promised: PROMISED, contests };
        let mut text = serde_json::to_string_pretty(&all).expect("a report is plain data");
        text.push('\n');
        text
    }

    /// For people, in Markdown: the middle of each side, and the ratio with its lowest and highest pair.
    pub(crate) fn table(&self) -> String {
        let Conditions { kernel, cpu, server_core, client_core, pairs, .. } = &self.conditions;
        let mut text = format!(
            "Linux {kernel}, {cpu}; TLS 1.3, ECDSA P-256; server on core {server_core}, client on core {client_core}; {IN_FLIGHT} \
             connections at a time; {pairs} alternating pairs: middle, and for ratios (lowest to highest). Promised: at most {:.2}\n\n\
             | doorbell | peer | load | cipher suites | CPU us | peer | a second of a core | peer | ratio | holds |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
            1.0 / PROMISED
        );
        for outcome in &self.outcomes {
            if let Ok(pairs) = &outcome.result {
                writeln!(text, "| {} |", cells(&outcome.contest, pairs).join(" | "))
                    .expect("a string takes everything");
            }
        }
        for outcome in &self.outcomes {
            if let Err(why) = &outcome.result {
                writeln!(text, "{}: skipped: {why}", outcome.contest.id())
                    .expect("a string takes everything");
            }
        }
        text
    }
}

/// What is said of a contest while the others are held.
pub(super) fn in_short(pairs: &[Pair<Turn>]) -> String {
    let ratio = summary(pairs).map_or_else(|| "-".to_owned(), |summary| summary.to_string());
    let [ours, peer] = middles(pairs);
    format!("{} us to {} us, ratio {ratio}", us(ours), us(peer))
}

fn cells(contest: &Contest, pairs: &[Pair<Turn>]) -> Vec<String> {
    let load = contest.ours.load;
    let peer_group = match contest.peer.load.group {
        group if group == load.group => String::new(),
        group => format!(", {group}"),
    };
    let [ours, peer] = middles(pairs);
    let a_second = |cpu_ns: Option<f64>| cpu_ns.map_or_else(|| "-".to_owned(), |ns| thousands(1e9 / ns));
    vec![
        contest.ours.server.name.to_owned(),
        format!("{}{peer_group}", contest.peer.server.name),
        format!("{}, {}, {}", load.kind, load.offer, load.group),
        suites(pairs),
        us(ours),
        us(peer),
        a_second(ours),
        a_second(peer),
        summary(pairs).map_or_else(|| "-".to_owned(), |summary| summary.to_string()),
        holds(contest, pairs).map_or("", |holds| if holds { "yes" } else { "no" }).to_owned(),
    ]
}

fn line(outcome: &Outcome) -> Line<'_> {
    let Contest { ours, peer } = &outcome.contest;
    let pairs = outcome.result.as_deref().unwrap_or_default();
    Line {
        ours: ours.server.name,
        ours_load: ours.load,
        peer: peer.server.name,
        peer_load: peer.load,
        in_flight: IN_FLIGHT,
        failure: outcome.result.as_ref().err().map(String::as_str),
        ratio: summary(pairs),
        holds: holds(&outcome.contest, pairs),
        ours_turns: pairs.iter().map(|pair| &pair.ours).collect(),
        peer_turns: pairs.iter().map(|pair| &pair.peer).collect(),
    }
}

/// Whether the middle of the ratios keeps the promise; none is made for a server against itself.
fn holds(contest: &Contest, pairs: &[Pair<Turn>]) -> Option<bool> {
    let is_promised = contest.ours.server.name != contest.peer.server.name;
    summary(pairs).filter(|_| is_promised).map(|summary| summary.median * PROMISED <= 1.0)
}

fn summary(pairs: &[Pair<Turn>]) -> Option<Summary> {
    Summary::of(pairs, |turn| turn.cpu_ns)
}

/// Nanoseconds of ours and of the peer.
fn middles(pairs: &[Pair<Turn>]) -> [Option<f64>; 2] {
    let of = |side: fn(&Pair<Turn>) -> &Turn| {
        median(&pairs.iter().map(|pair| side(pair).cpu_ns).collect::<Vec<f64>>())
    };
    [of(|pair| &pair.ours), of(|pair| &pair.peer)]
}

/// The one both chose, or both.
fn suites(pairs: &[Pair<Turn>]) -> String {
    let Some(Pair { ours, peer }) = pairs.first() else { return "-".to_owned() };
    let [ours, peer] = [ours, peer].map(|turn| turn.suite.trim_start_matches("TLS13_"));
    if ours == peer { ours.to_owned() } else { format!("{ours}; {peer}") }
}

fn us(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1e3))
}
