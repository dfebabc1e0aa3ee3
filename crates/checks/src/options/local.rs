//! Options of the kinds that concern this machine: files, programs, gauges.

use super::target::Target;
use doorbell_config::{Entry, Problem, Section, Table, Value as _, Words, format_size};
use std::path::PathBuf;
use std::time::Duration;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct FileCheck {
    /// Path of the file. Required.
    #[key(required = "\"/run/app/ready\"")]
    pub path: PathBuf,
    /// Whether the file must exist; false: the file must not exist.
    #[key(table = "expect", default = true)]
    pub exists: bool,
    /// Text that the file must contain. Default: any content.
    #[key(table = "expect")]
    pub contains: Option<String>,
    /// Maximum time since the last change of the file. Default: no limit.
    #[key(table = "expect", range = "100ms..=30d")]
    pub max_age: Option<Duration>,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct ExecCheck {
    /// Path of a program, and its arguments; no shell. Exit code 0 is up, any other down, unless it
    /// is `degraded.exit_code`. Only with `doorbell serve --allow-exec`.
    #[key(required = "\"/usr/lib/nagios/plugins/check_ntp\"", read = command)]
    pub command: Vec<String>,
    /// Exit code of a degraded result, such as 1 for Nagios plugins. From 1 to 255.
    #[key(name = "exit_code", table = "degraded", range = 1..=255)]
    pub degraded_exit_code: Option<u32>,
}

/// A metric of this machine, with one threshold for down and one for up, so that a value near a
/// threshold does not cause flapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaugeCheck {
    /// Metric to read.
    pub metric: Metric,
    /// A path in the file system, or the folder of a control group; empty for the machine.
    pub path: PathBuf,
    /// Side of the threshold that is bad.
    pub bad_is: BadIs,
    /// Threshold beyond which the check fails.
    pub down: Level,
    /// Threshold on whose good side the check recovers. A value equal to the threshold recovers
    /// only if `up` equals `down`.
    pub up: Level,
    /// Threshold beyond which the result is degraded.
    pub degraded: Option<Level>,
}

/// Metrics of a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum Metric {
    /// Free bytes of a file system for unprivileged users.
    #[word("disk_free")]
    DiskFree,
    /// Free inodes of a file system.
    #[word("inodes_free")]
    InodesFree,
    /// Load average of the last minute; a percentage refers to the number of cores.
    Load,
    /// Memory available without swapping, of the machine or a control group.
    #[word("memory_available")]
    MemoryAvailable,
    /// Share of the last ten seconds in which a task waited for memory.
    #[word("memory_pressure")]
    MemoryPressure,
    /// Open descriptors of the machine; a percentage refers to the limit.
    #[word("open_files")]
    OpenFiles,
}

/// Side of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadIs {
    /// Values above the threshold are bad: `down_above`, `up_below`.
    Above,
    /// Values below the threshold are bad: `down_below`, `up_above`.
    Below,
}

/// A threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Bytes, inodes, descriptors.
    Count(u64),
    /// Thousandths, for metrics with a fraction.
    Milli(u64),
    /// Thousandths of a percent of the total.
    MilliPercent(u64),
}

impl Metric {
    /// Whether this metric supports thresholds of this kind.
    #[must_use]
    pub const fn takes(self, level: Level) -> bool {
        match self {
            Self::DiskFree | Self::InodesFree | Self::MemoryAvailable | Self::OpenFiles => {
                matches!(level, Level::Count(_) | Level::MilliPercent(_))
            }
            Self::Load => matches!(level, Level::Milli(_) | Level::MilliPercent(_)),
            Self::MemoryPressure => matches!(level, Level::MilliPercent(_)),
        }
    }

    /// Whether the metric exists for control groups.
    #[must_use]
    pub const fn is_of_group(self) -> bool {
        matches!(self, Self::MemoryAvailable | Self::MemoryPressure)
    }

    /// Whether the unit is bytes.
    #[must_use]
    pub const fn is_bytes(self) -> bool {
        matches!(self, Self::DiskFree | Self::MemoryAvailable)
    }

    /// Examples of thresholds, for a message that encloses them in double quotes.
    #[must_use]
    pub const fn example(self) -> &'static str {
        match self {
            Self::DiskFree => "512MiB\" or \"5%",
            Self::InodesFree => "10000\" or \"5%",
            Self::Load => "8.5\" or \"200%",
            Self::MemoryAvailable => "64MiB\" or \"5%",
            Self::MemoryPressure => "20%",
            Self::OpenFiles => "100000\" or \"80%",
        }
    }
}

impl Level {
    /// The numeric value; comparable between levels of the same kind.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Count(number) | Self::Milli(number) | Self::MilliPercent(number) => number,
        }
    }

    /// The text in a configuration file.
    #[must_use]
    pub fn text(self, metric: Metric) -> String {
        let milli = |milli: u64| {
            let part = format!("{:03}", milli % 1000);
            let part = part.trim_end_matches('0');
            let point = if part.is_empty() { "" } else { "." };
            format!("{}{point}{part}", milli / 1000)
        };
        match self {
            Self::Count(bytes) if metric.is_bytes() => format_size(bytes),
            Self::Count(count) => count.to_string(),
            Self::Milli(number) => milli(number),
            Self::MilliPercent(number) => format!("{}%", milli(number)),
        }
    }

    /// Rounded for display.
    #[must_use]
    pub const fn rounded(self, metric: Metric) -> Self {
        match self {
            Self::Count(bytes) if metric.is_bytes() && bytes >= 10 << 20 => Self::Count(bytes >> 20 << 20),
            Self::MilliPercent(number) => Self::MilliPercent(number / 100 * 100),
            Self::Count(_) | Self::Milli(_) => self,
        }
    }

    /// Whether two levels are of the same kind.
    #[must_use]
    pub const fn is_like(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Count(_), Self::Count(_))
                | (Self::Milli(_), Self::Milli(_))
                | (Self::MilliPercent(_), Self::MilliPercent(_))
        )
    }
}

impl Target for ExecCheck {}
impl Target for FileCheck {}
impl Target for GaugeCheck {}

impl FileCheck {
    /// A check that the file exists.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        for key in ["contains", "max_age"].into_iter().filter(|_| !self.exists) {
            let Some(place) = at.right_place(&format!("expect.{key}")) else { continue };
            let message = format!("`{key}` of a file that must not exist");
            let problem = Problem::error("contradiction", place, message);
            at.problem(problem.help("remove it, or `exists = false`"));
        }
    }
}

/// Maximum number of words of a command.
const WORDS_MAX: usize = 64;

fn command(entry: &Entry<'_>) -> Option<Vec<String>> {
    let words = Vec::<String>::read(entry)?;
    let is_program = words.first().is_some_and(|word| word.starts_with('/'));
    if is_program && words.len() <= WORDS_MAX && !words.iter().any(|word| word.contains('\0')) {
        return Some(words);
    }
    let help = "write the path of a program and its arguments, as in [\"/usr/lib/nagios/plugins/check_ntp\", \"-H\", \"a\"]; no shell is used";
    entry.refuse("bad-value", "this is not a command", help)
}
