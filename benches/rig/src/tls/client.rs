//! The client: one thread that never sleeps, so that no server pays for waking it. It uses several
//! connections, and compares every reply and handshake with the expected one.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustls::client::Resumption;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, ClientConnection, HandshakeKind};

use super::identity::{Identity, Known, NAME};
use super::reply::{END, Expected};
use super::{Group, Kind, Offer, TlsLoad};
use crate::plan::PATH;
use crate::session::now_s;

/// A server that is silent for this time has failed.
const SILENCE_MAX_S: f64 = 10.0;
/// Rounds over all lanes between two clock readings.
const ROUNDS_PER_LOOK: u32 = 1000;
/// Maximum plaintext bytes per read.
const CHUNK_LEN: usize = 16 * 1024;

/// A lane for each concurrent connection, and the core on which the client runs.
#[derive(Debug)]
pub(super) struct Client {
    core: u32,
    lanes: Vec<Lane>,
}

/// A series of new connections, or one kept connection.
#[derive(Debug)]
struct Lane {
    addr: SocketAddr,
    load: TlsLoad,
    config: Arc<ClientConfig>,
    request: Vec<u8>,
    conn: Option<Conn>,
    /// Plaintext of the current exchange.
    received: Vec<u8>,
    expected: Option<Expected>,
    suite: Option<CipherSuite>,
    /// Whether a session can be resumed, which is possible from the second connection on.
    has_session: bool,
    /// Number of remaining exchanges.
    left: u64,
}

#[derive(Debug)]
struct Conn {
    session: ClientConnection,
    socket: TcpStream,
    /// Whether the handshake is complete and of the expected kind.
    is_checked: bool,
    /// Whether the request of the exchange is written.
    has_asked: bool,
    /// Whether the server has sent close_notify.
    is_over: bool,
}

impl Client {
    /// Creates a client of the server at `port`. Opens one connection on which the server must
    /// prove that it has the key.
    pub(super) fn new(
        port: u16,
        load: TlsLoad,
        identity: &Identity,
        core: u32,
        in_flight: u32,
    ) -> Result<Self, String> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let once = TlsLoad { kind: Kind::Full, ..load };
        let first = Lane::new(addr, once, config(once, identity, true)?);
        Self { core, lanes: vec![first] }.ask(1)?;
        let lane = |_| Ok(Lane::new(addr, load, config(load, identity, false)?));
        Ok(Self { core, lanes: (0..in_flight).map(lane).collect::<Result<_, String>>()? })
    }

    /// Performs at least this many exchanges, shared evenly among the lanes, and returns their
    /// exact number.
    pub(super) fn ask(&mut self, exchanges: u64) -> Result<u64, String> {
        let lanes = self.lanes.len() as u64;
        let each = exchanges.div_ceil(lanes).max(1);
        for lane in &mut self.lanes {
            lane.left = each;
        }
        let core = self.core;
        let lanes_mut = &mut self.lanes;
        thread::scope(|scope| scope.spawn(move || pin(core).and_then(|()| drive(lanes_mut))).join())
            .unwrap_or_else(|_| Err("the client panicked".to_owned()))?;
        Ok(each * lanes)
    }

    /// The cipher suite of the client's connections.
    pub(super) fn suite(&self) -> String {
        let suite = self.lanes.first().and_then(|lane| lane.suite);
        suite.and_then(|suite| suite.as_str()).unwrap_or("unknown").to_owned()
    }
}

/// Alternates between the lanes until all exchanges are done.
fn drive(lanes: &mut [Lane]) -> Result<(), String> {
    let mut moved_s = now_s();
    let mut has_moved = false;
    for round in 1.. {
        let mut is_done = true;
        for lane in lanes.iter_mut().filter(|lane| lane.left > 0) {
            has_moved |= lane.advance()?;
            is_done &= lane.left == 0;
        }
        if is_done {
            break;
        }
        if round % ROUNDS_PER_LOOK == 0 {
            let now_s = now_s();
            if std::mem::take(&mut has_moved) {
                moved_s = now_s;
            } else if now_s - moved_s > SILENCE_MAX_S {
                return Err("the server is silent".to_owned());
            }
        }
    }
    Ok(())
}

impl Lane {
    fn new(addr: SocketAddr, load: TlsLoad, config: Arc<ClientConfig>) -> Self {
        let end = if load.kind.keeps() { "" } else { "Connection: close\r\n" };
        let request = format!("GET {PATH} HTTP/1.1\r\nHost: {NAME}\r\n{end}\r\n");
        let request = request.repeat(load.kind.requests() as usize).into_bytes();
        Self {
            addr,
            load,
            config,
            request,
            conn: None,
            received: Vec::new(),
            expected: None,
            suite: None,
            has_session: false,
            left: 0,
        }
    }

