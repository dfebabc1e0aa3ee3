//! What is on this machine: files, programs, gauges.
//!
//! Does not know about: how they are looked at.

use doorbell_config::format_size;
use std::path::PathBuf;
use std::time::Duration;

/// `type = "file"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCheck {
    /// Which file.
    pub path: PathBuf,
    /// Whether it must be there, or must not.
    pub exists: bool,
    /// A part of its content.
    pub contains: Option<String>,
    /// How long ago it may have changed.
    pub max_age: Option<Duration>,
}

/// `type = "exec"`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecCheck {
    /// The program and what it is given.
    pub command: Vec<String>,
    /// The exit code of a program that is up with a complaint.
    pub degraded_exit_code: Option<u32>,
}

/// `type = "gauge"`: two thresholds, so that what is near one of them does not flap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaugeCheck {
    /// What is read.
    pub metric: Metric,
    /// Of a file system: something in it. Of memory: the folder of a control group, or nothing for the machine.
    pub path: PathBuf,
    /// Whether much is bad, as of load, or good, as of free space.
    pub bad_is: BadIs,
    /// Beyond this it is down.
    pub down: Level,
    /// Only beyond this is it up again.
    pub up: Level,
    /// Beyond this it is well with a complaint.
    pub degraded: Option<Level>,
}

/// What a gauge reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Bytes of a file system that anybody may still use.
    DiskFree,
    /// Files that a file system can still have.
    InodesFree,
    /// The load average of the last minute; in percent: of the cores.
    Load,
    /// Bytes that can still be used without swapping, on this machine or in a control group.
    MemoryAvailable,
    /// The part of the last ten seconds in which somebody waited for memory.
    MemoryPressure,
    /// Descriptors that are open on this machine; in percent: of what it allows.
    OpenFiles,
}

/// On which side of a threshold it is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadIs {
    /// `down_above`, `up_below`
    Above,
    /// `down_below`, `up_above`
    Below,
}

/// A threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Bytes, files, descriptors.
    Count(u64),
    /// A thousandth part of one: what is counted with a fraction.
    Milli(u64),
    /// Thousandths of a percent of all there is.
    MilliPercent(u64),
}

impl Metric {
    /// Whether a threshold of this form makes sense.
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

    /// Whether it can be of a control group.
    #[must_use]
    pub const fn is_of_group(self) -> bool {
        matches!(self, Self::MemoryAvailable | Self::MemoryPressure)
    }

    /// Whether it is counted in bytes.
    #[must_use]
    pub const fn is_bytes(self) -> bool {
        matches!(self, Self::DiskFree | Self::MemoryAvailable)
    }

    /// A threshold as it would be written.
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
    /// The number that is compared; of the same kind of level more is more.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Count(number) | Self::Milli(number) | Self::MilliPercent(number) => number,
        }
    }

    /// As it is written in a file.
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

    /// As much of it as people want to know.
    #[must_use]
    pub const fn rounded(self, metric: Metric) -> Self {
        match self {
            Self::Count(bytes) if metric.is_bytes() && bytes >= 10 << 20 => Self::Count(bytes >> 20 << 20),
            Self::MilliPercent(number) => Self::MilliPercent(number / 100 * 100),
            Self::Count(_) | Self::Milli(_) => self,
        }
    }

    /// Whether two are of the same kind.
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

impl FileCheck {
    /// The default for this file: it is there.
    #[must_use]
    pub fn of(path: PathBuf) -> Self {
        Self { path, exists: true, contains: None, max_age: None }
    }
}
