//! `[history]`: where transitions, results and the availability of endpoints are stored.
//!
//! Does not know about: tables of the database, how rows are written.

use super::Secret;
use doorbell_checks::options::ClientTls;
use doorbell_config::{Entry, Problem, Section, Table, Text};
use doorbell_history::clickhouse::{Server, schema};
use std::fmt;
use std::time::Duration;

/// Stores the history of checks and endpoints in a database.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct History {
    /// A ClickHouse server. Default: no history.
    #[key(shown)]
    pub clickhouse: Option<ClickHouse>,
}

/// History in ClickHouse: transitions, results, operations, the time of each endpoint in each
/// state, probes by prober, and receipts of links (the latency of each frame). `doorbell history
/// init` creates the tables.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct ClickHouse {
    /// HTTP interface of the server; the default ports are 8123 for http and 8443 for https.
    /// Required.
    #[key(required = "\"http://clickhouse:8123\"")]
    pub url: HistoryUrl,
    /// Database of the tables.
    #[key(default = "doorbell", read = database)]
    pub database: String,
    /// User. Default: the default user of the server.
    pub user: Option<String>,
    /// Password, preferably ${file:PATH}. Default: none.
    pub password: Option<Secret>,
    /// TLS of the connection, for https.
    pub tls: Option<ClientTls>,
    /// Name of this instance in every row. Default: the host name.
    pub instance: Option<String>,
    /// Stores one in this many of each check's results and of each link's receipts; 1 stores all, 0
    /// none. Transitions are always stored.
    #[key(default = 1, range = 0..=1_000_000)]
    pub sample: u32,
    /// Maximum number of rows of an insert.
    #[key(default = 10_000, range = 1..=100_000)]
    pub batch_rows: u32,
    /// Maximum time that a row waits for other rows before it is inserted.
    #[key(default = "5s", range = "100ms..=10m")]
    pub interval: Duration,
    /// Maximum memory of rows that are not written yet. When the memory is used up, the oldest
    /// receipts are dropped, then the oldest results, then other rows.
    #[key(default = "32MiB", range = "1MiB..=1GiB", size)]
    pub buffer: u32,
    /// Maximum time of an insert.
    #[key(default = "10s", range = "100ms..=5m")]
    pub timeout: Duration,
}

/// The URL of a ClickHouse server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryUrl(String);

impl HistoryUrl {
    /// The server, without credentials.
    pub(crate) fn server(&self) -> Option<Server> {
        Server::new(&self.0).ok()
    }
}

impl ClickHouse {
    fn check(&self, at: &Section<'_>) {
        let is_tls = self.url.server().is_some_and(|server| server.is_tls());
        if let (false, Some(_), Some(place)) =
            (is_tls, &self.tls, at.place("tls").filter(|_| at.has_valid("url")))
        {
            let problem = Problem::error("useless-tls", place, "`tls` has no effect without https");
            at.problem(problem.help("write the URL with https, or remove `tls`"));
        }
    }
}

fn database(entry: &Entry<'_>) -> Option<String> {
    let name = entry.string()?;
    if !schema::is_database(&name) {
        let help = "write letters, digits and `_`, such as \"doorbell\"";
        return entry.refuse("bad-name", format!("{name:?} is not the name of a database"), help);
    }
    Some(name)
}

impl Text for HistoryUrl {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        match Server::new(&text) {
            Ok(_) => Some(Self(text)),
            // The URL may contain a password, so it is not shown.
            Err(error) => entry.refuse("bad-url", "the URL cannot be used", error.to_string()),
        }
    }

    fn blank() -> Self {
        Self("http://localhost".to_owned())
    }
}

impl fmt::Display for HistoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
