//! `[listener.NAME]`: addresses, protocols, trusted proxies, timeouts and limits.

use super::super::bind::Bind;
use super::super::networks;
use doorbell::Balance;
use doorbell::http::forwarded::Network;
use doorbell_config::{At, Link, Problem, Section, Table, Words};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check, useless = Self::useless)]
pub struct Listener {
    /// Named in logs and errors.
    #[key(table_name)]
    pub name: String,
    /// Addresses to listen on: an address and a port, unix:PATH, systemd:NAME or fd:NUMBER; one or
    /// a list. `[::]` also accepts IPv4 clients, unless an IPv4 address has the same port.
    /// Required. A file without any of `[listener.NAME]`, `[agent.NAME]` and `[udp.NAME]` has a
    /// listener at 127.0.0.1:8080.
    #[key(name = "bind", required = "\"127.0.0.1:8080\"", filled)]
    pub binds: Vec<At<Bind>>,
    /// http1, or raw (the same bytes for every client, then the end of the connection).
    #[key(default = "http1")]
    pub protocol: Protocol,
    /// Name of a `[tls.NAME]`. Default: no TLS.
    pub tls: Option<At<Link>>,
    /// PROXY headers (v1, v2) from `trusted_proxies`: off, accept, or require.
    #[key(default = "off")]
    pub proxy_protocol: ProxyProtocol,
    /// Networks whose `forwarded` and `proxy_protocol` headers are accepted, such as "10.0.0.0/8";
    /// one or a list.
    #[key(with = networks)]
    pub trusted_proxies: Vec<At<Network>>,
    /// Header from `trusted_proxies` with the address of the client: off, forwarded or
    /// x-forwarded-for.
    #[key(default = "off")]
    pub forwarded: Forwarded,
    /// Enables HTTP/2 in addition to HTTP/1.1: with prior knowledge, and over TLS by ALPN. The
    /// built-in listener of a configuration without listeners has HTTP/2.
    #[key(default = false)]
    pub http2: bool,
    /// How new connections are distributed between the workers: kernel (by addresses and ports),
    /// cpu (to the worker on the processor that received them), source-hash (by the address of the
    /// client), round-robin (in turn) or least-connections (to the worker with the fewest open
    /// connections).
    #[key(default = "kernel", words = BALANCES)]
    pub balance: Balance,
    /// Permissions of the file of a Unix socket: "0600" (the user of doorbell), "0660" (and its
    /// group), "0666" (all users), the same with 7, or auto (by the umask of the process). A reload
    /// that changes the value to auto keeps the permissions until doorbell restarts.
    #[key(default = "auto", words = MODES)]
    pub mode: Option<u32>,
    /// Connections with several requests.
    pub keep_alive: KeepAlive,
    /// Deadlines for clients to send requests.
    pub timeouts: Timeouts,
    /// Limits of requests.
    pub limits: Limits,
    /// Options of the socket.
    pub tcp: Tcp,
    /// With raw: the bytes of every reply. Required.
    pub reply: Option<String>,
    /// With raw: sends the reply at once instead of after the first bytes of the client.
    #[key(default = false)]
    pub speaks_first: bool,
}

/// Permissions of the file of a Unix socket.
const MODES: [(&str, Option<u32>); 7] = [
    ("auto", None),
    ("0600", Some(0o600)),
    ("0660", Some(0o660)),
    ("0666", Some(0o666)),
    ("0700", Some(0o700)),
    ("0770", Some(0o770)),
    ("0777", Some(0o777)),
];

/// Protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1.
    Http1,
    /// The same bytes for every client, then close.
    Raw,
}

/// Whether a connection begins with a PROXY header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum ProxyProtocol {
    /// Optional, from trusted proxies only.
    Accept,
    /// Not expected: the connection begins with the request.
    Off,
    /// Every connection must begin with a header from a trusted proxy; others are closed.
    Require,
}

const BALANCES: [(&str, Balance); 5] = [
    ("cpu", Balance::Cpu),
    ("kernel", Balance::Kernel),
    ("least-connections", Balance::LeastConnections),
    ("round-robin", Balance::RoundRobin),
    ("source-hash", Balance::SourceHash),
];

