//! Log lines: text for people, JSON for machines.
//!
//! Does not know about: what is logged.

use crate::config::model::{Log, LogFormat, LogLevel};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging to standard output. Our own lines only: what the HTTP/2 library says, its clients say, as often as they like.
/// A second call changes nothing.
pub(crate) fn init(log: &Log, color: bool) {
    let level = match log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let json = match log.format {
        LogFormat::Auto => !std::io::stdout().is_terminal(),
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!("off,doorbell={level}")))
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
