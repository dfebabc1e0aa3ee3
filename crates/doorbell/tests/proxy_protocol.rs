//! A listener whose connections begin with a PROXY protocol header, on real sockets and every
//! driver.
//!
//! Does not know about: details of the header (see the tests of `doorbell-http`).
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real sockets and may panic"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell::http::forwarded::Networks;
use doorbell::time::Time;
use doorbell::{
    CloseReason, Descriptors, Engine, Handler, Http1, Listen, Peer, ProxyProtocol, Raw, RawHandler, RawNext,
    Replied, Request, Responder, Server, StartErrorKind, Status, Workers,
};
use doorbell_testkit::skip;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const V1: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 80\r\n";
const V1_UNKNOWN: &[u8] = b"PROXY UNKNOWN\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x08\xc0\0\x02\x01\xc7\x38\0\x50";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// A service that replies with the client's address and port, and the number of the listener.
struct WhoAmI;

impl Handler for WhoAmI {
    fn wants_client(&self) -> bool {
        true
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let client = request.client();
        let addr = client.addr().map_or_else(|| "unknown".to_owned(), |addr| addr.to_string());
        let number = |number: Option<u16>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        reply
            .status(Status::OK)
            .header("X-Port", number(client.port()))
            .header("X-Listener", number(client.listener()))
            .content(addr)
    }
}

/// A raw handler that sends a greeting.
struct Greeter;

impl RawHandler for Greeter {
    fn speaks_first(&self) -> bool {
        true
    }

    fn greet(&self, _now: Time, reply: &mut Vec<u8>) -> RawNext {
        reply.extend_from_slice(b"hello ");
        RawNext::Continue
    }

    fn handle(&self, _now: Time, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        reply.extend_from_slice(received);
        RawNext::Close
    }
}

fn trusted(text: &str) -> Networks {
    Networks::parse([text]).unwrap()
}

fn start(engine: Engine, proxy: ProxyProtocol) -> Option<Server> {
    let listen = || Listen::tcp(LOOPBACK).proxy_protocol(proxy.clone());
    if engine == Engine::IoUring && !skip::io_uring() {
        return None;
    }
    let server = Server::builder()
        .engine(engine)
        .workers(Workers::Count(NonZeroU16::MIN))
        .conns_max(64)
        .listen(listen(), Http1::new(WhoAmI))
        .listen(listen(), Raw::new(Greeter))
        .start();
    Some(server.unwrap())
}

const ENGINES: [Engine; 2] = [Engine::Epoll, Engine::IoUring];

/// Sends these chunks separately and returns the reply, which is empty if the connection closes
/// without a reply.
fn talk(addr: SocketAddr, pieces: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for (position, piece) in pieces.iter().enumerate() {
        if position > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        // The server may have refused the header and closed the connection.
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let mut reply = Vec::new();
    match stream.read_to_end(&mut reply) {
        Ok(_) => {}
        Err(error) => assert_ne!(error.kind(), ErrorKind::WouldBlock, "neither a reply nor a close"),
    }
    String::from_utf8(reply).unwrap()
}

fn body_of(reply: &str) -> &str {
    reply.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// The value of this field.
fn field<'r>(reply: &'r str, name: &str) -> &'r str {
    reply.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("")
}

