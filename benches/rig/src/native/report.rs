//! What contests came to: a table for people, JSON for machines.
//!
//! Does not know about: how turns are measured.

use std::fmt::{self, Write};
use std::fs;
use std::thread;

use serde::{Deserialize, Serialize};

use super::pairs::middle;
use super::{Findings, IN_FLIGHT, Outcome, Pair, Rules, Summary, cpu, latency};
use crate::error::RigError;
use crate::plan::Mode;
use crate::report::thousands;

/// All contests of a run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(super) conditions: Conditions,
    pub(super) outcomes: Vec<Outcome>,
}

/// The machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Conditions {
    /// Release of its kernel.
    pub(crate) kernel: String,
    /// What it says of its processor.
    pub(crate) cpu: String,
    /// How many there are.
    pub(crate) cpus: usize,
    /// The core of the server.
    pub(crate) server_core: u32,
    /// The core of the load generator.
    pub(crate) client_core: u32,
    /// Pairs of turns of each comparison.
    pub(crate) pairs: u32,
}

#[derive(Serialize)]
struct Line<'a> {
    ours: &'a str,
    peer: &'a str,
    mode: Mode,
    in_flight: u32,
    failure: Option<&'a str>,
    #[serde(flatten)]
    figures: Option<Figures<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "measure", rename_all = "kebab-case")]
enum Figures<'a> {
    Cpu {
        ratio: Option<Summary>,
        ours: Vec<&'a cpu::Turn>,
        peer: Vec<&'a cpu::Turn>,
    },
    Latency {
        rate: f64,
        p50_ratio: Option<Summary>,
        p99_ratio: Option<Summary>,
        ours: Vec<&'a latency::Turn>,
        peer: Vec<&'a latency::Turn>,
    },
}

impl Conditions {
    /// Of this machine, which must have both cores.
    pub(crate) fn read(rules: &Rules) -> Result<Self, RigError> {
        let path = "/proc/sys/kernel/osrelease";
        let kernel = fs::read_to_string(path).map_err(RigError::io(path))?;
        let path = "/proc/cpuinfo";
        let cpuinfo = fs::read_to_string(path).map_err(RigError::io(path))?;
        Ok(Self {
            kernel: kernel.trim().to_owned(),
            cpu: model(&cpuinfo),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            server_core: rules.server_core,
            client_core: rules.client_core,
            pairs: rules.pairs,
        })
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(pairs) => write!(
                f,
                "{} us to {} us, ratio {}",
                us(middle(pairs, |pair| pair.ours.cpu_ns / 1e3)),
                us(middle(pairs, |pair| pair.peer.cpu_ns / 1e3)),
                ratio(Summary::of(pairs, |turn| turn.cpu_ns))
            ),
            Self::Latency { rate, pairs } => write!(
                f,
                "at {rate:.0} a second p50 {} us to {} us, ratio {}; p99 {} us to {} us, ratio {}",
                us(middle(pairs, |pair| pair.ours.p50_us)),
                us(middle(pairs, |pair| pair.peer.p50_us)),
                ratio(Summary::of(pairs, |turn| turn.p50_us)),
                us(middle(pairs, |pair| pair.ours.p99_us)),
                us(middle(pairs, |pair| pair.peer.p99_us)),
                ratio(Summary::of(pairs, |turn| turn.p99_us))
            ),
        }
    }
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
            contests: Vec<Line<'a>>,
        }
        let all = All { conditions: &self.conditions, contests: self.outcomes.iter().map(line).collect() };
        let mut text = serde_json::to_string_pretty(&all).expect("a report is plain data");
        text.push('\n');
        text
    }

    /// For people, in Markdown: the middle of each side, and the ratio with its lowest and highest pair.
    pub(crate) fn table(&self) -> String {
        let Conditions { kernel, cpu, server_core, client_core, pairs, .. } = &self.conditions;
        let mut text = format!(
            "Linux {kernel}, {cpu}; server on core {server_core}, client on core {client_core}; {IN_FLIGHT} connections at a time; \
             {pairs} alternating pairs: middle, and for ratios (lowest to highest)\n\n"
        );
        let held =
            || self.outcomes.iter().filter_map(|outcome| Some((outcome, outcome.result.as_ref().ok()?)));
        if held().any(|(_, findings)| matches!(findings, Findings::Cpu(_))) {
            text.push_str(
                "| doorbell | peer | load | CPU us a request | peer | ratio |\n|---|---|---|---|---|---|\n",
            );
        }
        if held().any(|(_, findings)| matches!(findings, Findings::Latency { .. })) {
            text.push_str(
                "| doorbell | peer | load | a second | p50 us | peer | ratio | p99 us | peer | ratio |\n",
            );
            text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
        }
        for (outcome, findings) in held() {
            let contest = outcome.contest;
            let cells = cells(findings).join(" | ");
            let names = format!("{} | {} | {}", contest.ours.name, contest.peer.name, contest.mode);
            writeln!(text, "| {names} | {cells} |").expect("a string takes everything");
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

fn cells(findings: &Findings) -> Vec<String> {
    match findings {
        Findings::Cpu(pairs) => vec![
            us(middle(pairs, |pair| pair.ours.cpu_ns / 1e3)),
            us(middle(pairs, |pair| pair.peer.cpu_ns / 1e3)),
            ratio(Summary::of(pairs, |turn| turn.cpu_ns)),
        ],
        Findings::Latency { rate, pairs } => vec![
            thousands(*rate),
            us(middle(pairs, |pair| pair.ours.p50_us)),
            us(middle(pairs, |pair| pair.peer.p50_us)),
            ratio(Summary::of(pairs, |turn| turn.p50_us)),
            us(middle(pairs, |pair| pair.ours.p99_us)),
            us(middle(pairs, |pair| pair.peer.p99_us)),
            ratio(Summary::of(pairs, |turn| turn.p99_us)),
        ],
    }
}

fn line(outcome: &Outcome) -> Line<'_> {
    let contest = &outcome.contest;
    Line {
        ours: contest.ours.name,
        peer: contest.peer.name,
        mode: contest.mode,
        in_flight: IN_FLIGHT,
        failure: outcome.result.as_ref().err().map(String::as_str),
        figures: outcome.result.as_ref().ok().map(figures),
    }
}

fn figures(findings: &Findings) -> Figures<'_> {
    match findings {
        Findings::Cpu(pairs) => {
            let (ours, peer) = sides(pairs);
            Figures::Cpu { ratio: Summary::of(pairs, |turn| turn.cpu_ns), ours, peer }
        }
        Findings::Latency { rate, pairs } => {
            let (ours, peer) = sides(pairs);
            Figures::Latency {
                rate: *rate,
                p50_ratio: Summary::of(pairs, |turn| turn.p50_us),
                p99_ratio: Summary::of(pairs, |turn| turn.p99_us),
                ours,
                peer,
            }
        }
    }
}

fn sides<T>(pairs: &[Pair<T>]) -> (Vec<&T>, Vec<&T>) {
    pairs.iter().map(|pair| (&pair.ours, &pair.peer)).unzip()
}

fn us(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

fn ratio(summary: Option<Summary>) -> String {
    summary.map_or_else(|| "-".to_owned(), |summary| summary.to_string())
}

/// What the first processor says it is.
fn model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|rest| rest.split_once(':'))
        .map_or_else(|| "unknown CPU".to_owned(), |(_, name)| name.trim().to_owned())
}