/// Header field of a trusted proxy with the client's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum Forwarded {
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// None.
    Off,
    /// `X-Forwarded-For`.
    XForwardedFor,
}

/// Connections with several requests.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct KeepAlive {
    /// Keeps connections open after a reply; `false` closes them.
    #[key(default = true)]
    pub enabled: bool,
    /// Maximum wait for the next request; should exceed the interval of probers.
    #[key(default = "30s", range = "10ms..=1d")]
    pub idle: Duration,
    /// Maximum number of requests of an HTTP/1 connection.
    #[key(default = 1000, range = 1..=1_000_000_000, nonzero)]
    pub max_requests: u32,
    // Range: below one second, new handshakes cost more than a lower age gains; thirty days is
    // practically no limit.
    /// Maximum age of a connection, or off.
    #[key(default = "1h", none = "off", range = "1s..=30d")]
    pub max_age: Option<Duration>,
}

/// Deadlines for clients to send requests, from 10ms (the resolution of the timers) to one day.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Timeouts {
    /// Maximum time to the end of the header fields, from the first byte of a request; for the
    /// first request, from the accept or the end of the TLS handshake. With raw: to the first bytes
    /// of the client.
    #[key(default = "10s", range = "10ms..=1d")]
    pub header: Duration,
    /// Maximum time between two pieces of a body.
    #[key(default = "10s", range = "10ms..=1d")]
    pub body: Duration,
}

/// Limits of requests.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Limits {
    /// Maximum size of the request line and header fields together; larger ones get 431. A request
    /// line above 8KiB gets 414.
    #[key(default = "16KiB", range = "256B..=1MiB", size, nonzero)]
    pub header_bytes: u32,
    /// Maximum number of header fields; more get 431.
    #[key(default = 100, range = 1..=1000, nonzero)]
    pub headers: u32,
    /// Maximum size of a request body; larger ones get 413. 0B permits none.
    #[key(default = "64KiB", range = "0B..=64MiB", size)]
    pub body_bytes: u32,
    /// Maximum number of requests in progress, or off; further ones get 503. A Watch of gRPC counts
    /// while it is open.
    #[key(default = "off", none = "off", range = 1..=4_000_000, nonzero)]
    pub requests_in_flight: Option<u32>,
}

/// Options of the sockets that the listener opens. A reload changes the options for new
/// connections. A socket that was passed to the process keeps the options of its owner.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Tcp {
    /// Maximum number of connections that wait for an accept; the kernel caps it at somaxconn.
    #[key(default = 4096, range = 1..=1_048_576)]
    pub backlog: u32,
    /// Accepts a connection only after the first bytes of the client (TCP_DEFER_ACCEPT).
    #[key(default = true)]
    pub defer_accept: bool,
    /// Sends small segments at once (TCP_NODELAY).
    #[key(default = true)]
    pub nodelay: bool,
    /// Acknowledges a request before its reply (TCP_QUICKACK).
    #[key(default = true)]
    pub quickack: bool,
    /// Bytes of a connection that the kernel stores before they are read (SO_RCVBUF), or auto
    /// (tuned by the kernel). The kernel caps the size at net.core.rmem_max.
    #[key(default = "auto", none = "auto", range = "4KiB..=64MiB", size)]
    pub receive_buffer: Option<u32>,
    /// Bytes of a connection that the kernel stores until the client acknowledges them (SO_SNDBUF),
    /// or auto (tuned by the kernel). The kernel caps the size at net.core.wmem_max. A slow client
    /// occupies up to twice this size.
    #[key(default = "256KiB", none = "auto", range = "4KiB..=64MiB", size)]
    pub send_buffer: Option<u32>,
    // The kernel accepts at most 32,767 seconds.
    /// Time without a segment after which the kernel probes the client (SO_KEEPALIVE), in whole
    /// seconds, or off. The connection ends if the client acknowledges nothing for twice this time,
    /// but at least 15s.
    #[key(default = "off", none = "off", range = "1s..=9h")]
    pub keepalive: Option<Duration>,
    /// Maximum number of connections in the handshake whose first segment has data (TCP_FASTOPEN),
    /// or off. Needs the flag 0x2 in net.ipv4.tcp_fastopen. The kernel may deliver the data of a
    /// first segment twice, so every request must be safe to repeat.
    #[key(default = "off", none = "off", range = 1..=65_535)]
    pub fast_open: Option<u32>,
    /// Traffic class of all packets (DSCP, RFC 2474), such as 46 for expedited forwarding.
    #[key(default = 0, range = 0..=63)]
    pub dscp: u32,
}

