//! `[log]`: the log and the access log.

use doorbell::http::log::{Format, Level};
use doorbell_config::{Entry, Json, Key, Problem, Section, Table, Value, Words, literal};
use serde_json::json;
use std::path::PathBuf;

/// Log and access log.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct Log {
    /// Format of log lines; auto is text on a terminal and JSON elsewhere.
    #[key(default = "auto")]
    pub format: LogFormat,
    /// Minimum level of log lines.
    #[key(default = "info")]
    pub level: LogLevel,
    // An access log line identifies the client by the name of the bearer token's holder, by the
    // claim `sub` of a signed token, or by the client certificate. The line never contains the
    // token.
    /// Requests in the access log: off, errors, or all; only all includes successful probes.
    #[key(default = "off", words = ACCESS)]
    pub access: Level,
    /// Format of access log lines.
    #[key(default = "text", words = ACCESS_FORMATS)]
    pub access_format: Format,
    /// File of the access log, or "-" for standard output.
    #[key(default = "-")]
    pub access_file: AccessFile,
    /// Logs one in this many successful requests; with `access = "errors"`, 1 logs none of them.
    #[key(default = 1, range = 1..=1_000_000)]
    pub access_sample: u32,
}

const ACCESS: [(&str, Level); 3] = [("all", Level::All), ("errors", Level::Errors), ("off", Level::Off)];

const ACCESS_FORMATS: [(&str, Format); 2] = [("json", Format::Json), ("text", Format::Text)];

/// Destination of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessFile {
    /// Appended to this file.
    Path(PathBuf),
    /// Standard output, `-` in the configuration.
    Stdout,
}

/// Format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Words)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object per line.
    Json,
    /// Human-readable text.
    Text,
}

/// Log levels, the most severe first.
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
    /// Whether both configurations have the same access log.
    #[must_use]
    pub fn has_access_of(&self, other: &Self) -> bool {
        Self { format: self.format, level: self.level, ..other.clone() } == *self
    }

    fn check(&self, at: &Section<'_>) {
        let place = at.right_place("access_sample").filter(|_| self.access_sample > 1);
        if let (Some(place), Level::Off) = (place, self.access) {
            let message = "`access_sample` has no effect: successful requests are not logged";
            at.problem(
                Problem::warning("no-effect", place, message)
                    .help("set `access = \"all\"`, or `\"errors\"` for failed requests and the sample; or remove `access_sample`"),
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
