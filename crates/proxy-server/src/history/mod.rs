//! The history of this process: one buffer and one writer across reloads.
//!
//! Without `[history.clickhouse]` there is neither a buffer nor a thread. Rows are never added on a
//! thread that replies to probes: transitions and operations come from the event log, results from
//! the check thread, and receipts from the link thread.

mod recorded;

pub(crate) use recorded::{Receipts, Results, record};

use crate::reload::watch::Stamps;
use doorbell_checks::options::ClientTls;
use doorbell_history::clickhouse::{ClickHouse, Server};
use doorbell_history::{Counter, History, Options, Writer, millis};
use doorbell_proxy_config::model::{ClickHouse as Settings, Config};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Upper bound on file descriptors: those of the runtime, one connection, and one name lookup.
pub(crate) const DESCRIPTORS: u32 = 8;

/// The history in use, if one is configured.
pub(crate) struct HistorySlot {
    current: Mutex<Option<Current>>,
    time_of_day: fn() -> Duration,
    /// Returns the counters that are stored every minute.
    counters: Arc<dyn Fn() -> Vec<Counter> + Send + Sync>,
}

#[derive(Debug)]
struct Current {
    history: Arc<History>,
    writer: Writer<ClickHouse>,
    made_of: MadeOf,
    /// Start of this history in milliseconds since 1970.
    run: u64,
}

/// Settings and file [stamps](Stamps) from which a [`ClickHouse`] was built. It reads its files
/// only when it is built, so changed stamps require a new one.
type MadeOf = (Settings, Stamps);

/// The history of a configuration that is not in use yet.
#[derive(Debug)]
pub(crate) struct Prepared(Next);

#[derive(Debug)]
enum Next {
    None,
    /// The current history continues with these settings.
    Same(Box<(MadeOf, ClickHouse)>, Arc<History>),
    New(Box<Current>),
}

impl Prepared {
    /// The history that receives rows; `None` if no history is configured.
    pub(crate) fn history(&self) -> Option<&Arc<History>> {
        match &self.0 {
            Next::None => None,
            Next::Same(_, history) => Some(history),
            Next::New(current) => Some(&current.history),
        }
    }
}

impl HistorySlot {
    /// Creates an empty slot. `time_of_day` returns the time since 1970, `counters` the counters of
    /// links and probers.
    pub(crate) fn new(
        time_of_day: fn() -> Duration,
        counters: impl Fn() -> Vec<Counter> + Send + Sync + 'static,
    ) -> Self {
        Self { current: Mutex::default(), time_of_day, counters: Arc::new(counters) }
    }

    /// Prepares the history of a configuration. It takes effect with [`Self::commit`]; until then
    /// the result can be dropped.
    ///
    /// # Errors
    /// A TLS file cannot be used, or the system refuses a thread.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Prepared, String> {
        let Some(settings) = &config.history.clickhouse else { return Ok(Prepared(Next::None)) };
        // The stamps are taken before the files are read, so that a change during reading is
        // detected.
        let made_of = (settings.clone(), Stamps::of(files(config)));
        let store = store(settings)?;
        let current = self.current.lock();
        if let Some(current) = &*current {
            let store = ClickHouse { run: current.run, ..store };
            return Ok(Prepared(Next::Same(Box::new((made_of, store)), Arc::clone(&current.history))));
        }
        let run = millis((self.time_of_day)());
        let history = Arc::new(History::new(settings.buffer as usize, settings.batch_rows as usize));
        let store = ClickHouse { run, ..store };
        let (options, counters) = (options(settings), Arc::clone(&self.counters));
        let writer =
            Writer::start(Arc::clone(&history), store, options, self.time_of_day, move || counters())
                .map_err(|error| format!("history: cannot start a thread: {error}"))?;
        Ok(Prepared(Next::New(Box::new(Current { history, writer, made_of, run }))))
    }

    /// Activates a prepared history, and returns it. Rows in the buffer are written to the new
    /// target. If no history is configured any more, they are written to the old target in the
    /// background.
    pub(crate) fn commit(&self, prepared: Prepared) -> Option<Arc<History>> {
        let mut current = self.current.lock();
        match prepared.0 {
            Next::None => *current = None,
            Next::New(new) => *current = Some(*new),
            Next::Same(next, _) => {
                if let Some(current) = &mut *current
                    && current.made_of != next.0
                {
                    let (made_of, store) = *next;
                    let settings = &made_of.0;
                    current.history.resize(settings.buffer as usize, settings.batch_rows as usize);
                    current.writer.change(store, options(settings));
                    current.made_of = made_of;
                }
            }
        }
        current.as_ref().map(|current| Arc::clone(&current.history))
    }

    /// Writes the remaining rows within a limited time.
    pub(crate) fn end(&self) {
        let current = self.current.lock().take();
        if let Some(current) = current {
            current.writer.stop();
        }
    }
}

/// The files that a [`ClickHouse`] reads only when it is built.
pub(crate) fn files(config: &Config) -> impl Iterator<Item = &Path> {
    config.history.clickhouse.iter().filter_map(|settings| settings.tls.as_ref()).flat_map(ClientTls::files)
}

const fn options(settings: &Settings) -> Options {
    Options { interval: settings.interval, timeout: settings.timeout }
}

/// Creates the [`ClickHouse`] for these settings.
///
/// # Errors
/// A TLS file cannot be used.
pub fn store(settings: &Settings) -> Result<ClickHouse, String> {
    let tls = settings.tls.clone().unwrap_or_default();
    let url = &settings.url;
    let tls_config = url.is_tls.then(|| doorbell_checks::tls_client(&tls, "")).transpose();
    let server = Server {
        host: url.at.host.clone(),
        port: url.at.port,
        is_tls: url.is_tls,
        user: settings.user.clone().unwrap_or_default(),
        password: settings.password.as_ref().map(|one| one.reveal().to_owned()).unwrap_or_default(),
        tls: tls_config.map_err(|why| format!("history.clickhouse: {why}"))?.map(|client| client.config),
        server_name: tls.server_name,
    };
    let instance = settings.instance.clone().unwrap_or_else(doorbell_proxy_config::host_name);
    Ok(ClickHouse { server, database: settings.database.clone(), instance, run: 0 })
}