/// Keys of [`Tcp`]. A Unix socket has only the first, `tcp.backlog`.
const OPTIONS: [&str; 9] = [
    "tcp.backlog",
    "tcp.defer_accept",
    "tcp.dscp",
    "tcp.fast_open",
    "tcp.keepalive",
    "tcp.nodelay",
    "tcp.quickack",
    "tcp.receive_buffer",
    "tcp.send_buffer",
];

/// Returns a [`Link`] to each of the listeners at these positions.
pub fn links_to(listeners: &[Listener], positions: impl IntoIterator<Item = usize>) -> Vec<At<Link>> {
    let link = |position: usize| Link { name: listeners[position].name.clone(), position }.into();
    positions.into_iter().map(link).collect()
}

/// Address of the default listener: reachable from this machine only.
pub const DEFAULT_ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

impl Listener {
    /// The listener of a configuration without listeners, with HTTP/2 for gRPC health checks.
    pub(crate) fn local() -> Self {
        let binds = vec![Bind::Tcp(DEFAULT_ADDR).into()];
        Self { name: "default".into(), binds, http2: true, ..Self::default() }
    }

    /// Addresses of the listener.
    pub fn addresses(&self) -> impl Iterator<Item = &Bind> {
        self.binds.iter().map(|bind| &bind.value)
    }

    /// Networks whose PROXY headers and `Forwarded` or `X-Forwarded-For` are accepted.
    pub fn trusted(&self) -> impl Iterator<Item = Network> {
        self.trusted_proxies.iter().map(|network| network.value)
    }

    /// Whether the listener serves HTTP.
    #[must_use]
    pub fn is_http(&self) -> bool {
        self.protocol == Protocol::Http1
    }

    /// Whether the listener accepts HTTP/2.
    pub(crate) fn has_http2(&self) -> bool {
        self.is_http() && self.http2
    }

