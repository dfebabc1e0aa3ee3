//! Log lines: text for people, JSON for machines.
//!
//! Does not know about: what is logged.

use crate::config::model::{Log, LogFormat, LogLevel};
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;

/// Starts logging to standard output. A second call changes nothing.
pub(crate) fn init(log: &Log, color: bool) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let json = match log.format {
        LogFormat::Auto => !std::io::stdout().is_terminal(),
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(color)
        .with_target(false)
        // A line that cannot be written is lost. Told to say so on standard error, which is often as full, it would panic.
        .log_internal_errors(false);
    // Only a second call can fail, and then the first one logs already.
    let _ = match json {
        true => lines.json().flatten_event(true).try_init(),
        false => lines.try_init(),
    };
}
