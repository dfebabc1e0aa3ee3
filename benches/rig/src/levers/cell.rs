//! What stands in the tables: keys of rows and columns, and figures as text.
//!
//! Does not know about: files, sections.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use crate::ablate::Set;
use crate::native::Summary;
use crate::plan::Load;
use crate::report::{Figures, thousands};
use crate::variant::Engine;

/// How far a percentage may be from that of the rounded figures beside it.
const PERCENT_APART_MAX: f64 = 0.11;

/// Where a figure is from. Kernels in their order, then this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Column {
    /// Instructions in a guest with this kernel.
    Kernel(u32, u32),
    /// CPU time natively.
    Native,
}

/// What was compared: io_uring first, the full set first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    engine: Reverse<Engine>,
    load: Load,
    set: Reverse<Set>,
}

impl Column {
    /// Of a release, as in `6.1.0-56-cloud-amd64`.
    pub(super) fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        Some(Self::Kernel(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(major, minor) => write!(f, "{major}.{minor}"),
            Self::Native => f.write_str("CPU time"),
        }
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kernel = || Self::of_release(text).filter(|kernel| kernel.to_string() == text);
        let column = if text == Self::Native.to_string() { Some(Self::Native) } else { kernel() };
        column.ok_or_else(|| format!("{text:?} is no column"))
    }
}

impl RowKey {
    pub(super) const fn new(engine: Engine, load: Load, set: Set) -> Self {
        Self { engine: Reverse(engine), load, set: Reverse(set) }
    }

    /// From the first three cells of a row.
    pub(super) fn parse(driver: &str, load: &str, set: &str) -> Result<Self, String> {
        let engine = [Engine::Epoll, Engine::IoUring].into_iter().find(|engine| engine.name() == driver);
        let set = [Set::Alone, Set::Full].into_iter().find(|known| name(*known) == set);
        match (engine, set) {
            (Some(engine), Some(set)) => Ok(Self::new(engine, load.trim_matches('`').parse()?, set)),
            _ => Err(format!("{driver:?} is no driver, or what follows is no set")),
        }
    }

    /// The first three cells of a row.
    pub(super) fn cells(&self) -> [String; 3] {
        [self.engine.0.name().to_owned(), format!("`{}`", self.load), name(self.set.0).to_owned()]
    }
}

const fn name(set: Set) -> &'static str {
    match set {
        Set::Alone => "alone",
        Set::Full => "full",
    }
}

/// `18,900 / 19,200 (-1.6 %, -1.0 %)`: the server with it and without it, and what it does to the server and to the machine.
pub(super) fn instructions(with: Figures, without: Figures, (server, machine): (f64, f64)) -> String {
    format!("{} / {} ({server:+.1} %, {machine:+.1} %)", thousands(with.server), thousands(without.server))
}

/// `-12 % (-15 % to -9 %)`: the middle pair, the lowest and the highest.
pub(super) fn cpu_time(ratio: Summary) -> String {
    let percent = |ratio: f64| format!("{:+.0} %", (ratio - 1.0) * 100.0);
    format!("{} ({} to {})", percent(ratio.median), percent(ratio.low), percent(ratio.high))
}

/// What is wrong with a cell, where it can be seen.
pub(super) fn problem(column: Column, cell: &str) -> Option<String> {
    let is_sound = match column {
        Column::Kernel(..) => percent_agrees(cell),
        Column::Native => spread_holds_middle(cell),
    };
    (is_sound != Some(true)).then(|| format!("{cell:?} does not agree with itself"))
}

fn percent_agrees(cell: &str) -> Option<bool> {
    let (figures, percent) = cell.strip_suffix(" %)")?.split_once(" (")?;
    let (with, without) = figures.split_once(" / ")?;
    let number = |text: &str| text.replace(',', "").parse::<f64>().ok();
    let (with, without) = (number(with)?, number(without)?);
    let (server, machine) = percent.split_once(" %, ")?;
    let _machine: f64 = machine.parse().ok()?;
    Some(((with - without) / without * 100.0 - server.parse::<f64>().ok()?).abs() <= PERCENT_APART_MAX)
}

fn spread_holds_middle(cell: &str) -> Option<bool> {
    let (middle, spread) = cell.strip_suffix(" %)")?.split_once(" % (")?;
    let (low, high) = spread.split_once(" % to ")?;
    let [low, middle, high] = [low, middle, high].map(|text| text.parse::<f64>().ok());
    Some(low? <= middle? && middle? <= high?)
}