    /// Keys without effect.
    fn useless(&self) -> Vec<&'static str> {
        self.useless_of_protocol().iter().copied().chain(self.useless_options()).collect()
    }

    /// Keys without effect for the protocol of the listener.
    const fn useless_of_protocol(&self) -> &'static [&'static str] {
        match self.protocol {
            Protocol::Http1 => &["reply", "speaks_first"],
            Protocol::Raw => &[
                "keep_alive",
                "limits.header_bytes",
                "limits.headers",
                "limits.body_bytes",
                "limits.requests_in_flight",
                "forwarded",
                "http2",
                "timeouts.body",
            ],
        }
    }

    /// Options without effect for the addresses of the listener.
    fn useless_options(&self) -> impl Iterator<Item = &'static str> {
        let has = |is: fn(&Bind) -> bool| self.addresses().any(is);
        // A peer without an IP address cannot be a trusted proxy.
        let is_unix = self.addresses().all(|bind| matches!(bind, Bind::Unix(_)));
        let options = if self.binds.is_empty() || has(|bind| matches!(bind, Bind::Tcp(_))) {
            &[]
        } else if has(|bind| matches!(bind, Bind::Unix(_))) {
            &OPTIONS[1..]
        } else {
            &OPTIONS[..]
        };
        let has_no_file = !self.binds.is_empty() && !has(|bind| matches!(bind, Bind::Unix(_)));
        let options = options.iter().copied().chain(has_no_file.then_some("mode"));
        options.chain((is_unix && !self.binds.is_empty()).then_some("forwarded"))
    }

    fn check(&mut self, at: &Section<'_>) {
        let right = |key: &'static str| Some((key, at.right_place(key)?));
        for (key, place) in self.useless_options().filter_map(right) {
            let bind = &self.binds[0].value;
            let message = format!("`{key}` has no effect on \"{bind}\"");
            let help = match bind {
                Bind::Tcp(_) => "remove it, or add unix:PATH to `bind`",
                Bind::Unix(_) => "remove it, or add an address and a port to `bind`",
                _ => "remove it, and set the option where the socket is created, as in the .socket unit",
            };
            at.problem(Problem::error("useless-key", place, message).help(help));
        }
        for (key, place) in self.useless_of_protocol().iter().copied().filter_map(right) {
            let (message, help) = match self.protocol {
                Protocol::Http1 => (
                    format!("`{key}` belongs to a raw listener"),
                    "set `protocol = \"raw\"`, or answer HTTP with a [route.NAME]",
                ),
                Protocol::Raw => (
                    format!("`{key}` has no effect on a raw listener"),
                    "remove it, or set `protocol = \"http1\"`",
                ),
            };
            at.problem(Problem::error("useless-key", place, message).help(help));
        }
        if self.protocol == Protocol::Raw {
            self.check_raw(at);
        }
        self.check_balance(at);
        self.check_proxies(at);
    }

    /// Reports `balance` cpu or source-hash on a Unix or passed socket: all workers share the
    /// socket, so the kernel cannot choose the worker.
    fn check_balance(&self, at: &Section<'_>) {
        let shared = self.binds.iter().find(|bind| !matches!(bind.value, Bind::Tcp(_)));
        if let (true, Some(bind), Some(place)) =
            (matches!(self.balance, Balance::Cpu | Balance::SourceHash), shared, at.right_place("balance"))
        {
            let message = format!("all workers share the socket of \"{}\"", bind.value);
            let help =
                "set it to \"round-robin\" or \"least-connections\", or bind an address and a port only";
            at.problem(Problem::error("contradiction", place, message).help(help));
        }
    }

    fn check_raw(&mut self, at: &Section<'_>) {
        let defer = at.right_place("tcp.defer_accept");
        if let (true, true, Some(place)) = (self.speaks_first, self.tcp.defer_accept, defer) {
            let message = "a listener that sends first cannot wait for the client's first bytes";
            at.problem(Problem::error("contradiction", place, message).help("remove `defer_accept`"));
        }
        self.tcp.defer_accept &= !self.speaks_first;
        if at.place("reply").is_none() {
            let message = format!("raw listener `{}` has no reply", self.name);
            let problem = Problem::error("missing-key", at.span.clone(), message);
            at.problem(problem.help("add `reply = \"PONG\\n\"`"));
        }
    }

    /// Requires `trusted_proxies` for `proxy_protocol` and `forwarded`, because a trusted peer can
    /// claim any address. Warns of `trusted_proxies` without effect, and of networks that contain
    /// every peer.
    fn check_proxies(&self, at: &Section<'_>) {
        let no_proxies = |key: &str, place: Range<usize>| {
            let message = format!("`{key}` without `trusted_proxies` would trust any client");
            at.problem(
                Problem::error("no-trusted-proxies", place, message)
                    .help("list the networks of your load balancers, `trusted_proxies = [\"10.0.0.0/8\"]`"),
            );
        };
        let proxy_protocol = Some("proxy_protocol").filter(|_| self.proxy_protocol != ProxyProtocol::Off);
        let forwarded = Some("forwarded").filter(|_| self.forwarded != Forwarded::Off && self.is_http());
        let mut trusting_keys = proxy_protocol.into_iter().chain(forwarded);
        let Some(given) = at.place("trusted_proxies") else {
            trusting_keys.for_each(|key| no_proxies(key, at.place(key).unwrap_or_default()));
            return;
        };
        match (trusting_keys.next(), self.trusted_proxies.is_empty()) {
            (Some(key), true) => no_proxies(key, given),
            (None, false) => {
                let message = "`trusted_proxies` has no effect";
                at.problem(Problem::warning("no-effect", given, message).help(
                    "set `proxy_protocol = \"accept\"` or `forwarded = \"x-forwarded-for\"`, or remove it",
                ));
            }
            _ => {}
        }
        let is_all = |network: &&At<Network>| network.to_string().ends_with("/0");
        for network in self.trusted_proxies.iter().filter(is_all) {
            let message =
                format!("{} trusts every client: any of them can claim another address", network.value);
            at.problem(
                Problem::warning("trusts-everyone", network.span.clone(), message)
                    .help("list the networks of your load balancers only"),
            );
        }
    }
}
