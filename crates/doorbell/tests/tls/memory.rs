//! Both ends of a connection in memory: the protocol driven as by a worker, and a client of the TLS
//! library.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use doorbell::http::{Client, Date, Next, Out, Time};
use doorbell::id::{ConnId, Generation, SlotIndex};
use doorbell::protocol::{Io, Local, Notify, Protocol, Tls};
use doorbell::tls::{Acceptor, TlsConfig};
use doorbell::{CloseReason, Http1, HttpLimits, Request, Responder, Status};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, SupportedProtocolVersion};

use crate::pki::{Signed, ca, localhost};

/// Time of the tests by default: 2026-01-01.
pub(crate) const UNIX_SECS: i64 = 1_767_225_600;

/// Length of the large reply. It is above 16 KiB, so that the body is shared and not copied.
pub(crate) const LARGE_LEN: usize = 100_000;

/// The service of the tests, which replies by path.
pub(crate) fn answer<'a>(request: &Request<'_>, reply: Responder<'a>) -> doorbell::Replied<'a> {
    match request.path() {
        "/large" => {
            let body: Vec<u8> = (b'a'..=b'w').cycle().take(LARGE_LEN).collect();
            reply.status(Status::OK).content_bytes(Bytes::from(body))
        }
        "/panic" => panic!("a handler of a test panics"),
        "/client" => {
            let Some(tls) = request.client().tls else { return reply.status(Status::OK).content("no TLS") };
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            let (name, alpn, client) = (text(&tls.server_name), text(&tls.alpn), text(&tls.client_name));
            let (version, resumed) = (tls.version.as_str(), tls.resumed);
            reply.status(Status::OK).content(format!(
                "name={name} alpn={alpn} client={client} version={version} resumed={resumed}"
            ))
        }
        _ => reply.status(Status::OK).content("ok\n"),
    }
}

pub(crate) fn http(acceptor: &Acceptor) -> Tls<Http1> {
    Http1::new(doorbell::service_fn(answer)).limits(HttpLimits::default()).tls(acceptor.clone())
}

pub(crate) fn config() -> TlsConfig {
    TlsConfig::new(localhost().pair())
}

pub(crate) fn acceptor() -> Acceptor {
    Acceptor::new(&config()).unwrap()
}

pub(crate) const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// Returns the configuration of a client that trusts the test CA, with one version and an optional
/// certificate.
pub(crate) fn client_config(
    version: &'static SupportedProtocolVersion,
    own: Option<&Signed>,
) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let builder = builder.with_root_certificates(ca().roots());
    let mut config = match own.map(Signed::der) {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::in_memory_sessions(8);
    config
}

pub(crate) fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    client_for(config, "localhost")
}

pub(crate) fn client_for(config: &Arc<ClientConfig>, name: &str) -> ClientConnection {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    ClientConnection::new(Arc::clone(config), name).unwrap()
}

/// A protocol, and the state that a worker has for its connection.
pub(crate) struct Stand<P: Protocol> {
    pub(crate) tls: Tls<P>,
    pub(crate) conn: <Tls<P> as Protocol>::Conn,
    pub(crate) input: Vec<u8>,
    pub(crate) now: Time,
    pub(crate) draining: bool,
    /// Bytes that were sent and not yet read by the test.
    pub(crate) sent: Vec<u8>,
    /// The length of each send.
    pub(crate) sends: Vec<usize>,
    /// The last step of the connection.
    pub(crate) end: Option<Next>,
    date: Date,
    local: Local,
}

impl<P: Protocol> Stand<P> {
    pub(crate) fn new(tls: Tls<P>) -> Self {
        let now = Time::ZERO.after(Duration::from_secs(1000));
        let (mut conn, local) = (tls.open(now), Local::of(vec![tls.memory(1, &(Arc::new(|| ()) as Notify))]));
        tls.identify(&mut conn, ConnId { slot: SlotIndex(0), generation: Generation::new(0) });
        Self {
            conn,
            tls,
            input: Vec::new(),
            now,
            draining: false,
            sent: Vec::new(),
            sends: Vec::new(),
            end: None,
            date: Date::new(UNIX_SECS),
            local,
        }
    }