    /// Progresses without blocking; returns whether there was progress.
    fn advance(&mut self) -> Result<bool, String> {
        let Some(mut conn) = self.conn.take() else {
            let mut conn = self.open()?;
            conn.send()?;
            self.conn = Some(conn);
            return Ok(true);
        };
        let has_moved = conn.receive(&mut self.received)?;
        // The last message of a handshake is sent separately from the request, as most clients do.
        conn.send()?;
        if !conn.session.is_handshaking() && !conn.is_checked {
            self.check(&conn.session)?;
            conn.is_checked = true;
        }
        if conn.is_checked && !conn.has_asked {
            conn.session.writer().write_all(&self.request).map_err(|error| error.to_string())?;
            conn.has_asked = true;
            conn.send()?;
        }
        if has_moved && self.is_answered(conn.is_over)? {
            self.left -= 1;
            if !self.load.kind.keeps() {
                conn.session.send_close_notify();
                // The server may have closed its socket already.
                let _ = conn.send();
                return Ok(true);
            }
            conn.has_asked = false;
        }
        if conn.is_over {
            return Err("the server closed a connection".to_owned());
        }
        self.conn = Some(conn);
        Ok(has_moved)
    }

    /// Whether the exchange is complete. If it is, verifies and removes the received bytes.
    fn is_answered(&mut self, is_over: bool) -> Result<bool, String> {
        let requests = self.load.kind.requests() as usize;
        if self.expected.is_none() {
            let end = self.received.windows(END.len()).position(|window| window == END);
            let Some(end) = end else { return Ok(false) };
            self.expected = Some(Expected::learn(self.received[..end + END.len()].to_vec())?);
        }
        let Some(expected) = &self.expected else { return Ok(false) };
        let is_long = self.received.len() >= expected.len() * requests;
        if !is_long || !(self.load.kind.keeps() || is_over) {
            return Ok(false);
        }
        expected.check(&self.received)?;
        self.received.clear();
        Ok(true)
    }

    fn open(&self) -> Result<Conn, String> {
        let socket = TcpStream::connect(self.addr).map_err(|error| error.to_string())?;
        socket
            .set_nodelay(true)
            .and_then(|()| socket.set_nonblocking(true))
            .map_err(|error| error.to_string())?;
        let name = ServerName::try_from(NAME).expect("the name is a valid DNS name");
        let session =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(|error| error.to_string())?;
        Ok(Conn { session, socket, is_checked: false, has_asked: false, is_over: false })
    }

    /// Checks that a handshake is of the measured kind.
    fn check(&mut self, session: &ClientConnection) -> Result<(), String> {
        let kind = session.handshake_kind();
        let expected = if self.has_session { HandshakeKind::Resumed } else { HandshakeKind::Full };
        if kind != Some(expected) {
            return Err(format!("a handshake is {kind:?} instead of {expected:?}"));
        }
        self.has_session = self.load.kind == Kind::Resumed;
        let suite = session.negotiated_cipher_suite().map(|suite| suite.suite());
        if self.suite.is_some() && self.suite != suite {
            return Err(format!("the cipher suite changed to {suite:?}"));
        }
        self.suite = suite;
        let group = session.negotiated_key_exchange_group().map(|group| group.name());
        if group != Some(key_exchange(self.load.group).name()) {
            return Err(format!("the key exchange is {group:?}"));
        }
        Ok(())
    }
}

impl Conn {
    /// Sends pending output. The messages of a client are far smaller than the socket buffer.
    fn send(&mut self) -> Result<(), String> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket).map_err(|error| format!("sending: {error}"))?;
        }
        Ok(())
    }

    /// Appends received plaintext, and returns whether any bytes have arrived, plaintext or not.
    fn receive(&mut self, plain: &mut Vec<u8>) -> Result<bool, String> {
        match self.session.read_tls(&mut self.socket) {
            Ok(0) if !self.is_over => return Err("the server closed without close_notify".to_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(format!("receiving: {error}")),
        }
        let state = self.session.process_new_packets().map_err(|error| error.to_string())?;
        self.is_over |= state.peer_has_closed();
        let start = plain.len();
        let waiting = state.plaintext_bytes_to_read();
        if waiting > CHUNK_LEN {
            return Err(format!("{waiting} bytes at once exceed every expected reply"));
        }
        plain.resize(start + waiting, 0);
        self.session.reader().read_exact(&mut plain[start..]).map_err(|error| format!("reply: {error}"))?;
        Ok(true)
    }
}

fn key_exchange(group: Group) -> &'static dyn SupportedKxGroup {
    match group {
        Group::X25519 => kx_group::X25519,
        Group::X25519MlKem768 => kx_group::X25519MLKEM768,
    }
}

