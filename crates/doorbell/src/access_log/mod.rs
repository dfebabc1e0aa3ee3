//! The access log's path from worker threads to a file: one queue per thread, and one writer.
//!
//! Does not know about: which requests are logged, the format of a line; see
//! [`doorbell_http::log`].
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
//! **Producers.** A worker thread copies the record into its own queue, whose only reader is the
//! writer: no lock, no locked instruction, no system call. The queue is allocated with the thread's
//! first record. If it is full, the record is dropped and counted, and the log reports the number
//! of dropped records at most once per second.
//!
//! **The writer** renders all queued records into batches of up to 64 KiB, with one `write` each.
//! Lines of one thread are in order; lines of two threads may swap within a few milliseconds. A
//! batch that cannot be written (full disk, closed pipe) is lost and counted; the writer tries
//! again with the next batch. Worker threads are never delayed.
//!
//! # Decision: how the writer detects records
//!
//! *Context.* Waking a thread is a system call; polling every few milliseconds costs an idle
//! process two hundred wake-ups per second. *Choice.* Both: while records arrive, the writer polls
//! every 5 ms, which forms batches and costs the workers nothing. After 100 ms without a record it
//! sleeps, and the next record wakes it. *Measured* with `cargo bench -p doorbell-benches --bench
//! logger` (table in its source): 53 ns for a record while the writer is awake, 15 us for one that
//! wakes it. The waking record needs no memory fence: if it arrives exactly when the writer
//! falls asleep, the writer finds it up to a second later. *What would change it:* live viewing of
//! a log with less than one record per second.

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

/// Default queue length per thread: 1 MiB, half of which is used only by records of long requests.
const RECORDS_MAX: usize = 4096;

/// How long dropping an [`AccessLog`] waits for the writer.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// A running access log.
///
/// Stop it after the server; dropping it waits up to a second for queued records.
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

/// A failure of the writer. Reported once, and again only after it worked in between.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogTrouble {
    /// The file could not be reopened; the old one stays in use.
    #[error("the access log could not be opened again, the old file stays in use")]
    Reopen(#[source] io::Error),
    /// Lines could not be written and are lost.
    #[error("the access log could not be written")]
    Write(#[source] io::Error),
}

impl AccessLog {
    /// Builds a log that writes to `target`.
    pub fn builder(target: LogTarget) -> LogBuilder {
        LogBuilder {
            target,
            format: Format::Text,
            routes: Vec::new(),
            records_max: RECORDS_MAX,
            on_trouble: Box::new(|_| {}),
        }
    }

    /// A sink for loggers, on any number of threads.
    pub fn sink(&self) -> LogSink {
        LogSink::new(Arc::clone(&self.shared))
    }

    /// Reopens the file by its name, for log rotation. Records that the writer has already taken
    /// are in the old file. Does nothing if the target is not a file.
    pub fn reopen(&self) {
        self.shared.ask_reopen();
    }

    /// Counters so far.
    pub fn counters(&self) -> LogCounters {
        self.shared.counters()
    }

    /// Writes queued records and stops. False if that took longer than `timeout`: the writer,
    /// blocked by its target, is then abandoned. Later records are dropped.
    pub fn stop(mut self, timeout: Duration) -> bool {
        self.end(timeout)
    }

    fn end(&mut self, timeout: Duration) -> bool {
        let Some(thread) = self.thread.take() else { return true };
        self.shared.stop();
        // The channel carries no messages; it only disconnects.
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
    /// Format of the lines. Default: text.
    pub const fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Names of routes, by the index passed to [`doorbell_http::log::Logger::route`]. Default:
    /// none; the index is logged.
    pub fn routes(mut self, names: Vec<String>) -> Self {
        self.routes = names;
        self
    }

    /// Queue length of a thread in records of 256 bytes, 1 to 65,536. Default 4,096: with polling
    /// every 5 ms, that is 800,000 records per second.
    pub fn records_max(mut self, records: usize) -> Self {
        self.records_max = records.clamp(1, 1 << 16);
        self
    }

    /// Calls `hear` with failures of the writer, on the writer's thread. Default: only the counters
    /// record them.
    pub fn on_trouble(mut self, hear: impl FnMut(&LogTrouble) + Send + 'static) -> Self {
        self.on_trouble = Box::new(hear);
        self
    }

    /// Opens the target and starts the writer.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
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

/// A file path, for [`LogTarget::File`].
impl From<PathBuf> for LogTarget {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}
