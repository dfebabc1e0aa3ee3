//! `[history]`: where transitions, results and the availability of endpoints are stored.

use super::Secret;
use super::server_url::{ServerKind, ServerUrl};
use doorbell_checks::options::ClientTls;
use doorbell_config::{Entry, Section, Table};
use doorbell_history::clickhouse::schema;
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
    pub url: ServerUrl<ClickHouseServer>,
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

/// ClickHouse servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClickHouseServer {}

impl ServerKind for ClickHouseServer {
    const FORM: &str = "http://HOST:PORT or https://HOST:PORT, without a path, user or query";
    const SCHEMES: [(&str, u16); 2] = [("http", 8123), ("https", 8443)];
    const HAS_DB: bool = false;
}

impl ClickHouse {
    fn check(&self, at: &Section<'_>) {
        self.url.check_tls("url", at);
        self.url.check_password(at);
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
