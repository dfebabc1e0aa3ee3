//! The access log's way from the threads that answer requests to a file: a queue a thread, and one writer.
//!
//! Does not know about: which requests are logged and how a line reads; see [`doorbell_http::log`].
//!
//! ```no_run
//! use core::time::Duration;
//! use doorbell::access_log::{AccessLog, LogTarget};
//! use doorbell::http::layer::ServiceExt;
//! use doorbell::http::log::{Filter, Logger};
//! use doorbell::{Http1, Listen, Server, StaticReply, Status, service_fn};
//!
//! let log = AccessLog::builder(LogTarget::Stdout).start()?;
//! let alive = StaticReply::text(Status::OK, "ok\n");
//! let service = service_fn(move |_, reply| reply.send(&alive));
//! let service = service.with(Logger::new(Filter::ERRORS, log.sink()));
//! let server = Server::builder().listen(Listen::tcp(([127, 0, 0, 1], 8080).into()), Http1::new(service)).start()?;
//! server.wait()?;
//! log.stop(Duration::from_secs(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **A record's way.** The thread that answers copies the record into its own queue, which has one reader, the writer: no lock, no
//! locked instruction, no system call. The queue is made with the thread's first record; that is the only allocation. Where it is full the
//! record is dropped and counted, and the log itself says how many were, at most once a second.
//!
//! **The writer** makes lines of everything queued, in batches of up to 64 KiB, one `write` each. Lines of one thread are in order; those of
//! two threads may change places within a few milliseconds. What cannot be written (a full disk, a pipe that nobody reads any more) is
//! lost and counted; the writer tries again with the next batch. Nothing that happens to it is felt by who answers.
//!
//! # Decision: how the writer learns of records
//!
//! *Context.* To wake a thread is a system call, to look for records every few milliseconds costs an idle process
//! two hundred wake-ups a second. *Choice.* Both: while records come the writer looks every 5 ms, which makes a batch of them and asks nothing of
//! who answers. After 100 ms without any it sleeps, and the first record wakes it. *Measured* with
//! `cargo bench -p doorbell-benches --bench logger`, whose table is at its head: 53 ns for a record that finds the writer awake, 15 us for one
//! that wakes it.
//! That first record does not pay for a memory fence either: if it comes in the very moment in which the writer falls asleep, the
//! writer finds it a second later. *What would change it:* a log that somebody watches live at under a record a second.

mod counters;
mod lane;
mod outlet;
#[cfg(test)]
mod tests;
mod writer;

use core::fmt;
use core::time::Duration;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;

use doorbell_http::log::{Format, Renderer};

pub use counters::LogCounters;
pub use lane::LogSink;
pub use outlet::LogTarget;

use lane::Shared;
use outlet::Outlet;
use writer::Writer;

/// Records that a thread's queue has room for by default: 1 MiB, of which half is touched only by records of long requests.
const RECORDS_MAX: usize = 4096;

/// How long dropping an [`AccessLog`] waits for the writer.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// A running log. Stop it after the server; dropping it waits up to a second for what is queued.
#[derive(Debug)]
pub struct AccessLog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Disconnected when the writer ends.
    ended: Receiver<()>,
}

/// Builds an [`AccessLog`].
#[must_use = "a builder does nothing until it is started"]
pub struct LogBuilder {
    target: LogTarget,
    format: Format,
    routes: Vec<String>,
    records_max: usize,
    on_trouble: Box<dyn FnMut(&LogTrouble) + Send>,
}

/// What the writer cannot do. Told once, and again only if it worked in between.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogTrouble {
    /// The file could not be opened again; the old one stays in use.
    #[error("the access log could not be opened again, the old file stays in use")]
    Reopen(#[source] io::Error),
    /// Lines could not be written, and are lost.
    #[error("the access log could not be written")]
    Write(#[source] io::Error),
}

impl AccessLog {
    /// A log that goes to `target`.
    pub fn builder(target: LogTarget) -> LogBuilder {
        LogBuilder {
            target,
            format: Format::Text,
            routes: Vec::new(),
            records_max: RECORDS_MAX,
            on_trouble: Box::new(|_| {}),
        }
    }

    /// Where loggers put their records; any number of them, on any thread.
    pub fn sink(&self) -> LogSink {
        LogSink::new(Arc::clone(&self.shared))
    }

    /// Asks the writer to open the file again by its name, after it was moved away. Lines of records that it has taken by then are in the old
    /// file. Nothing happens where the target is no file.
    pub fn reopen(&self) {
        self.shared.ask_reopen();
    }

    /// What was done so far.
    pub fn counters(&self) -> LogCounters {
        self.shared.counters()
    }

    /// Writes what is queued and ends. False when that took longer than `timeout`: the writer is left to itself then, stuck with a
    /// target that does not take anything. Records that come later are dropped.
    pub fn stop(mut self, timeout: Duration) -> bool {
        self.end(timeout)
    }

    fn end(&mut self, timeout: Duration) -> bool {
        let Some(thread) = self.thread.take() else { return true };
        self.shared.stop();
        // Nothing is ever sent.
        if self.ended.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
            return false;
        }
        thread.join().is_ok()
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.end(DROP_TIMEOUT);
    }
}

impl LogBuilder {
    /// How lines read. Default: text.
    pub const fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Names of routes, by the index that [`doorbell_http::log::Logger::route`] was given. Default: none, so the index is shown.
    pub fn routes(mut self, names: Vec<String>) -> Self {
        self.routes = names;
        self
    }

    /// Records that the queue of one thread has room for, 1 to 65,536, in 256 bytes each. Default 4,096: at 5 ms between two looks that is 800,000 a second.
    pub fn records_max(mut self, records: usize) -> Self {
        self.records_max = records.clamp(1, 1 << 16);
        self
    }

    /// Hears of what the writer cannot do, on the writer's thread. Default: nobody does, and the counters tell.
    pub fn on_trouble(mut self, hear: impl FnMut(&LogTrouble) + Send + 'static) -> Self {
        self.on_trouble = Box::new(hear);
        self
    }

    /// Opens the target and starts the writer.
    ///
    /// # Errors
    /// The file cannot be opened, or there can be no further thread.
    pub fn start(self) -> io::Result<AccessLog> {
        let outlet = Outlet::open(self.target)?;
        let shared = Arc::new(Shared::new(self.records_max));
        let renderer = Renderer::new(self.format).routes(self.routes);
        let writer = Writer::new(Arc::clone(&shared), outlet, renderer, self.on_trouble);
        let (end, ended) = sync_channel::<()>(0);
        let thread = std::thread::Builder::new().name("doorbell-log".to_owned()).spawn(move || {
            let _end = end;
            writer.run();
        })?;
        shared.set_writer(thread.thread().clone());
        Ok(AccessLog { shared, thread: Some(thread), ended })
    }
}

impl fmt::Debug for LogBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogBuilder")
            .field("target", &self.target)
            .field("format", &self.format)
            .field("records_max", &self.records_max)
            .finish_non_exhaustive()
    }
}

/// The name of a file, for [`LogTarget::File`].
impl From<PathBuf> for LogTarget {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}