#[test]
fn a_request_knows_its_port_and_listener() {
    for engine in ENGINES {
        if engine == Engine::IoUring && !skip::io_uring() {
            continue;
        }
        let plain = || Listen::tcp(LOOPBACK);
        let trusting = plain().proxy_protocol(ProxyProtocol::accept(trusted("127.0.0.0/8")));
        let server = Server::builder()
            .engine(engine)
            .workers(Workers::Count(NonZeroU16::MIN))
            .conns_max(2)
            .listen(
                plain(),
                Http1::new(doorbell::service_fn(|request, reply| {
                    reply.status(Status::OK).content(format!("{:?}", request.client()))
                })),
            )
            .listen(plain(), Http1::new(WhoAmI))
            .listen(trusting, Http1::new(WhoAmI))
            .start()
            .unwrap();
        // The slots of the table are used again by clients of other listeners.
        for _ in 0..3 {
            for (listener, header) in [(1, &b""[..]), (2, b""), (2, V1)] {
                let mut stream = TcpStream::connect(server.tcp_addr(listener).unwrap()).unwrap();
                stream.write_all(&[header, GET].concat()).unwrap();
                let mut reply = String::new();
                stream.read_to_string(&mut reply).unwrap();
                let own = stream.local_addr().unwrap().port();
                let port = if header.is_empty() { own } else { 51_000 };
                assert_eq!(field(&reply, "X-Port"), port.to_string(), "{engine:?}: {reply}");
                assert_eq!(field(&reply, "X-Listener"), listener.to_string(), "{engine:?}: {reply}");
            }
            let unknown = talk(server.tcp_addr(0).unwrap(), &[GET]);
            assert_eq!(body_of(&unknown), format!("{:?}", doorbell::http::Client::UNKNOWN), "{engine:?}");
        }
        server.stop().unwrap();
    }
}

#[test]
fn the_header_sets_the_client_address() {
    for engine in ENGINES {
        let Some(server) = start(engine, ProxyProtocol::accept(trusted("127.0.0.0/8"))) else { continue };
        let addr = server.tcp_addr(0).unwrap();
        let cases = [
            (V1, "203.0.113.7"),
            (V2, "203.0.113.8"),
            (V1_UNKNOWN, "127.0.0.1"),
            (V2_LOCAL, "127.0.0.1"),
            (b"", "127.0.0.1"),
        ];
        for (header, expected) in cases {
            let reply = talk(addr, &[&[header, GET].concat()]);
            assert_eq!(body_of(&reply), expected, "{engine:?} {}: {reply}", header.escape_ascii());
        }
        let stats = server.stats();
        assert_eq!((stats.proxy_v1, stats.proxy_v2, stats.proxy_local), (2, 1, 1), "{engine:?}");
        server.stop().unwrap();
    }
}

#[test]
fn a_header_may_be_split_at_any_byte() {
    for engine in ENGINES {
        let Some(server) = start(engine, ProxyProtocol::require(trusted("127.0.0.1"))) else { continue };
        let addr = server.tcp_addr(0).unwrap();
        for (header, expected) in [(V1, "203.0.113.7"), (V2, "203.0.113.8")] {
            let whole = [header, GET].concat();
            for at in 1..=header.len() + 1 {
                let (first, rest) = whole.split_at(at);
                let reply = talk(addr, &[first, rest]);
                assert_eq!(body_of(&reply), expected, "{engine:?} split at {at}: {reply}");
            }
            let each: Vec<&[u8]> = header.chunks(7).chain([GET]).collect();
            assert_eq!(body_of(&talk(addr, &each)), expected, "{engine:?} in small chunks");
        }
        server.stop().unwrap();
    }
}

#[test]
fn a_missing_required_header_closes_the_connection() {
    for engine in ENGINES {
        let Some(server) = start(engine, ProxyProtocol::require(trusted("127.0.0.1"))) else { continue };
        let addr = server.tcp_addr(0).unwrap();
        assert_eq!(talk(addr, &[GET]), "", "{engine:?}: no header");
        assert_eq!(talk(addr, &[b"PROXY TCP4 nonsense\r\n", GET]), "", "{engine:?}: an invalid header");
        assert_eq!(server.stats().proxy_refused, 2, "{engine:?}");
        server.stop().unwrap();
    }
}

