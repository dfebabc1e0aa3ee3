//! Kinds of checks, and the keys of each `type`.

use super::address::{Address, ClientTls, HostPort, Url};
#[cfg(feature = "mail")]
use super::mail::MailProtocol;
use super::target::Target;
use doorbell_config::{Dump, Entry, Json, JsonMap, Key, Problem, Section, Table, form, quoted};
use std::collections::BTreeMap;
use std::time::Duration;

/// Results that are pushed.
#[derive(Clone, Debug, Table)]
struct Ttl {
    /// Time for which a pushed result is valid, also one that reports maintenance. Within this
    /// time, the application must push another result by POST to a route with `push`. Required.
    #[key(required = "\"30s\"", range = "100ms..=30d")]
    ttl: Duration,
}

/// The name of a kind, its keys, and the function that reads them.
type Kind = (&'static str, fn() -> JsonMap, fn(&mut Section<'_>) -> CheckKind);

macro_rules! kinds {
    ($(
        #[doc = $doc:literal]
        $(#[cfg($feature:meta)])?
        $word:literal $variant:ident($kept:ty), $table:ty;
    )*) => {
        /// What a check does.
        #[derive(Clone, Debug, PartialEq)]
        pub enum CheckKind {
            $(#[doc = $doc] $(#[cfg($feature)])? $variant($kept),)*
            /// No run: results are pushed, and are valid for this time.
            Ttl(Duration),
        }

        const KINDS: &[Kind] = &[
            $($(#[cfg($feature)])? ($word, <$table as Table>::properties, |at| <$table>::take(at).into()),)*
            ("ttl", <Ttl as Table>::properties, |at| CheckKind::Ttl(Ttl::take(at).ttl)),
        ];

        $($(#[cfg($feature)])? impl From<$table> for CheckKind {
            fn from(check: $table) -> Self {
                Self::$variant(check.into())
            }
        })*

        impl CheckKind {
            /// The name of the kind.
            #[must_use]
            pub const fn word(&self) -> &'static str {
                match self {
                    $($(#[cfg($feature)])? Self::$variant(_) => $word,)*
                    Self::Ttl(_) => "ttl",
                }
            }

            fn show_keys(&self, to: &mut Dump) {
                match self {
                    $($(#[cfg($feature)])? Self::$variant(table) => table.show(to),)*
                    Self::Ttl(ttl) => Ttl { ttl: *ttl }.show(to),
                }
            }

            /// TLS options of the connections, for kinds that support TLS.
            #[must_use]
            pub fn tls(&self) -> Option<&ClientTls> {
                match self {
                    $($(#[cfg($feature)])? Self::$variant(target) => target.tls(),)*
                    Self::Ttl(_) => None,
                }
            }

            /// The host to which the check connects; `None` if it is this machine, or if there is
            /// no connection.
            #[must_use]
            pub fn remote(&self) -> Option<&HostPort> {
                match self {
                    $($(#[cfg($feature)])? Self::$variant(target) => target.remote(),)*
                    Self::Ttl(_) => None,
                }
            }
        }
    };
}

// Each kind: its documentation, its name, its variant, and the table of its keys.
kinds! {
    /// The state of another check or endpoint.
    #[cfg(feature = "alias")]
    "alias" Alias(Box<super::AliasCheck>), super::AliasCheck;
    /// A question to a name server.
    "dns" Dns(Box<super::DnsCheck>), super::DnsCheck;
    /// A program.
    "exec" Exec(super::ExecCheck), super::ExecCheck;
    /// A file.
    "file" File(super::FileCheck), super::FileCheck;
    /// A metric of this machine.
    "gauge" Gauge(super::GaugeCheck), super::GaugeCheck;
    /// A call of `Check` or `Watch` of `grpc.health.v1`, or of a unary method of another service.
    "grpc" Grpc(Box<super::GrpcCheck>), super::GrpcCheck;
    /// An HTTP request.
    "http" Http(Box<super::HttpCheck>), super::HttpCheck;
    /// An ICMP or ICMPv6 echo.
    #[cfg(feature = "icmp")]
    "icmp" Icmp(Box<super::IcmpCheck>), super::IcmpCheck;
    /// The states at other instances, which arrive on links.
    #[cfg(feature = "link")]
    "link" Link(super::LinkCheck), super::LinkCheck;
    /// The greeting of a mail server.
    #[cfg(feature = "mail")]
    "mail" Mail(Box<super::MailCheck>), super::MailCheck;
    /// The greeting of a MySQL server, and optionally a login.
    #[cfg(feature = "mysql")]
    "mysql" Mysql(Box<super::MysqlCheck>), super::MysqlCheck;
    /// The start of a PostgreSQL session, and optionally a login.
    #[cfg(feature = "postgres")]
    "postgres" Postgres(Box<super::PostgresCheck>), super::PostgresCheck;
    /// Processes of this machine.
    #[cfg(feature = "process")]
    "process" Process(super::ProcessCheck), super::ProcessCheck;
    /// `PING` of a Redis server.
    "redis" Redis(Box<super::RedisCheck>), super::RedisCheck;
    /// A connection, and optionally bytes on it.
    "tcp" Tcp(super::TcpCheck), super::TcpCheck;
    /// A TLS handshake and the certificates.
    "tls" Tls(Box<super::TlsCheck>), super::TlsCheck;
    /// A datagram, and optionally a reply.
    #[cfg(feature = "udp")]
    "udp" Udp(Box<super::UdpCheck>), super::UdpCheck;
    /// A WebSocket connection.
    #[cfg(feature = "websocket")]
    "websocket" Websocket(Box<super::WebsocketCheck>), super::WebsocketCheck;
}

/// Subtables of a check whose keys depend on the kind, and the documentation of these subtables.
const TABLES: [(&str, &str); 2] = [
    ("expect", "Requirements; if one is not met, the check fails."),
    ("degraded", "Conditions under which a result that meets `expect` is degraded. Default: none."),
];

static TYPE: Key = Key::with("type", "Kind of the check; its other keys depend on it. Required.", type_form);

fn type_form(_: &Key) -> Json {
    serde_json::json!({ "enum": words() })
}

/// The names of all kinds.
fn words() -> Vec<&'static str> {
    KINDS.iter().map(|(word, ..)| *word).collect()
}

impl Default for CheckKind {
    fn default() -> Self {
        Self::Ttl(Duration::from_secs(1))
    }
}

impl Table for CheckKind {
    const DOC: &'static str = "What a check does.";

    fn keys() -> &'static [Key] {
        std::slice::from_ref(&TYPE)
    }

    fn defaults() -> &'static Self {
        const { &Self::Ttl(Duration::from_secs(1)) }
    }

    fn properties() -> JsonMap {
        properties_among(&words())
    }

    fn take(at: &mut Section<'_>) -> Self {
        take_among(at, &words())
    }

    fn show(&self, to: &mut Dump) {
        to.put(None, TYPE.name, self.word().into());
        self.show_keys(to);
    }
}

/// The JSON Schema of the keys of these kinds, if their features are enabled, in which each key names the kinds that have it.
pub(super) fn properties_among(words: &[&str]) -> JsonMap {
    let (mut all, mut docs) = (JsonMap::new(), Docs::new());
    let mut known = Vec::new();
    for (word, properties, _) in KINDS.iter().filter(|(word, ..)| words.contains(word)) {
        known.push(*word);
        let mut own = properties();
        take_docs(&mut own, "", word, &mut docs);
        form::merge(&mut all, own);
    }
    for ([table, key], texts) in docs {
        let texts = texts.into_iter().map(|(doc, kinds)| format!("{}: {doc}", kinds.join(", ")));
        let text = texts.collect::<Vec<_>>().join(" ");
        let form = match table.as_str() {
            "" => all.get_mut(&key),
            table => all.get_mut(table).and_then(|form| form["properties"].get_mut(&key)),
        };
        form.into_iter().for_each(|form| form["description"] = text.clone().into());
    }
    for (table, doc) in TABLES {
        all.entry(table).and_modify(|form| form["description"] = doc.into());
    }
    let mut form = TYPE.schema();
    form["enum"] = known.into();
    all.insert(TYPE.name.to_owned(), form);
    all
}

/// Reads a check of one of these kinds.
pub(super) fn take_among(at: &mut Section<'_>, words: &[&str]) -> CheckKind {
    let known = KINDS.iter().filter(|(word, ..)| words.contains(word));
    let kinds: Vec<_> = known.map(|(word, _, take)| (*word, *take)).collect();
    let read = |entry: &Entry<'_>| entry.word(&kinds).map(Some);
    let Some(take) = at.read_with(&TYPE, &None, read) else {
        if at.place(TYPE.name).is_none() {
            let message = format!("{} `{}` has no `type`", at.noun(), at.name);
            let problem = Problem::error("missing-key", at.span.clone(), message);
            let words: Vec<_> = kinds.iter().map(|(word, _)| *word).collect();
            at.problem(problem.help(format!("add `type = `, one of {}", quoted(&words))));
        }
        // Without a type, the valid keys are unknown.
        at.accept_others();
        return CheckKind::default();
    };
    take(at)
}

/// The documentation texts of each key, with the kinds to which they apply. The map is indexed by
/// the name of a subtable of the check, empty for the check itself, and the name of a key in it.
type Docs = BTreeMap<[String; 2], Vec<(String, Vec<&'static str>)>>;

fn take_docs(properties: &mut JsonMap, table: &str, kind: &'static str, docs: &mut Docs) {
    for (name, form) in properties {
        let form = form.as_object_mut();
        let Some(form) = form else { continue };
        match form.remove("description") {
            Some(Json::String(doc)) => {
                let known = docs.entry([table.to_owned(), name.clone()]).or_default();
                match known.iter_mut().find(|(known, _)| *known == doc) {
                    Some((_, kinds)) => kinds.push(kind),
                    None => known.push((doc, vec![kind])),
                }
            }
            _ if TABLES.iter().any(|(known, _)| known == name) => {
                let below = form.get_mut("properties").and_then(Json::as_object_mut);
                below.into_iter().for_each(|below| take_docs(below, name, kind, docs));
            }
            _ => {}
        }
    }
}

/// A URL scheme that is followed by a host and a port: the scheme, the default port if there is
/// one, and the check.
type Scheme = (&'static str, Option<u16>, fn(Address) -> CheckKind);

const BY_ADDRESS: &[Scheme] = &[
    #[cfg(feature = "mail")]
    ("imap://", Some(143), |at| super::MailCheck::new(MailProtocol::Imap, at).into()),
    #[cfg(feature = "mysql")]
    ("mysql://", Some(3306), |at| super::MysqlCheck::new(at).into()),
    #[cfg(feature = "mail")]
    ("pop3://", Some(110), |at| super::MailCheck::new(MailProtocol::Pop3, at).into()),
    #[cfg(feature = "postgres")]
    ("postgres://", Some(5432), |at| super::PostgresCheck::new(at).into()),
    ("redis://", Some(6379), |at| super::RedisCheck::new(at).into()),
    #[cfg(feature = "mail")]
    ("smtp://", Some(25), |at| super::MailCheck::new(MailProtocol::Smtp, at).into()),
    ("tcp://", None, |at| super::TcpCheck::new(at).into()),
    ("tls://", Some(443), |at| super::TlsCheck::new(at).into()),
    #[cfg(feature = "udp")]
    ("udp://", None, |at| super::UdpCheck::new(at).into()),
];

impl CheckKind {
    /// Parses a check from a URL: `http://..`, `https://..`, `tcp://HOST:PORT`, `unix:/PATH`,
    /// `tls://HOST`, `redis://HOST`, `grpc://HOST:PORT/SERVICE`, `grpcs://..` or, with the feature
    /// of that kind, `udp://HOST:PORT`, `icmp://HOST`, `postgres://HOST`, `mysql://HOST`,
    /// `smtp://HOST`, `imap://HOST`, `pop3://HOST`, `ws://..` or `wss://..`.
    #[must_use]
    pub fn parse(target: &str) -> Option<Self> {
        #[cfg(feature = "icmp")]
        if let Some(host) = target.strip_prefix("icmp://") {
            return HostPort::parse_host(host).map(super::IcmpCheck::new).map(Self::from);
        }
        if target.starts_with("unix:") {
            return Address::parse(target).map(super::TcpCheck::new).map(Self::from);
        }
        for &(scheme, port, of) in BY_ADDRESS {
            if let Some(address) = target.strip_prefix(scheme) {
                return HostPort::parse(address, port).map(|at| of(Address::Tcp(at)));
            }
        }
        #[cfg(feature = "websocket")]
        if let Some(url) = super::websocket::url::parse(target) {
            return Some(super::WebsocketCheck::new(url).into());
        }
        for (scheme, tls) in [("grpc://", None), ("grpcs://", Some(ClientTls::default()))] {
            if let Some(rest) = target.strip_prefix(scheme) {
                let (address, service) = rest.split_once('/').unwrap_or((rest, ""));
                let default = super::GrpcCheck::new(Address::Tcp(HostPort::parse(address, None)?));
                return Some(super::GrpcCheck { service: service.to_owned(), tls, ..default }.into());
            }
        }
        Url::parse(target).map(super::HttpCheck::new).map(Self::from)
    }

    /// Whether the check follows a state of this program.
    #[must_use]
    pub fn is_local_alias(&self) -> bool {
        #[cfg(feature = "alias")]
        if self.followed().is_some() {
            return true;
        }
        false
    }

    /// The check or endpoint of this program that the check follows, if any.
    #[cfg(feature = "alias")]
    #[must_use]
    pub fn followed(&self) -> Option<super::Followed<'_>> {
        match self {
            Self::Alias(alias) => alias.followed(),
            _ => None,
        }
    }

    /// The lifetime of a result, if the check does not run: its results are pushed or arrive on
    /// links.
    #[must_use]
    pub const fn pushed_ttl(&self) -> Option<Duration> {
        match self {
            #[cfg(feature = "link")]
            Self::Link(_) => Some(super::link::DECISION_TTL),
            Self::Ttl(ttl) => Some(*ttl),
            _ => None,
        }
    }

    /// Whether all options are equal, except the lifetime of pushed results.
    #[must_use]
    pub fn has_same_target(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Ttl(_), Self::Ttl(_))) || self == other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        for (target, expected) in [
            ("http://a/x", Some("http a:80")),
            ("https://a", Some("http a:443")),
            ("tcp://[::1]:5", Some("tcp [::1]:5")),
            ("grpc://a:5/shop.Cart", Some("grpc a:5")),
            ("grpc://a:5", Some("grpc a:5")),
            ("grpcs://a:5/x", Some("grpc a:5")),
            ("tcp://a", None),
            ("tcp://a:5/x", None),
            ("grpc://a", None),
            ("a:5", None),
            ("udp://a:5", cfg!(feature = "udp").then_some("udp a:5")),
            ("udp://a", None),
            ("icmp://a.test", cfg!(feature = "icmp").then_some("icmp a.test")),
            ("icmp://[2001:db8::1]", cfg!(feature = "icmp").then_some("icmp 2001:db8::1")),
            ("icmp://a:5", None),
            ("", None),
        ] {
            let found = CheckKind::parse(target);
            let found = found.map(|kind| {
                format!(
                    "{} {}",
                    kind.word(),
                    kind.remote().map_or_else(|| "[::1]:5".into(), ToString::to_string)
                )
            });
            assert_eq!(found.as_deref(), expected, "{target:?}");
        }
        for (target, expected) in [
            #[cfg(feature = "mail")]
            ("smtp://a", "mail a:25"),
            #[cfg(feature = "mail")]
            ("imap://a:1143", "mail a:1143"),
            #[cfg(feature = "mail")]
            ("pop3://a", "mail a:110"),
            #[cfg(feature = "mysql")]
            ("mysql://a", "mysql a:3306"),
            #[cfg(feature = "postgres")]
            ("postgres://a", "postgres a:5432"),
            ("redis://a", "redis a:6379"),
            ("tls://a", "tls a:443"),
            #[cfg(feature = "websocket")]
            ("ws://a/x", "websocket a:80"),
            #[cfg(feature = "websocket")]
            ("wss://a", "websocket a:443"),
        ] {
            let found = CheckKind::parse(target).unwrap();
            assert_eq!(format!("{} {}", found.word(), found.remote().unwrap()), expected, "{target}");
        }
        for (target, is_tls) in [("grpc://a:5/shop.Cart", false), ("grpcs://a:5/shop.Cart", true)] {
            let Some(CheckKind::Grpc(grpc)) = CheckKind::parse(target) else { panic!("it is gRPC") };
            assert_eq!((grpc.service.as_str(), grpc.tls.is_some()), ("shop.Cart", is_tls), "{target}");
        }
    }
}
