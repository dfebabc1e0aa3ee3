//! Results of comparisons as a page or JSON: the ratios of pairs, with median and spread.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::thread;

use serde::Serialize;

use super::{Contest, Pair, Rules, Turn};
use crate::error::RigError;
use crate::report::{Page, Table, median, or_dash, range, thousands};

/// User and system time of all threads of the server, per request.
pub(crate) const CPU: Figure = Figure { key: "cpu_ns", head: "CPU us", unit: 1e3, is_judged: true };

/// A value that is measured in each [`Turn`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Key of the value in JSON.
    pub(crate) key: &'static str,
    /// Column heading in tables.
    pub(crate) head: &'static str,
    /// Divisor for the value in tables.
    pub(crate) unit: f64,
    /// Whether the report includes the ratio of the two sides of a pair.
    pub(crate) is_judged: bool,
}

/// The layout of a report's table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Text about the measurement in the line above the table.
    pub(crate) about: &'static str,
    /// Column headings for the names of a comparison.
    pub(crate) heads: [&'static str; 3],
    /// Names of the two sides.
    pub(crate) sides: [&'static str; 2],
    pub(crate) figures: &'static [Figure],
    /// Column heading for notes. Empty if there are no notes.
    pub(crate) note: &'static str,
}

/// All comparisons of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    #[serde(skip)]
    pub(super) shape: Shape,
    pub(super) conditions: Conditions,
    pub(super) contests: Vec<Held>,
}

/// Results of a comparison.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Held {
    names: [String; 3],
    failure: Option<String>,
    at_most: Option<f64>,
    /// Ratios of `ours` to `peer`, by key of the figure.
    ratios: BTreeMap<&'static str, Summary>,
    ours: Vec<Turn>,
    peer: Vec<Turn>,
}

/// Summary of the ratios of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    median: f64,
    low: f64,
    high: f64,
}

/// The machine, and the options of the run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Conditions {
    /// Release of the kernel.
    kernel: String,
    /// The kernel's description of the processor.
    cpu: String,
    /// Number of processors.
    cpus: usize,
    #[serde(flatten)]
    rules: Rules,
}

impl Conditions {
    pub(super) fn read(rules: &Rules) -> Result<Self, RigError> {
        let read = |path: &str| fs::read_to_string(path).map_err(RigError::io(path));
        let cpuinfo = read("/proc/cpuinfo")?;
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Ok(Self {
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cpu: model.map_or_else(|| "unknown CPU".to_owned(), |(_, name)| name.trim().to_owned()),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            rules: *rules,
        })
    }
}

impl Summary {
    /// Summarizes ratios. Returns `None` without ratios, or if a ratio is undefined.
    pub(super) fn of(ratios: &[f64]) -> Option<Self> {
        if !ratios.iter().all(|ratio| ratio.is_finite()) {
            return None;
        }
        let (low, high) = range(ratios)?;
        Some(Self { median: median(ratios)?, low, high })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}

impl Report {
    /// Whether every comparison was completed.
    pub(crate) fn is_complete(&self) -> bool {
        self.contests.iter().all(|held| held.failure.is_none())
    }

    /// Adds a comparison, and returns the line of progress for it.
    pub(super) fn add<S>(&mut self, contest: &Contest<S>, turns: Result<Vec<Pair>, String>) -> String {
        let held = Held::new(contest, turns, self.shape.figures);
        let shown = match &held.failure {
            Some(why) => format!("SKIP: {why}"),
            None => held.cells(&self.shape).join(", "),
        };
        self.contests.push(held);
        shown
    }

    /// Formats the median of each side, and the median ratio with the lowest and the highest.
    pub(crate) fn page(&self) -> Page {
        let mut page = Page::default();
        let Shape { about, heads, sides, figures, note } = self.shape;
        let Conditions { kernel, cpu, rules: Rules { pairs, server_core, client_core }, .. } =
            &self.conditions;
        page.words(format!(
            "Linux {kernel}, {cpu}; server on core {server_core}, client on core {client_core}; {about}; {pairs} alternating pairs: middle, \
             and for ratios (lowest to highest)"
        ));
        let mut columns: Vec<String> = heads.map(str::to_owned).into();
        for figure in figures {
            columns.extend(sides.map(|side| format!("{side}, {}", figure.head)));
            columns.extend(figure.is_judged.then(|| "ratio".to_owned()));
        }
        columns.extend((!note.is_empty()).then(|| note.to_owned()));
        let is_promised = self.contests.iter().any(|held| held.at_most.is_some());
        columns.extend(is_promised.then(|| "holds".to_owned()));
        let mut table = Table::new(columns);
        for held in self.contests.iter().filter(|held| held.failure.is_none()) {
            let holds = held.holds().map_or("", |holds| if holds { "yes" } else { "no" });
            let cells = held.names.iter().cloned().chain(held.cells(&self.shape));
            table.row(cells.chain(is_promised.then(|| holds.to_owned())));
        }
        page.table(table);
        page.lines(self.contests.iter().filter_map(|held| {
            Some(format!("{}: skipped: {}", held.names.join("/"), held.failure.as_ref()?))
        }));
        page
    }
}

impl Held {
    fn new<S>(contest: &Contest<S>, turns: Result<Vec<Pair>, String>, figures: &[Figure]) -> Self {
        let (pairs, failure) = match turns {
            Ok(pairs) => (pairs, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let ratios = figures.iter().filter(|figure| figure.is_judged).filter_map(|Figure { key, .. }| {
            let ratios =
                pairs.iter().map(|[ours, peer]| Some(ours.figures.get(key)? / peer.figures.get(key)?));
            Some((*key, Summary::of(&ratios.collect::<Option<Vec<f64>>>()?)?))
        });
        let ratios = ratios.collect();
        let (ours, peer) = pairs.into_iter().map(|[ours, peer]| (ours, peer)).unzip();
        Self { names: contest.names.clone(), failure, at_most: contest.at_most, ratios, ours, peer }
    }

    /// Whether the median of the ratios is within the promise.
    fn holds(&self) -> Option<bool> {
        Some(self.ratios.get(CPU.key)?.median <= self.at_most?)
    }

    /// The cells of a row after the names.
    fn cells(&self, shape: &Shape) -> Vec<String> {
        let mut cells = Vec::new();
        for Figure { key, unit, is_judged, .. } in shape.figures {
            for turns in [&self.ours, &self.peer] {
                let values: Vec<f64> =
                    turns.iter().filter_map(|turn| turn.figures.get(key)).map(|value| value / unit).collect();
                let shown =
                    |value: f64| if value < 1000.0 { format!("{value:.2}") } else { thousands(value) };
                cells.push(or_dash(median(&values), shown));
            }
            if *is_judged {
                cells.push(or_dash(self.ratios.get(key), Summary::to_string));
            }
        }
        if !shape.note.is_empty() {
            let [ours, peer] =
                [&self.ours, &self.peer].map(|turns| turns.first().map_or("", |turn| turn.note.as_str()));
            cells.push(if ours == peer { ours.to_owned() } else { format!("{ours}; {peer}") });
        }
        cells
    }
}