#[test]
fn a_peer_that_is_not_trusted_cannot_name_a_client() {
    for engine in ENGINES {
        let Some(server) = start(engine, ProxyProtocol::accept(trusted("10.0.0.0/8"))) else { continue };
        let addr = server.tcp_addr(0).unwrap();
        assert_eq!(
            body_of(&talk(addr, &[GET])),
            "127.0.0.1",
            "{engine:?}: without a header the peer is served"
        );
        let reply = talk(addr, &[&[V1, GET].concat()]);
        assert!(
            reply.starts_with("HTTP/1.1 400 "),
            "{engine:?}: the header is parsed as an invalid request: {reply}"
        );
        server.stop().unwrap();
        let Some(server) = start(engine, ProxyProtocol::require(trusted("10.0.0.0/8"))) else { continue };
        assert_eq!(talk(server.tcp_addr(0).unwrap(), &[&[V1, GET].concat()]), "", "{engine:?}: refused");
        server.stop().unwrap();
    }
}

#[test]
fn a_server_that_speaks_first_speaks_after_the_header() {
    for engine in ENGINES {
        let Some(server) = start(engine, ProxyProtocol::accept(trusted("127.0.0.1"))) else { continue };
        let addr = server.tcp_addr(1).unwrap();
        assert_eq!(talk(addr, &[&[V1, b"you".as_slice()].concat()]), "hello you", "{engine:?} at once");
        assert_eq!(talk(addr, &[V2, b"you"]), "hello you", "{engine:?} later");
        server.stop().unwrap();
    }
}

/// A raw handler that replies to a client that sends nothing.
struct Patient;

impl RawHandler for Patient {
    fn handle(&self, _now: Time, _received: &[u8], _reply: &mut Vec<u8>) -> RawNext {
        RawNext::NeedMore
    }

    fn answer_silent(&self, _now: Time, reply: &mut Vec<u8>) -> bool {
        reply.extend_from_slice(b"silent");
        true
    }
}

#[test]
fn a_timeout_is_no_permission_to_reply_without_a_header() {
    let required = |by| ProxyProtocol::require(trusted(by));
    let accepted = |by| ProxyProtocol::accept(trusted(by));
    let (here, elsewhere) = ("127.0.0.1", "10.0.0.0/8");
    for engine in ENGINES {
        for (proxy, sent, expected, refused) in [
            (required(here), &b""[..], "", 2),
            (required(here), b"PROXY TCP4 ", "", 2),
            (required(elsewhere), b"", "", 2),
            (accepted(here), b"PROXY TCP4 ", "", 2),
            // The header is optional: the client is direct.
            (accepted(here), b"", "silent", 0),
            (accepted(elsewhere), b"", "silent", 0),
        ] {
            if engine == Engine::IoUring && !skip::io_uring() {
                continue;
            }
            let wait = Duration::from_millis(50);
            let listen = || Listen::tcp(LOOPBACK).defer_accept(None).proxy_protocol(proxy.clone());
            let server = Server::builder()
                .engine(engine)
                .workers(Workers::Count(NonZeroU16::MIN))
                .listen(listen(), Raw::new(Patient).timeout(wait))
                .listen(listen(), Raw::new(Greeter).timeout(wait))
                .start()
                .unwrap();
            assert_eq!(talk(server.tcp_addr(0).unwrap(), &[sent]), expected, "{engine:?} {proxy:?}");
            let greeting = if expected.is_empty() { "" } else { "hello " };
            assert_eq!(talk(server.tcp_addr(1).unwrap(), &[sent]), greeting, "{engine:?} {proxy:?}");
            assert_eq!(server.stats().proxy_refused, refused, "{engine:?} {proxy:?}");
            server.stop().unwrap();
        }
    }
}

