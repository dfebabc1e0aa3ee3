//! Log lines: text for people, JSON for machines; and the last moments of them at the end.
//!
//! Does not know about: what is logged.
//!
//! Whoever logs never waits: lines go into a bounded [queue](lines), and a thread of its own hands them to whoever reads them. A reader that
//! hangs costs lines, which are counted, and holds up nothing else. What is said of a panic is such a line, too.

mod lines;
mod panics;
mod throttle;

pub(crate) use lines::PIECE_LEN;
pub(crate) use throttle::Throttle;

use crate::config::model::{Log, LogFormat, LogLevel};
use lines::Lines;
use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::{Handle, Layer};
use tracing_subscriber::util::SubscriberInitExt as _;

/// How long the end of the process waits for whoever reads the log.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The target of lines that somebody asked for, which no level leaves out.
pub(crate) const ASKED: &str = "doorbell_asked";

/// Lines on their way, once logging has started.
static LINES: OnceLock<Arc<Lines>> = OnceLock::new();

/// What is shown, once logging has started.
static SHOWN: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// Gives the last lines a moment when it goes.
#[derive(Debug)]
#[must_use]
pub(crate) struct Logging(());

/// Starts logging to standard output. Our own lines only: what the HTTP/2 library says, its clients say, as often as they like.
/// A second call changes nothing.
///
/// # Errors
/// When the thread that writes cannot be started.
pub(crate) fn init(log: &Log, color: bool) -> io::Result<Logging> {
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
        // A line that cannot be written is lost. Told to say so on standard error, which is often as full, it would panic.
        .log_internal_errors(false);
    // Only a second call can fail, and then the first one logs already.
    let _ = match json {
        true => subscriber.with(layer.json().flatten_event(true)).try_init(),
        false => subscriber.with(layer).try_init(),
    };
    panics::tell();
    Ok(Logging(()))
}

/// Shows lines of this level and above from now on, if logging has started.
pub(crate) fn set_level(level: LogLevel) {
    if let Some(handle) = SHOWN.get() {
        // There is somebody to show them to for as long as the process lives.
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
    Targets::new().with_target("doorbell", level).with_target(ASKED, LevelFilter::INFO)
}

/// Lines that nobody will read: their reader was too slow, or they could not be written.
pub(crate) fn lines_lost() -> u64 {
    LINES.get().map_or(0, |lines| lines.lost())
}

impl Drop for Logging {
    fn drop(&mut self) {
        if let Some(lines) = LINES.get() {
            // A reader that hangs is not waited for any longer.
            let _late = lines.flush(FLUSH_TIMEOUT);
        }
    }
}
