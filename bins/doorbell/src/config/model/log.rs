//! `[log]`: what the process says about itself and about requests.
//!
//! Does not know about: how lines are written.

use doorbell_config::{Entry, Json, Key, Problem, Section, Table, Value, Words, literal};
use serde_json::json;
use std::path::PathBuf;

/// What is written, and where.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Log {
    /// How log lines look; auto is text on a terminal and JSON elsewhere.
    #[key(default = "auto")]
    pub format: LogFormat,
    /// The least severe messages that are written.
    #[key(default = "info")]
    pub level: LogLevel,
    // A line names the bearer of a token by the name of that token or the `sub` of a signed one, else a client by its certificate; never
    // the token.
    /// Which requests get a line; probes that succeed only with all.
    #[key(default = "off")]
    pub access: Access,
    /// How a line of the access log looks.
    #[key(default = "text")]
    pub access_format: AccessFormat,
    /// A path, or "-" for standard output.
    #[key(default = "-")]
    pub access_file: AccessFile,
    /// One in so many of the requests that succeed gets a line.
    #[key(default = 1, range = 1..=1_000_000)]
    pub access_sample: u32,
}

/// Which requests get a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum Access {
    /// Every one, probes included.
    All,
    /// Those that are answered with 400 or more; of the others a sample, where one is asked for, and no probes.
    Errors,
    /// None.
    Off,
}

/// How an access line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum AccessFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Where access lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessFile {
    /// Appended to this file.
    Path(PathBuf),
    /// Standard output, `-` in the file.
    Stdout,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Words)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Levels, the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Words)]
#[expect(missing_docs, reason = "the names are the levels")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Log {
    /// Whether requests are logged alike.
    #[must_use]
    pub fn has_access_of(&self, other: &Self) -> bool {
        Self { format: self.format, level: self.level, ..other.clone() } == *self
    }

    fn check(&self, at: &Section<'_>) {
        let place = at.right_place("access_sample").filter(|_| self.access_sample > 1);
        if let (Some(place), Access::Off) = (place, self.access) {
            let message = "`access_sample` is about requests that succeed, and none are logged";
            at.problem(
                Problem::warning("no-effect", place, message)
                    .help("set `access = \"all\"`, or `\"errors\"` for those that fail and the sample; or remove `access_sample`"),
            );
        }
    }
}

impl Value for AccessFile {
    fn read(entry: &Entry<'_>) -> Option<Self> {
        let path = entry.path()?;
        Some(if path.as_os_str() == "-" { Self::Stdout } else { Self::Path(path) })
    }

    fn absent() -> Self {
        Self::Stdout
    }

    fn dump(&self, _key: &Key, _with_defaults: bool) -> Option<Json> {
        Some(match self {
            Self::Path(path) => literal(&path.to_string_lossy()),
            Self::Stdout => json!("-"),
        })
    }

    fn form(_key: &Key) -> Json {
        json!({ "type": "string" })
    }
}
