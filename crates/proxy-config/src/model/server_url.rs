//! URLs of the servers of `[shared]` and `[history.clickhouse]`.

use doorbell_checks::options::HostPort;
use doorbell_config::{Entry, Problem, Section, Text};
use std::fmt;
use std::marker::PhantomData;

/// A kind of servers.
pub trait ServerKind: Clone + 'static {
    /// The form of a URL.
    const FORM: &str;
    /// The schemes without and with TLS, each with its default port.
    const SCHEMES: [(&str, u16); 2];
    /// Whether the number of a database may follow the address.
    const HAS_DB: bool;
}

/// The URL of a server: as it is written, and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl<K> {
    text: String,
    /// Whether connections use TLS.
    pub is_tls: bool,
    /// Host and port.
    pub at: HostPort,
    /// Number of the database.
    pub db: u32,
    kind: PhantomData<K>,
}

impl<K: ServerKind> ServerUrl<K> {
    fn new(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (is_tls, (_, port)) = [false, true].into_iter().zip(K::SCHEMES).find(|(_, at)| at.0 == scheme)?;
        let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
        let is_number = K::HAS_DB && db.bytes().all(|byte| byte.is_ascii_digit());
        let db = if db.is_empty() { 0 } else { db.parse().ok().filter(|_| is_number)? };
        let at = HostPort::parse(authority, Some(port))?;
        Some(Self { text: text.to_owned(), is_tls, at, db, kind: PhantomData })
    }

    /// Reports a table `tls` that has no effect, because the URL, the value of `key`, has the
    /// scheme without TLS.
    pub(super) fn check_tls(&self, key: &str, at: &Section<'_>) {
        if let (false, Some(place)) = (self.is_tls, at.place("tls").filter(|_| at.has_valid(key))) {
            let scheme = K::SCHEMES[1].0;
            let problem =
                Problem::error("useless-tls", place, format!("`tls` has no effect without {scheme}"));
            at.problem(problem.help(format!("write the URL with {scheme}, or remove `tls`")));
        }
    }

    /// Reports a password that is sent to another machine without TLS.
    pub(super) fn check_password(&self, at: &Section<'_>) {
        if let (Some(place), false, false) = (at.place("password"), self.is_tls, self.at.is_this_machine()) {
            let message = format!("the password is sent to {self} without encryption");
            let problem = Problem::warning("plain-password", place, message);
            at.problem(problem.help(format!("write the URL with {}, for TLS", K::SCHEMES[1].0)));
        }
    }
}

impl<K: ServerKind> Text for ServerUrl<K> {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        // The URL may contain a password, so it is not shown.
        let form = format!("expected {}", K::FORM);
        Self::new(&text).or_else(|| entry.refuse("bad-url", "the URL cannot be used", form))
    }

    fn blank() -> Self {
        let at = HostPort { host: "localhost".to_owned(), port: K::SCHEMES[0].1 };
        let text = format!("{}://{}", K::SCHEMES[0].0, at.host);
        Self { text, is_tls: false, at, db: 0, kind: PhantomData }
    }
}

impl<K> fmt::Display for ServerUrl<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::ClickHouseServer;
    use super::super::sharing::RedisServer;
    use super::*;

    fn parts<K: ServerKind>(url: &str) -> Option<(bool, String, u32)> {
        ServerUrl::<K>::new(url).map(|url| (url.is_tls, url.at.to_string(), url.db))
    }

    #[test]
    fn urls_of_redis_and_their_defaults() {
        for (url, expected) in [
            ("redis://cache", Some((false, "cache:6379", 0))),
            ("redis://cache/", Some((false, "cache:6379", 0))),
            ("rediss://cache:1/15", Some((true, "cache:1", 15))),
            ("redis://[::1]:7000/2", Some((false, "[::1]:7000", 2))),
            ("redis://[::1]", Some((false, "[::1]:6379", 0))),
            ("redis://10.0.0.7:1", Some((false, "10.0.0.7:1", 0))),
            ("cache:6379", None),
            ("http://cache", None),
            ("redis://:secret@cache", None),
            ("redis://cache/one", None),
            ("redis://cache/+1", None),
            ("redis://cache?db=1", None),
            ("redis://cache:0", None),
            ("redis://cache:65536", None),
            ("redis://::1", None),
            ("redis://[::1]x", None),
            ("redis://", None),
            ("", None),
        ] {
            let expected = expected.map(|(is_tls, at, db)| (is_tls, at.to_owned(), db));
            assert_eq!(parts::<RedisServer>(url), expected, "{url}");
        }
    }

    #[test]
    fn urls_of_clickhouse_and_their_default_ports() {
        for (url, expected) in [
            ("http://ch", Some((false, "ch:8123"))),
            ("https://ch/", Some((true, "ch:8443"))),
            ("http://[::1]:9000", Some((false, "[::1]:9000"))),
            ("http://10.0.0.7:1", Some((false, "10.0.0.7:1"))),
            ("ch:8123", None),
            ("tcp://ch:9000", None),
            ("http://user:secret@ch", None),
            ("http://ch/path", None),
            ("http://ch/1", None),
            ("http://ch?database=x", None),
            ("http://ch:0", None),
            ("http://ch:65536", None),
            ("http://", None),
            ("", None),
        ] {
            let expected = expected.map(|(is_tls, at)| (is_tls, at.to_owned(), 0));
            assert_eq!(parts::<ClickHouseServer>(url), expected, "{url}");
        }
    }
}
