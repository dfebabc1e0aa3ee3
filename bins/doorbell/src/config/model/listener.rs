//! `[listener.NAME]`: where and what is spoken, to whom, within which limits.
//!
//! Does not know about: routes, opening sockets.

use super::super::bind::Bind;
use crate::http::forwarded::Network;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// `[listener.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Named in logs and errors.
    pub name: String,
    /// All addresses of the listener.
    pub binds: Vec<Bind>,
    /// What is spoken.
    pub protocol: Protocol,
    /// The position in [`super::Config::tls`]; `None` is plain text.
    pub tls: Option<usize>,
    /// Whether a connection begins with a PROXY header.
    pub proxy_protocol: ProxyProtocol,
    /// Whose PROXY headers and whose `Forwarded` or `X-Forwarded-For` are believed.
    pub trusted_proxies: Vec<Network>,
    /// Deadlines.
    pub timeouts: Timeouts,
    /// Connections one address may hold; what is answered and closed at once is not held. The same on every listener.
    pub connections_per_ip: Option<u32>,
    /// Socket options.
    pub tcp: Tcp,
}

/// What a listener speaks.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1.
    Http1(Http1),
    /// The same bytes for everybody, then close.
    Raw {
        /// What is sent.
        reply: String,
        /// True when it is sent without waiting for the client's first bytes.
        speaks_first: bool,
    },
}

/// Whether a connection begins with a PROXY header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// From a trusted proxy it may.
    Accept,
    /// It is not looked for.
    Off,
    /// It must, and come from a trusted proxy.
    Require,
}

/// Which header field of a trusted proxy tells the client's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// None.
    Off,
    /// `X-Forwarded-For`.
    XForwardedFor,
}

/// Limits of HTTP/1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http1 {
    /// Whether a connection may carry more than one request.
    pub keep_alive: bool,
    /// How long a connection may wait for the next request.
    pub idle: Duration,
    /// Requests of one connection.
    pub max_requests: u32,
    /// How old a connection may become before a reply is its last; `None` is any age.
    pub max_age: Option<Duration>,
    /// Which header field tells the client's address.
    pub forwarded: Forwarded,
    /// Bytes of request line and header fields.
    pub header_bytes: u32,
    /// Number of header fields.
    pub headers: u32,
    /// Bytes of a request body; 0 lets none in: a request with a body gets 413.
    pub body_bytes: u32,
    /// Requests of the listener in progress at once; `None` is as many as there are connections.
    pub requests_in_flight: Option<u32>,
    /// Whether HTTP/2 is spoken on the same port: with prior knowledge, or behind TLS where ALPN chooses it.
    pub http2: bool,
}

/// Deadlines of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte, or from the accept, to the end of the header.
    pub header: Duration,
    /// Between two pieces of a body.
    pub body: Duration,
    /// Without progress of a reply. The same on every listener.
    pub write: Duration,
    /// Reading what still comes after a reply that closes. The same on every listener.
    pub linger: Duration,
}

/// Socket options of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Connections the kernel keeps for us.
    pub backlog: u32,
    /// Whether the kernel wakes us only when data came (`TCP_DEFER_ACCEPT`, tcp(7)).
    pub defer_accept: bool,
    /// Whether small segments go out at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Whether a request is acknowledged before its reply (`TCP_QUICKACK`).
    pub quickack: bool,
}

/// The address when nothing else is said: reachable from this machine only.
pub const DEFAULT_ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

impl Default for Http1 {
    fn default() -> Self {
        Self {
            keep_alive: true,
            idle: Duration::from_secs(30),
            max_requests: 1000,
            max_age: Some(Duration::from_secs(3600)),
            forwarded: Forwarded::Off,
            header_bytes: 16 << 10,
            headers: 100,
            body_bytes: 64 << 10,
            requests_in_flight: None,
            http2: false,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            body: Duration::from_secs(10),
            write: Duration::from_secs(10),
            linger: Duration::from_secs(1),
        }
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Self { backlog: 4096, defer_accept: true, nodelay: true, quickack: true }
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            name: "default".into(),
            binds: vec![Bind::Tcp(DEFAULT_ADDR)],
            protocol: Protocol::Http1(Http1::default()),
            tls: None,
            proxy_protocol: ProxyProtocol::Off,
            trusted_proxies: Vec::new(),
            timeouts: Timeouts::default(),
            connections_per_ip: Some(1024),
            tcp: Tcp::default(),
        }
    }
}