#[test]
fn the_cap_on_one_address_counts_clients_and_not_their_proxy() {
    for engine in ENGINES {
        let listen = Listen::tcp(LOOPBACK).proxy_protocol(ProxyProtocol::accept(trusted("127.0.0.1")));
        let builder = Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::MIN)).conns_max(64);
        let Ok(server) = builder.conns_per_ip_max(2).listen(listen, Http1::new(WhoAmI)).start() else {
            continue;
        };
        let addr = server.tcp_addr(0).unwrap();
        let open = |client: u8| {
            let mut stream = TcpStream::connect(addr).unwrap();
            let header = format!("PROXY TCP4 203.0.113.{client} 192.0.2.1 51000 80\r\n");
            stream.write_all(&[header.as_bytes(), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat()).unwrap();
            let mut reply = [0; 12];
            stream.read_exact(&mut reply).unwrap();
            (stream, String::from_utf8(reply.to_vec()).unwrap())
        };
        let held: Vec<_> = [1, 1, 2, 2, 3].map(open).into();
        assert!(held.iter().all(|(_, status)| status == "HTTP/1.1 200"), "{engine:?}: {held:?}");
        assert_eq!(open(1).1, "HTTP/1.1 503", "{engine:?}: the third connection of a client");
        drop(held);
        let mut tries = 0;
        while open(1).1 != "HTTP/1.1 200" {
            tries += 1;
            assert!(tries < 200, "{engine:?}: the counts of closed connections are released");
            std::thread::sleep(Duration::from_millis(10));
        }
        server.stop().unwrap();
    }
}

#[test]
fn a_header_that_never_ends_is_counted_as_such() {
    for engine in ENGINES {
        let Some(server) = start(engine, ProxyProtocol::accept(trusted("127.0.0.1"))) else { continue };
        let mut stream = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
        stream.write_all(&V1[..20]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        assert_eq!(reply, b"", "{engine:?}");
        let mut tries = 0;
        while server.stats().closed_because(CloseReason::ProxyHeader) != 1 {
            tries += 1;
            assert!(tries < 200, "{engine:?}: {:?}", server.stats());
            std::thread::sleep(Duration::from_millis(10));
        }
        server.stop().unwrap();
    }
}

#[test]
fn a_drain_waits_for_a_header_and_for_the_request_behind_it() {
    for engine in ENGINES {
        let Some(server) = start(engine, ProxyProtocol::accept(trusted("127.0.0.0/8"))) else { continue };
        let begin = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        let (mut whole, mut half) = (begin(V1), begin(&V2[..9]));
        let mut tries = 0;
        while server.stats().bytes_in < (V1.len() + 9) as u64 {
            tries += 1;
            assert!(tries < 500, "{:?}", server.stats());
            std::thread::sleep(Duration::from_millis(10));
        }
        server.handle().drain();
        std::thread::sleep(Duration::from_millis(50));
        whole.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        half.write_all(&[&V2[9..], GET].concat()).unwrap();
        for (mut stream, name) in [(whole, "203.0.113.7"), (half, "203.0.113.8")] {
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap();
            assert!(reply.contains("\r\nConnection: close\r\n"), "{engine:?} {name}: {reply}");
            assert_eq!(body_of(&reply), name, "{engine:?}");
        }
        server.wait().unwrap();
    }
}

/// Starts an HTTP server with one worker and a cap of two connections per address.
fn start_capped(engine: Engine, proxy: ProxyProtocol) -> Option<Server> {
    let listen = Listen::tcp(LOOPBACK).defer_accept(None).proxy_protocol(proxy);
    let builder = Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::MIN)).conns_max(64);
    builder.conns_per_ip_max(2).listen(listen, Http1::new(WhoAmI)).start().ok()
}

/// Connects two silent peers, and a third peer after the others were accepted.
fn third_of_an_address(server: &Server) -> (Vec<TcpStream>, TcpStream) {
    let addr = server.tcp_addr(0).unwrap();
    let held: Vec<_> = (0..2).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut tries = 0;
    while server.stats().conns_accepted < 2 {
        tries += 1;
        assert!(tries < 500, "{:?}", server.stats());
        std::thread::sleep(Duration::from_millis(10));
    }
    let third = TcpStream::connect(addr).unwrap();
    third.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    (held, third)
}

