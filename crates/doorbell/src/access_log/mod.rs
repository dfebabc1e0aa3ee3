//! The access log's path from worker threads to a file: one queue per thread, and one writer.
//!
//! Does not know about: which requests are logged, the format of a line (see
//! [`doorbell_http::log`]).
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
//! writer. The copy needs no lock, no locked instruction and no system call. The queue is allocated
//! with the thread's first record. If the queue is full, the record is dropped and counted, and the
//! log reports the number of dropped records at most once per second.
//!
//! **The writer** renders all queued records into batches of up to about 64 KiB, with one `write`
//! each. Lines of one thread are in order; lines of different threads may be out of order by a few
//! milliseconds. A batch that cannot be written (full disk, closed pipe) is lost and counted; the
//! next batch is attempted regardless. Worker threads are never delayed.
//!
//! # Decision: how the writer detects records
//!
//! *Context.* Waking a thread is a system call; polling every few milliseconds costs an idle
//! process two hundred wake-ups per second. *Choice.* The writer combines polling and wake-ups:
//! while records arrive, the writer polls every 5 ms, which forms batches and costs the workers no
//! system call. After 100 ms without a record it sleeps, and the next record wakes it. *Measured*
//! with `cargo bench -p doorbell-benches --bench logger` (table in its source): 53 ns for a record
//! while the writer is awake, 15 us for a record that wakes it. Queuing a record needs no memory
//! fence: a record that arrives exactly when the writer falls asleep may not wake the writer, which
//! then finds the record up to a second later. *What would change the decision:* live viewing of a
//! log with less than one record per second.

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

use lane::LogState;
use outlet::Outlet;
use writer::Writer;

/// Default queue length per thread: 1 MiB of address space; one half is used only by records of
/// long requests.
const RECORDS_MAX: usize = 4096;

/// How long dropping an [`AccessLog`] waits for the writer.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// A running access log.
///
/// Call [`stop`](Self::stop) after the server has stopped; dropping the log waits up to a second
/// for queued records.
#[derive(Debug)]
pub struct AccessLog {
    shared: Arc<LogState>,
    thread: Option<JoinHandle<()>>,
    /// The channel is disconnected when the writer ends.
    ended: Receiver<()>,
}

/// A builder of an [`AccessLog`].
#[must_use = "a builder does nothing until it is started"]
pub struct LogBuilder {
    target: LogTarget,
    format: Format,
    routes: Vec<String>,
    records_max: usize,
    on_trouble: Box<dyn FnMut(&LogTrouble) + Send>,
}

/// A failure of the writer. A kind of failure is reported once, and again only after a success.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogTrouble {
    /// The file could not be reopened; the old one stays in use.
    #[error("cannot reopen the access log: the old file stays in use")]
    Reopen(#[source] io::Error),
    /// Lines could not be written and are lost.
    #[error("cannot write the access log: lines are lost")]
    Write(#[source] io::Error),
}

impl AccessLog {
    /// Returns a builder of a log that writes to `target`.
    pub fn builder(target: LogTarget) -> LogBuilder {
        LogBuilder {
            target,
            format: Format::Text,
            routes: Vec::new(),
            records_max: RECORDS_MAX,
            on_trouble: Box::new(|_| {}),
        }
    }

    /// Returns a sink for loggers. Any number of threads may use clones of it.
    pub fn sink(&self) -> LogSink {
        LogSink::new(Arc::clone(&self.shared))
    }

    /// Requests that the writer reopens the file by its name, for log rotation. Records that the
    /// writer has already read are in the old file. Does nothing if the target is not a file.
    pub fn reopen(&self) {
        self.shared.ask_reopen();
    }

    /// Returns the counters of the log.
    pub fn counters(&self) -> LogCounters {
        self.shared.counters()
    }

    /// Writes queued records and stops. Returns false if the target blocks the writer for longer
    /// than `timeout`; the writer's thread is then left running. Later records are dropped.
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
    /// Sets the format of the lines. Default: text.
    pub const fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Sets the names of routes, by the index passed to [`doorbell_http::log::Logger::route`].
    /// Default: no names; the index is logged.
    pub fn routes(mut self, names: Vec<String>) -> Self {
        self.routes = names;
        self
    }

    /// Sets the queue length of each thread in records of 256 bytes, 1 to 65,536. Default 4,096,
    /// which allows 800,000 records per second with a poll every 5 ms.
    pub fn records_max(mut self, records: usize) -> Self {
        self.records_max = records.clamp(1, 1 << 16);
        self
    }

    /// Calls `callback` with each failure of the writer, on the writer's thread. By default,
    /// failures are only counted.
    pub fn on_trouble(mut self, callback: impl FnMut(&LogTrouble) + Send + 'static) -> Self {
        self.on_trouble = Box::new(callback);
        self
    }

    /// Opens the target and starts the writer.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    pub fn start(self) -> io::Result<AccessLog> {
        let outlet = Outlet::open(self.target)?;
        let shared = Arc::new(LogState::new(self.records_max));
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
