//! Cost of TLS for the server: a full handshake, a resumed handshake, and a request on a kept
//! connection.
//!
//! Client and server exchange bytes in memory, and only the server's calls are measured.
//!
//! `DOORBELL_TLS_ROUNDS=ROW,COUNT` only runs one row (0 to 5) COUNT times, for a profiler such as
//! `valgrind --tool=callgrind --toggle-collect='*served*' --collect-atstart=no`.
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::Criterion;
use doorbell::http::{Client, Date, Next, Out, Time};
use doorbell::protocol::{Io, Local, Protocol, Tls};
use doorbell::tls::{Acceptor, CertPair, TlsConfig};
use doorbell::{Http1, HttpLimits, StaticReply, Status, service_fn};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

const REQUEST: &[u8] =
    b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: probe/1.0\r\nAccept: */*\r\n\r\n";

/// The server, and the configuration of its clients.
struct Bench {
    tls: Tls<Http1>,
    client: Arc<ClientConfig>,
    date: Date,
    local: Local,
    out: Out,
    /// Time spent in the server's calls.
    spent: Duration,
}

/// The two ends of one connection.
struct Session {
    client: ClientConnection,
    conn: <Tls<Http1> as Protocol>::Conn,
    input: Vec<u8>,
}

impl Bench {
    fn new(version: &'static SupportedProtocolVersion, resumes: bool) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let pair =
            CertPair::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes());
        let acceptor = Acceptor::new(&TlsConfig::new(pair.expect("a pair"))).expect("an acceptor");
        let alive = StaticReply::text(Status::OK, "ok\n");
        let limits = HttpLimits { requests_per_conn_max: u32::MAX, ..HttpLimits::default() };
        let http = Http1::new(service_fn(move |_, reply| reply.send(&alive))).limits(limits);
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        let mut client = builder.expect("a version").with_root_certificates(roots).with_no_client_auth();
        client.resumption = if resumes { Resumption::in_memory_sessions(8) } else { Resumption::disabled() };
        Self {
            tls: http.tls(acceptor),
            client: Arc::new(client),
            date: Date::new(784_111_777),
            local: Local::new(),
            out: Out::with_capacity(16 * 1024),
            spent: Duration::ZERO,
        }
    }

    fn open(&self) -> Session {
        let name = ServerName::try_from("localhost").expect("a name");
        let client = ClientConnection::new(Arc::clone(&self.client), name).expect("a client");
        Session { client, conn: self.tls.open(Time::ZERO), input: Vec::new() }
    }

    /// Passes the client's output to the server, and the server's output back.
    fn turn(&mut self, session: &mut Session) -> bool {
        let mut wire = Vec::new();
        while session.client.wants_write() {
            session.client.write_tls(&mut wire).expect("a write to a vector cannot fail");
        }
        let began = Instant::now();
        if !wire.is_empty() {
            let next = self.served(session, &wire);
            assert_eq!(next, Next::Read);
        }
        self.spent += began.elapsed();
        let mut sent = self.out.head.as_slice();
        let received = !sent.is_empty();
        while !sent.is_empty() {
            session.client.read_tls(&mut sent).expect("a slice");
            session.client.process_new_packets().expect("the server speaks TLS");
        }
        self.out.clear();
        received || !wire.is_empty()
    }

    #[inline(never)]
    fn served(&mut self, session: &mut Session, wire: &[u8]) -> Next {
        let io = Io {
            now: Time::ZERO,
            date: &self.date,
            input: &mut session.input,
            out: &mut self.out,
            draining: false,
            local: &mut self.local,
            client: &Client::UNKNOWN,
        };
        self.tls.handle_input(&mut session.conn, wire, io)
    }

    fn shake_hands(&mut self) -> Session {
        let mut session = self.open();
        while self.turn(&mut session) {}
        assert!(!session.client.is_handshaking());
        session
    }

    fn ask(&mut self, session: &mut Session) {
        session.client.writer().write_all(REQUEST).expect("room");
        self.turn(session);
        let mut reply = [0; 400];
        let len = std::io::Read::read(&mut session.client.reader(), &mut reply).expect("a reply");
        assert!(reply[..len].ends_with(b"ok\n"));
    }
}

/// Each row: its name, the TLS version, whether sessions are resumed, and whether the connection is
/// kept.
fn rows() -> [(&'static str, &'static SupportedProtocolVersion, bool, bool); 6] {
    [
        ("tls/1.3 handshake, full", &TLS13, false, false),
        ("tls/1.3 handshake, resumed", &TLS13, true, false),
        ("tls/1.3 request, kept alive", &TLS13, false, true),
        ("tls/1.2 handshake, full", &TLS12, false, false),
        ("tls/1.2 handshake, resumed", &TLS12, true, false),
        ("tls/1.2 request, kept alive", &TLS12, false, true),
    ]
}

/// Runs a row `count` times and returns the time spent in the server.
fn run(row: usize, count: u64) -> Duration {
    let (_, version, resumes, keeps) = rows()[row];
    let mut bench = Bench::new(version, resumes);
    let mut kept = bench.shake_hands();
    bench.spent = Duration::ZERO;
    for _ in 0..count {
        if keeps {
            bench.ask(&mut kept);
        } else {
            let session = bench.shake_hands();
            let resumed = session.client.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            assert_eq!(resumed, resumes);
        }
    }
    bench.spent
}

fn main() {
    if let Ok(rounds) = std::env::var("DOORBELL_TLS_ROUNDS") {
        let (row, count) = rounds.split_once(',').expect("ROW,COUNT");
        run(row.parse().expect("a row"), count.parse().expect("a count"));
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    for (row, (name, ..)) in rows().into_iter().enumerate() {
        criterion.bench_function(name, |bencher| bencher.iter_custom(|count| run(row, count)));
    }
    criterion.final_summary();
}