fn wait_for_capped(server: &Server) {
    let mut tries = 0;
    while server.stats().closed_because(CloseReason::PerIpCap) != 1 {
        tries += 1;
        assert!(tries < 500, "{:?}", server.stats());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_peer_that_is_not_trusted_is_counted_by_its_own_address() {
    for engine in ENGINES {
        let nobody = || trusted("10.0.0.0/8");
        let Some(server) = start_capped(engine, ProxyProtocol::accept(nobody())) else { continue };
        let (held, mut third) = third_of_an_address(&server);
        let mut reply = Vec::new();
        let _reset = third.read_to_end(&mut reply);
        wait_for_capped(&server);
        drop(held);
        server.stop().unwrap();

        let Some(server) = start_capped(engine, ProxyProtocol::require(nobody())) else { continue };
        let (held, mut third) = third_of_an_address(&server);
        let _closed = third.write_all(GET);
        let mut reply = Vec::new();
        let _reset = third.read_to_end(&mut reply);
        assert_eq!(reply, b"", "{engine:?}: an untrusted peer gets no reply");
        wait_for_capped(&server);
        assert_eq!(server.stats().proxy_refused, 0, "{engine:?}: the header was not read");
        drop(held);
        server.stop().unwrap();
    }
}

#[test]
fn a_peer_that_is_not_trusted_is_greeted_at_once() {
    for engine in ENGINES {
        let Some(server) = start(engine, ProxyProtocol::accept(trusted("10.0.0.0/8"))) else { continue };
        let mut stream = TcpStream::connect(server.tcp_addr(1).unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut greeting = [0; 6];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"hello ", "{engine:?}");
        stream.write_all(b"you").unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"you", "{engine:?}: the peer is greeted once");
        server.stop().unwrap();
        let Some(server) = start(engine, ProxyProtocol::require(trusted("10.0.0.0/8"))) else { continue };
        assert_eq!(
            talk(server.tcp_addr(1).unwrap(), &[b"you"]),
            "",
            "{engine:?}: no greeting where a header is required"
        );
        server.stop().unwrap();
    }
}

/// Blocks the worker at `/block` until the test continues, and records the peers of other requests.
#[derive(Clone)]
struct Doorkeeper {
    peers: Arc<Mutex<Vec<Peer>>>,
    blocked: SyncSender<()>,
    go_on: Arc<Mutex<Receiver<()>>>,
}

impl Handler for Doorkeeper {
    fn wants_client(&self) -> bool {
        true
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if request.path() == "/block" {
            self.blocked.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        } else {
            self.peers.lock().unwrap().push(request.client().peer);
        }
        reply.status(Status::OK).content("ok")
    }
}

/// Opens connections that send bytes and a reset while the only worker is busy, so that the kernel
/// no longer has their addresses when they are accepted. Returns the peers seen by the service.
fn reset_in_the_backlog(engine: Engine, proxy: Option<ProxyProtocol>, sent: &[u8]) -> Option<Vec<Peer>> {
    const RESETS: u64 = 40;
    let peers = Arc::new(Mutex::new(Vec::new()));
    let (blocked, is_blocked) = sync_channel(1);
    let (go_on, goes_on) = sync_channel(1);
    let service = Doorkeeper { peers: Arc::clone(&peers), blocked, go_on: Arc::new(Mutex::new(goes_on)) };
    let mut listen = Listen::tcp(LOOPBACK).defer_accept(None);
    if let Some(proxy) = proxy {
        listen = listen.proxy_protocol(proxy);
    }
    let builder = Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::MIN)).conns_max(64);
    let builder = builder.listen(listen, Http1::new(service.clone()));
    let server = builder.listen(Listen::tcp(LOOPBACK), Http1::new(service)).start().ok()?;
    let addr = server.tcp_addr(0).unwrap();
    let mut blocker = TcpStream::connect(server.tcp_addr(1).unwrap()).unwrap();
    blocker.write_all(b"GET /block HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    is_blocked.recv().unwrap();
    for _ in 0..RESETS {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(sent).unwrap();
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
    go_on.send(()).unwrap();
    let mut tries = 0;
    while server.stats().conns_accepted < RESETS + 1 || server.stats().conns_live > 0 {
        tries += 1;
        assert!(tries < 3_000, "{engine:?}: {:?}", server.stats());
        std::thread::sleep(Duration::from_millis(10));
    }
    server.stop().unwrap();
    let peers = std::mem::take(&mut *peers.lock().unwrap());
    Some(peers)
}

#[test]
fn a_peer_that_has_reset_its_connection_cannot_name_a_client() {
    for engine in ENGINES {
        let nobody = || trusted("10.0.0.0/8");
        for proxy in [ProxyProtocol::accept(nobody()), ProxyProtocol::require(nobody())] {
            let Some(peers) = reset_in_the_backlog(engine, Some(proxy.clone()), &[V1, GET].concat()) else {
                continue;
            };
            assert_eq!(peers, [], "{engine:?} {proxy:?}");
        }
    }
}

#[test]
fn a_service_that_needs_the_client_gets_no_request_of_an_unknown_one() {
    for engine in ENGINES {
        let Some(peers) = reset_in_the_backlog(engine, None, GET) else { continue };
        assert!(!peers.contains(&Peer::Unknown) && !peers.contains(&Peer::Unix), "{engine:?}: {peers:?}");
    }
}

#[test]
fn the_permissions_of_a_unix_socket_define_trust() {
    for engine in ENGINES {
        let path = std::env::temp_dir().join(format!("doorbell-proxy-{}-{engine:?}", std::process::id()));
        let at = |proxy: ProxyProtocol| {
            let listen = Listen::unix(&path).proxy_protocol(proxy);
            let builder =
                Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::MIN)).conns_max(64);
            builder.listen(listen, Http1::new(WhoAmI)).start().ok()
        };
        for proxy in [ProxyProtocol::accept, ProxyProtocol::require] {
            let Some(server) = at(proxy(trusted("10.0.0.0/8"))) else { continue };
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(&[V1, GET].concat()).unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap();
            assert_eq!(body_of(&reply), "203.0.113.7", "{engine:?}: {reply}");
            server.stop().unwrap();
        }
    }
}