fn config(load: TlsLoad, identity: &Identity, verifies_signature: bool) -> Result<Arc<ClientConfig>, String> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![key_exchange(load.group)];
    if load.offer == Offer::Aes128 {
        provider.cipher_suites.retain(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Known::new(identity, verifies_signature)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = match load.kind {
        Kind::Resumed => Resumption::in_memory_sessions(1),
        Kind::Full | Kind::Keep | Kind::Keep16 => Resumption::disabled(),
    };
    Ok(Arc::new(config))
}

fn pin(core: u32) -> Result<(), String> {
    let mut cores = CpuSet::new();
    cores.set(core as usize);
    sched_setaffinity(None, &cores).map_err(|error| format!("core {core}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::thread::sched_getaffinity;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    const REPLY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";

    /// A server for one connection at a time. It replies to request number `at` with `reply(at)`.
    /// It closes when requested, or after each reply if `closes` is set. It stops with the test.
    fn serve(presents: &Identity, resumes: bool, closes: bool, reply: fn(u32) -> String) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let certificate = CertificateDer::from_pem_slice(presents.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(presents.key.as_bytes()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if !resumes {
            config.send_tls13_tickets = 0;
        }
        let config = Arc::new(config);
        thread::spawn(move || {
            let mut at = 0;
            for socket in listener.incoming().map_while(Result::ok) {
                let session = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut conn = StreamOwned::new(session, socket);
                let mut byte = [0];
                let mut request = Vec::new();
                while conn.read_exact(&mut byte).is_ok() {
                    request.push(byte[0]);
                    if request.ends_with(b"\r\n\r\n") {
                        let is_last = closes || request.windows(5).any(|window| window == b"close");
                        request.clear();
                        let _ = conn.write_all(reply(at).as_bytes());
                        at += 1;
                        if is_last {
                            conn.conn.send_close_notify();
                            let _ = conn.flush();
                            break;
                        }
                    }
                }
            }
        });
        port
    }

    fn client(port: u16, kind: Kind, identity: &Identity) -> Result<Client, String> {
        let cores = sched_getaffinity(None).unwrap();
        let core = (0..CpuSet::MAX_CPU).find(|&core| cores.is_set(core)).unwrap();
        let load = TlsLoad { kind, offer: Offer::Aes128, group: Group::X25519 };
        Client::new(port, load, identity, u32::try_from(core).unwrap(), if kind.keeps() { 1 } else { 2 })
    }

    fn good(_at: u32) -> String {
        REPLY.to_owned()
    }

    #[test]
    fn handshakes_are_counted_and_named() {
        let identity = Identity::generate().unwrap();
        for kind in [Kind::Full, Kind::Resumed] {
            let mut client = client(serve(&identity, true, false, good), kind, &identity).unwrap();
            assert_eq!(client.ask(7), Ok(8), "{kind:?}");
            assert_eq!(client.ask(6), Ok(6), "{kind:?}");
            assert_eq!(client.suite(), "TLS13_AES_128_GCM_SHA256");
        }
    }

    #[test]
    fn a_session_that_is_not_resumed_is_an_error() {
        let identity = Identity::generate().unwrap();
        let port = serve(&identity, false, false, good);
        let why = client(port, Kind::Resumed, &identity).unwrap().ask(4).unwrap_err();
        assert!(why.contains("instead of Resumed"), "{why}");
        assert_eq!(client(port, Kind::Full, &identity).unwrap().ask(4), Ok(4));
    }

    #[test]
    fn kept_connections_are_kept() {
        let identity = Identity::generate().unwrap();
        for kind in [Kind::Keep, Kind::Keep16] {
            let mut kept = client(serve(&identity, true, false, good), kind, &identity).unwrap();
            assert_eq!((kept.ask(3), kept.ask(5)), (Ok(3), Ok(5)), "{kind:?}");
            let why =
                client(serve(&identity, true, true, good), kind, &identity).unwrap().ask(4).unwrap_err();
            assert!(why.contains("closed a connection") || why.contains("ing: "), "{kind:?}: {why}");
        }
    }

    #[test]
    fn a_wrong_byte_and_a_wrong_certificate_are_errors() {
        let identity = Identity::generate().unwrap();
        let port =
            serve(&identity, true, false, |at| good(at).replace("ok", if at < 5 { "ok" } else { "oK" }));
        let why = client(port, Kind::Full, &identity).unwrap().ask(8).unwrap_err();
        assert!(why.contains("a reply differs from the first one"), "{why}");
        let other = Identity::generate().unwrap();
        let why = client(port, Kind::Full, &other).unwrap_err();
        assert!(why.contains("UnknownIssuer"), "{why}");
    }
}