    /// Makes one call and acts as a worker would: sends, calls again after a flush, ends.
    pub(crate) fn call(
        &mut self,
        call: impl FnOnce(&Tls<P>, &mut <Tls<P> as Protocol>::Conn, Io<'_>) -> Next,
    ) -> Next {
        let mut next = self.call_once(call);
        let mut flushes = 0;
        while next == Next::Flush {
            flushes += 1;
            assert!(flushes < 1000, "the output never ends");
            next = self.call_once(|tls, conn, io| tls.handle_input(conn, &[], io));
        }
        if next != Next::Read {
            self.end = Some(next);
        }
        next
    }

    fn call_once(
        &mut self,
        call: impl FnOnce(&Tls<P>, &mut <Tls<P> as Protocol>::Conn, Io<'_>) -> Next,
    ) -> Next {
        assert_eq!(self.end, None, "no call after the end");
        let mut out = Out::new();
        let client = Client::at([192, 0, 2, 1].into()).with_listener(0);
        let io = Io {
            now: self.now,
            date: &self.date,
            input: &mut self.input,
            out: &mut out,
            draining: self.draining,
            local: &mut self.local,
            client: &client,
        };
        let next = call(&self.tls, &mut self.conn, io);
        assert!(out.body.is_empty(), "a body is never sent as plaintext");
        if !out.head.is_empty() {
            self.sends.push(out.head.len());
            self.sent.extend_from_slice(&out.head);
        }
        next
    }

    /// Passes bytes to the protocol in chunks of this length.
    pub(crate) fn feed(&mut self, bytes: &[u8], piece_len: usize) {
        for piece in bytes.chunks(piece_len.max(1)) {
            if self.end.is_some() {
                return;
            }
            let _next = self.call(|tls, conn, io| tls.handle_input(conn, piece, io));
        }
    }

    /// Sets the wall clock.
    pub(crate) fn set_date(&mut self, unix_secs: i64) {
        self.date = Date::new(unix_secs);
    }

    pub(crate) fn eof(&mut self) -> Next {
        self.call(|tls, conn, io| tls.handle_eof(conn, io))
    }

    pub(crate) fn timeout_after(&mut self, wait: Duration) -> Next {
        self.now = self.now.after(wait);
        self.call(|tls, conn, io| tls.handle_timeout(conn, io))
    }

    pub(crate) fn reason(&self) -> CloseReason {
        self.tls.close_reason(&self.conn)
    }

    /// Frees memory that a worker would not have for this connection.
    pub(crate) fn forget_history(&mut self) {
        self.sends = Vec::new();
        if self.input.is_empty() {
            self.input = Vec::new();
        }
    }

    pub(crate) fn take_sent(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.sent)
    }
}

/// A client and a [`Stand`]. The client's bytes are transferred in chunks of `piece_len`.
pub(crate) struct Pair<P: Protocol> {
    pub(crate) client: ClientConnection,
    pub(crate) stand: Stand<P>,
    pub(crate) piece_len: usize,
    /// The plaintext that the client received.
    pub(crate) plaintext: Vec<u8>,
    /// True if the client received a close_notify.
    pub(crate) closed: bool,
    /// The error of the client.
    pub(crate) error: Option<rustls::Error>,
}

impl<P: Protocol> Pair<P> {
    pub(crate) fn new(client: ClientConnection, tls: Tls<P>) -> Self {
        let stand = Stand::new(tls);
        Self { client, stand, piece_len: usize::MAX, plaintext: Vec::new(), closed: false, error: None }
    }

    /// Returns the bytes that the client sends next.
    pub(crate) fn wire_of_client(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut wire).unwrap();
        }
        wire
    }

    /// Passes bytes to the client.
    pub(crate) fn receive(&mut self, mut wire: &[u8]) {
        while !wire.is_empty() && self.error.is_none() {
            if self.client.read_tls(&mut wire).unwrap() == 0 {
                return;
            }
            match self.client.process_new_packets() {
                Ok(state) => {
                    let mut plain = vec![0; state.plaintext_bytes_to_read()];
                    self.client.reader().read_exact(&mut plain).unwrap();
                    self.plaintext.extend_from_slice(&plain);
                    self.closed |= state.peer_has_closed();
                }
                Err(error) => self.error = Some(error),
            }
        }
    }

    /// Exchanges data until neither side has any.
    pub(crate) fn talk(&mut self) {
        for _ in 0..50 {
            let wire = self.wire_of_client();
            if wire.is_empty() && self.stand.sent.is_empty() {
                return;
            }
            if self.stand.end.is_none() {
                self.stand.feed(&wire, self.piece_len);
            }
            let sent = self.stand.take_sent();
            self.receive(&sent);
        }
        panic!("the exchange does not end");
    }

    /// Sends plaintext from the client and exchanges data.
    pub(crate) fn send(&mut self, plain: &[u8]) {
        self.client.writer().write_all(plain).unwrap();
        self.talk();
    }

    /// Sends one request and returns its reply as text.
    pub(crate) fn ask(&mut self, path: &str) -> String {
        self.plaintext.clear();
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        String::from_utf8(self.plaintext.clone()).unwrap()
    }
}

/// Splits a handshake message into records of `fragment_len` bytes.
pub(crate) fn in_fragments(message: &[u8], fragment_len: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    for fragment in message.chunks(fragment_len) {
        wire.extend_from_slice(&[22, 3, 1, 0, u8::try_from(fragment.len()).unwrap()]);
        wire.extend_from_slice(fragment);
    }
    wire
}