#[test]
fn direct_descriptors_are_refused_where_addresses_matter() {
    let direct = || {
        let builder = Server::builder().descriptors(Descriptors::Direct).conns_max(64).conns_per_ip_max(0);
        builder.workers(Workers::Count(NonZeroU16::MIN))
    };
    let plain = || Raw::new(Greeter);
    let tcp = || Listen::tcp(LOOPBACK);
    let path = std::env::temp_dir().join(format!("doorbell-direct-{}", std::process::id()));
    let proxied = || ProxyProtocol::accept(trusted("127.0.0.1"));
    let refused = [
        direct().listen(tcp().proxy_protocol(proxied()), plain()),
        direct().listen(tcp(), Http1::new(WhoAmI)),
        direct().conns_per_ip_max(8).listen(tcp(), plain()),
        direct().conns_per_ip_max(8).listen(Listen::unix(&path), plain()).listen(tcp(), plain()),
        direct().listen(
            Listen::inherited(std::net::TcpListener::bind(LOOPBACK).unwrap().into()),
            Http1::new(WhoAmI),
        ),
    ];
    for builder in refused {
        let error = builder.start().unwrap_err();
        assert_eq!(error.kind(), StartErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("direct descriptors"), "{error}");
    }
    let served = [
        direct().listen(tcp(), plain()),
        direct().listen(Listen::unix(&path).proxy_protocol(proxied()), Http1::new(WhoAmI)),
        direct().engine(Engine::Epoll).conns_per_ip_max(8).listen(tcp(), Http1::new(WhoAmI)),
    ];
    for builder in served {
        builder.start().unwrap().stop().unwrap();
    }
}
