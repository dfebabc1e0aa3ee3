//! `[log]`: what the process says about itself and about requests.
//!
//! Does not know about: how lines are written.

use std::path::PathBuf;

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How a line looks.
    pub format: LogFormat,
    /// The least severe level that is written.
    pub level: LogLevel,
    /// Lines about requests.
    pub access: AccessLog,
}

/// `access`, `access_format`, `access_file` and `access_sample`. A line names whoever got in: the bearer of a token by the name of
/// that token or the `sub` of a signed one, else a client by its certificate; never the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Which requests get a line.
    pub which: Access,
    /// How a line looks.
    pub format: AccessFormat,
    /// Where lines go.
    pub file: AccessFile,
    /// One in so many of the requests that succeed; what fails is never left out. One in one is every request with `All`, and none with
    /// `Errors`.
    pub sample: u32,
}

/// Which requests get a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every one, probes included.
    All,
    /// Those that are answered with 400 or more; of the others a sample, where one is asked for, and no probes.
    Errors,
    /// None.
    Off,
}

/// How an access line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Levels, the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names are the levels")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: LogLevel::Info, access: AccessLog::default() }
    }
}

impl Default for AccessLog {
    fn default() -> Self {
        Self { which: Access::Off, format: AccessFormat::Text, file: AccessFile::Stdout, sample: 1 }
    }
}
