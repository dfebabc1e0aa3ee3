//! The log: by default text on a terminal and JSON elsewhere; flushed when the process ends.
//!
//! Logging never blocks: lines are added to a bounded queue, and a thread writes them to
//! standard output. If the reader hangs, lines are lost and counted. Panics are logged in the same
//! way, except that a panic waits up to 100 ms for the write.

mod lines;
mod panics;
mod throttle;

pub use lines::PIECE_LEN;
pub(crate) use throttle::Throttle;

use doorbell_proxy_config::model::{Log, LogFormat, LogLevel};
use lines::Lines;
use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::{Handle, Layer};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Maximum time that the end of the process waits for the reader of the log.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Tracing target of lines that an operator requested. They are logged whatever the log level is.
pub(crate) const REQUESTED: &str = "doorbell_requested";

/// The queue, once logging has started.
static LINES: OnceLock<Arc<Lines>> = OnceLock::new();

/// The level filter, once logging has started.
static SHOWN: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// Flushes the log when dropped.
#[derive(Debug)]
#[must_use]
pub struct Logging(());

/// Starts logging to standard output. Only lines of doorbell's own crates are logged, because
/// clients can cause any number of lines of the HTTP/2 library. A second call has no effect.
///
/// # Errors
/// If the thread cannot be started.
pub fn init(log: &Log, color: bool) -> io::Result<Logging> {
    if LINES.get().is_some() {
        return Ok(Logging(()));
    }
    let json = match log.format {
        LogFormat::Auto => !io::stdout().is_terminal(),
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let lines = Arc::clone(LINES.get_or_init(Arc::default));
    lines.start()?;
    let (shown, handle) = Layer::new(shown(log.level));
    let _first = SHOWN.set(handle);
    let subscriber = tracing_subscriber::registry().with(shown);
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(color)
        .with_target(false)
        .with_writer(move || lines::Entry(Arc::clone(&lines)))
        // A failed write would be reported on standard error. If standard error cannot be written
        // either, the report would panic.
        .log_internal_errors(false);
    // Fails only if a subscriber is set already.
    let _ = match json {
        true => subscriber.with(layer.json().flatten_event(true)).try_init(),
        false => subscriber.with(layer).try_init(),
    };
    panics::install();
    Ok(Logging(()))
}

/// Sets the minimum level, if logging has started.
pub(crate) fn set_level(level: LogLevel) {
    if let Some(handle) = SHOWN.get() {
        // The subscriber lives as long as the process.
        let _kept = handle.reload(shown(level));
    }
}

fn shown(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_target("doorbell", level).with_target(REQUESTED, LevelFilter::INFO)
}

/// Lines lost because the reader was too slow or a write failed.
pub(crate) fn lines_lost() -> u64 {
    LINES.get().map_or(0, |lines| lines.lost())
}

impl Drop for Logging {
    fn drop(&mut self) {
        if let Some(lines) = LINES.get() {
            // Remaining lines are lost if the reader hangs.
            let _late = lines.flush(FLUSH_TIMEOUT);
        }
    }
}
