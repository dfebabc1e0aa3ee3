//! Tests of servers on real sockets: every kind of listener, start errors, drains, failures of
//! workers.
//!
//! Does not know about: single drivers (see `conformance`), promises with measurements (see
//! `promises`).
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real sockets and may panic"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use doorbell::driver::examine::Cause;
use doorbell::id::WorkerIndex;
use doorbell::time::Time;
use doorbell::{
    CloseReason, Engine, Event, Http1, Listen, OnWorkerFailure, Raw, RawHandler, RawNext, Server,
    ServerBuilder, StartErrorKind, StaticReply, Status, Workers, service_fn,
};
use doorbell_testkit::figures::at_most;
use doorbell_testkit::skip;

/// Maximum lag of a deadline: the resolution of the clock, and a delayed turn of the worker.
const CLOCK_STEP: Duration = Duration::from_millis(50);

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn ok_service() -> Http1 {
    let ok = StaticReply::text(Status::OK, "ok\n");
    Http1::new(service_fn(move |_, reply| reply.send(&ok)))
}

fn workers(count: u16) -> Workers {
    Workers::Count(NonZeroU16::new(count).unwrap())
}

fn builder(engine: Engine) -> ServerBuilder {
    Server::builder().engine(engine).workers(workers(1)).conns_max(256)
}

/// Returns both drivers; if io_uring is not available, prints a message and returns only epoll.
fn engines() -> Vec<Engine> {
    if skip::io_uring() { vec![Engine::Epoll, Engine::IoUring] } else { vec![Engine::Epoll] }
}

fn ask(stream: &mut (impl Read + Write), request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

const GET: &str = "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const GET_KEPT: &str = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn every_kind_of_listener_answers_in_one_server() {
    let dir = std::env::temp_dir().join(format!("doorbell-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for engine in engines() {
        let path = dir.join(format!("{engine:?}.sock"));
        let inherited = TcpListener::bind(LOOPBACK).unwrap();
        let inherited_addr = inherited.local_addr().unwrap();
        let echo = |received: &[u8], reply: &mut Vec<u8>| {
            reply.extend_from_slice(received);
            RawNext::Close
        };
        let server = builder(engine)
            .workers(workers(2))
            .listen(Listen::tcp(LOOPBACK), ok_service())
            .listen(Listen::tcp(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))), ok_service())
            .listen(Listen::unix(&path), ok_service())
            .listen(Listen::inherited(inherited.into()), ok_service())
            .listen(Listen::tcp(LOOPBACK), Raw::new(echo))
            .start()
            .unwrap();
        let dual = server.tcp_addr(1).unwrap().port();
        let http = [
            server.tcp_addr(0).unwrap(),
            (Ipv4Addr::LOCALHOST, dual).into(),
            (Ipv6Addr::LOCALHOST, dual).into(),
            inherited_addr,
        ];
        for addr in http {
            let reply = ask(&mut TcpStream::connect(addr).unwrap(), GET);
            assert!(reply.ends_with("\r\n\r\nok\n"), "{engine:?} {addr}: {reply}");
        }
        let reply = ask(&mut UnixStream::connect(&path).unwrap(), GET);
        assert!(reply.ends_with("\r\n\r\nok\n"), "{engine:?} unix: {reply}");
        let mut raw = TcpStream::connect(server.tcp_addr(4).unwrap()).unwrap();
        assert_eq!(ask(&mut raw, "PING"), "PING", "{engine:?}");
        eventually(|| server.stats().requests == 6);
        server.stop().unwrap();
        assert!(!path.exists(), "the socket file is removed with the server");
    }
    std::fs::remove_dir(&dir).unwrap();
}

#[test]
fn a_stale_socket_file_is_replaced_and_a_live_one_is_not() {
    let path = std::env::temp_dir().join(format!("doorbell-stale-{}.sock", std::process::id()));
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = builder(Engine::Epoll).listen(Listen::unix(&path), ok_service()).start().unwrap();
    let second = builder(Engine::Epoll).listen(Listen::unix(&path), ok_service()).start().unwrap_err();
    assert_eq!(second.kind(), StartErrorKind::AddressInUse, "{second}");
    assert!(ask(&mut UnixStream::connect(&path).unwrap(), GET).ends_with("ok\n"));
    server.stop().unwrap();
}

#[test]
fn a_killed_server_may_keep_the_address_a_moment_longer() {
    let path = std::env::temp_dir().join(format!("doorbell-late-{}.sock", std::process::id()));
    for count in [1, 2] {
        let tcp = TcpListener::bind(LOOPBACK).unwrap();
        let addr = tcp.local_addr().unwrap();
        let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let ends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(60));
            drop((tcp, unix));
        });
        let server = builder(Engine::Epoll)
            .workers(workers(count))
            .listen(Listen::tcp(addr), ok_service())
            .listen(Listen::unix(&path), ok_service())
            .start()
            .unwrap();
        assert!(ends.is_finished(), "the address was in use until the old server ended");
        assert!(ask(&mut TcpStream::connect(addr).unwrap(), GET).ends_with("ok\n"));
        assert!(ask(&mut UnixStream::connect(&path).unwrap(), GET).ends_with("ok\n"));
        server.stop().unwrap();
        ends.join().unwrap();
    }
}

struct Banner;

impl RawHandler for Banner {
    fn speaks_first(&self) -> bool {
        true
    }

    fn greet(&self, _now: Time, reply: &mut Vec<u8>) -> RawNext {
        reply.extend_from_slice(b"220 hello\r\n");
        RawNext::Continue
    }

    fn handle(&self, _now: Time, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        match received {
            b"QUIT\r\n" => {
                reply.extend_from_slice(b"221 bye\r\n");
                RawNext::Close
            }
            _ if received.ends_with(b"\r\n") => {
                reply.extend_from_slice(b"500 what\r\n");
                RawNext::Continue
            }
            _ => RawNext::NeedMore,
        }
    }
}

#[test]
fn a_raw_server_may_speak_first_and_take_lines_in_parts() {
    for engine in engines() {
        let server = builder(engine).listen(Listen::tcp(LOOPBACK), Raw::new(Banner)).start().unwrap();
        let mut stream = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
        let mut greeting = [0; 11];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"220 hello\r\n", "{engine:?}");
        stream.write_all(b"NO").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        stream.write_all(b"OP\r\n").unwrap();
        let mut answer = [0; 10];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"500 what\r\n", "{engine:?}");
        assert_eq!(ask(&mut stream, "QUIT\r\n"), "221 bye\r\n", "{engine:?}");
    }
}

/// A raw handler with different replies to requests and to silent clients.
struct Patient;

impl RawHandler for Patient {
    fn handle(&self, _now: Time, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        if !received.ends_with(b"\n") {
            return RawNext::NeedMore;
        }
        reply.extend_from_slice(b"asked\n");
        RawNext::Close
    }

    fn answer_silent(&self, _now: Time, reply: &mut Vec<u8>) -> bool {
        reply.extend_from_slice(b"silent\n");
        true
    }
}

#[test]
fn a_silent_client_may_get_a_reply() {
    let (silence, timeout) = (Duration::from_millis(100), Duration::from_millis(600));
    for engine in engines() {
        let raw = Raw::new(Patient).silence(silence).timeout(timeout);
        let server = builder(engine).listen(Listen::tcp(LOOPBACK).defer_accept(None), raw).start().unwrap();
        let addr = server.tcp_addr(0).unwrap();
        // Each case: the request, the expected reply, and the minimum time before the reply.
        let nothing = Duration::ZERO;
        for (sent, expected, after) in
            [("", "silent\n", silence), ("a\n", "asked\n", nothing), ("a", "", timeout)]
        {
            let began = Instant::now();
            let mut stream = TcpStream::connect(addr).unwrap();
            assert_eq!(ask(&mut stream, sent), expected, "{engine:?} {sent:?}");
            let took = began.elapsed();
            assert!(took + CLOCK_STEP >= after, "{engine:?} {sent:?}: {took:?}");
        }
        eventually(|| server.stats().requests == 2);
        // The linger timeout of a drain is longer than the silence.
        let mut silent = TcpStream::connect(addr).unwrap();
        eventually(|| server.stats().conns_live == 1);
        server.handle().drain_within(Duration::from_secs(60));
        assert_eq!(ask(&mut silent, ""), "silent\n", "{engine:?}, during a drain");
        server.wait().unwrap();
    }
}

#[test]
fn a_panicking_handler_costs_one_connection_and_is_counted() {
    for engine in engines() {
        let ok = StaticReply::text(Status::OK, "ok\n");
        let service = Http1::new(service_fn(move |request, reply| {
            assert!(request.path() != "/bug", "a defect of the handler");
            reply.send(&ok)
        }));
        let server = builder(engine).listen(Listen::tcp(LOOPBACK), service).start().unwrap();
        let addr = server.tcp_addr(0).unwrap();
        let two = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /bug HTTP/1.1\r\nHost: a\r\n\r\n";
        let reply = ask(&mut TcpStream::connect(addr).unwrap(), two);
        assert!(reply.starts_with("HTTP/1.1 200 "), "the earlier reply arrives: {engine:?}: {reply}");
        assert_eq!(reply.matches("HTTP/1.1 500 ").count(), 1, "{engine:?}: {reply}");
        assert!(ask(&mut TcpStream::connect(addr).unwrap(), GET).ends_with("ok\n"));
        assert_eq!(server.stats().handler_panics, 1);
        server.stop().unwrap();
    }
}

#[test]
fn connections_over_the_per_address_cap_get_503_and_others_are_served() {
    for engine in engines() {
        let server =
            builder(engine).conns_per_ip_max(4).listen(Listen::tcp(LOOPBACK), ok_service()).start().unwrap();
        let addr = server.tcp_addr(0).unwrap();
        let mut held: Vec<_> = (0..4)
            .map(|_| {
                let mut stream = TcpStream::connect(addr).unwrap();
                stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                let mut first = [0; 15];
                stream.read_exact(&mut first).unwrap();
                assert_eq!(&first, b"HTTP/1.1 200 OK");
                stream
            })
            .collect();
        let reply = ask(&mut TcpStream::connect(addr).unwrap(), GET_KEPT);
        assert!(reply.starts_with("HTTP/1.1 503 ") && reply.contains("Retry-After: "), "{engine:?}: {reply}");
        eventually(|| server.stats().closed_because(CloseReason::PerIpCap) == 1);
        drop(held.pop());
        eventually(|| server.stats().conns_live == 3);
        let reply = ask(&mut TcpStream::connect(addr).unwrap(), GET);
        assert!(reply.starts_with("HTTP/1.1 200 "), "{engine:?}: {reply}");
        server.stop().unwrap();
    }
}

/// A client whose request arrives after the refusal also gets the 503.
#[test]
fn a_silent_client_over_the_cap_gets_503_too() {
    for engine in engines() {
        let listen = Listen::tcp(LOOPBACK).defer_accept(None);
        let server = builder(engine)
            .workers(workers(1))
            .conns_per_ip_max(4)
            .listen(listen, ok_service())
            .start()
            .unwrap();
        let addr = server.tcp_addr(0).unwrap();
        let held: Vec<_> = (0..4).map(|_| TcpStream::connect(addr).unwrap()).collect();
        eventually(|| server.stats().conns_live == 4);
        let mut reply = String::new();
        TcpStream::connect(addr).unwrap().read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 503 "), "{engine:?}: {reply}");
        eventually(|| server.stats().closed_because(CloseReason::PerIpCap) == 1);
        assert_eq!(server.stats().conns_live, 4);
        drop(held);
        server.stop().unwrap();
    }
}

/// A monitor that shares the address of a client with too many connections gets its reply, because
/// its connection closes at once.
#[test]
fn a_known_probe_that_closes_is_answered_beyond_the_per_address_cap() {
    for engine in engines() {
        let server = builder(engine)
            .workers(workers(1))
            .conns_per_ip_max(4)
            .listen(Listen::tcp(LOOPBACK), ok_service())
            .start()
            .unwrap();
        let addr = server.tcp_addr(0).unwrap();
        for _ in 0..3 {
            assert!(ask(&mut TcpStream::connect(addr).unwrap(), GET).starts_with("HTTP/1.1 200 "));
        }
        let held: Vec<_> = (0..4).map(|_| TcpStream::connect(addr).unwrap()).collect();
        for mut stream in &held {
            stream.write_all(GET_KEPT.as_bytes()).unwrap();
            stream.read_exact(&mut [0; 15]).unwrap();
        }
        let refused = ask(&mut TcpStream::connect(addr).unwrap(), GET_KEPT);
        assert!(refused.starts_with("HTTP/1.1 503 "), "{engine:?}: {refused}");
        let probed = ask(&mut TcpStream::connect(addr).unwrap(), GET);
        assert!(probed.starts_with("HTTP/1.1 200 "), "{engine:?}: {probed}");
        eventually(|| server.stats().conns_live == 4);
        server.stop().unwrap();
    }
}

#[test]
fn start_up_errors_have_their_kind_and_leave_nothing_open() {
    let taken = TcpListener::bind(LOOPBACK).unwrap();
    let addr = taken.local_addr().unwrap();
    for count in [1, 2] {
        let error = builder(Engine::Epoll)
            .workers(workers(count))
            .listen(Listen::tcp(addr), ok_service())
            .start()
            .unwrap_err();
        assert_eq!(error.kind(), StartErrorKind::AddressInUse, "{error}");
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
    }
    let first = builder(Engine::Epoll)
        .workers(workers(2))
        .listen(Listen::tcp(LOOPBACK), ok_service())
        .start()
        .unwrap();
    let addr = first.tcp_addr(0).unwrap();
    let error = builder(Engine::Epoll)
        .workers(workers(2))
        .listen(Listen::tcp(addr), ok_service())
        .start()
        .unwrap_err();
    assert_eq!(
        error.kind(),
        StartErrorKind::AddressInUse,
        "SO_REUSEPORT does not hide that another server uses the address: {error}"
    );
    first.stop().unwrap();
    assert_eq!(Server::builder().start().unwrap_err().kind(), StartErrorKind::Misconfigured);
    let error = builder(Engine::Epoll)
        .conns_max(16_000_000)
        .listen(Listen::tcp(LOOPBACK), ok_service())
        .start()
        .unwrap_err();
    assert_eq!(error.kind(), StartErrorKind::TooFewDescriptors, "{error}");
}

#[test]
fn a_drain_finishes_requests_in_progress_and_then_ends() {
    for engine in engines() {
        let builder = builder(engine).drain_timeout(Duration::from_secs(3_600));
        let server = builder.listen(Listen::tcp(LOOPBACK), ok_service()).start().unwrap();
        let addr = server.tcp_addr(0).unwrap();
        let mut idle = TcpStream::connect(addr).unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut half = TcpStream::connect(addr).unwrap();
        half.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        eventually(|| server.stats().conns_live == 2 && server.stats().requests == 1);
        let handle = server.handle();
        handle.drain();
        assert!(handle.is_draining());
        let mut rest = String::new();
        idle.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("ok\n"), "an idle connection ends after its replies: {rest}");
        let reply = ask(&mut half, "Host: a\r\n\r\n");
        assert!(
            reply.starts_with("HTTP/1.1 200 ") && reply.contains("Connection: close"),
            "{engine:?}: {reply}"
        );
        drop((idle, half));
        let end = std::thread::spawn(move || server.wait());
        eventually(|| end.is_finished());
        end.join().unwrap().unwrap();
        assert!(TcpStream::connect(addr).is_err(), "the listener is closed");
    }
}

#[test]
fn a_drain_waits_for_the_rest_of_a_raw_request() {
    for engine in engines() {
        let raw = Raw::new(Patient);
        let listen = || Listen::tcp(LOOPBACK).defer_accept(None);
        let server =
            builder(engine).listen(listen(), raw).listen(listen(), Raw::new(Banner)).start().unwrap();
        let mut begun = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
        begun.write_all(b"PI").unwrap();
        // This client gets a reply to its first request; its second request is incomplete.
        let mut again = TcpStream::connect(server.tcp_addr(1).unwrap()).unwrap();
        again.read_exact(&mut [0; 11]).unwrap();
        again.write_all(b"NOOP\r\n").unwrap();
        again.read_exact(&mut [0; 10]).unwrap();
        again.write_all(b"NO").unwrap();
        eventually(|| server.stats().bytes_in == 10);
        server.handle().drain();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(ask(&mut begun, "NG\n"), "asked\n", "{engine:?}");
        assert_eq!(ask(&mut again, "OP\r\n"), "500 what\r\n", "{engine:?}");
        drop((begun, again));
        server.wait().unwrap();
    }
}

#[test]
fn a_drain_that_takes_too_long_ends_at_its_deadline() {
    for engine in engines() {
        let server = builder(engine).listen(Listen::tcp(LOOPBACK), ok_service()).start().unwrap();
        let mut half = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
        half.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        eventually(|| server.stats().conns_live == 1);
        let began = Instant::now();
        server.drain(Duration::from_millis(300)).unwrap();
        let took = began.elapsed();
        assert!((300..2_000).contains(&(took + CLOCK_STEP).as_millis()), "{engine:?}: {took:?}");
    }
}

#[test]
fn a_failed_ring_is_replaced_by_epoll_with_one_event() {
    if !engines().contains(&Engine::IoUring) {
        return;
    }
    let (sender, receiver) = sync_channel(8);
    let server = builder(Engine::Auto)
        .observer(move |event| sender.try_send(event.clone()).unwrap())
        .listen(Listen::tcp(LOOPBACK), ok_service())
        .start()
        .unwrap();
    let addr = server.tcp_addr(0).unwrap();
    assert!(ask(&mut TcpStream::connect(addr).unwrap(), GET).ends_with("ok\n"));
    let began = Instant::now();
    server.handle().fail_worker(WorkerIndex(0));
    let event = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(
        matches!(event, Event::DriverFellBack { worker: WorkerIndex(0), cause: Cause::Kernel, .. }),
        "{event:?}"
    );
    assert!(ask(&mut TcpStream::connect(addr).unwrap(), GET).ends_with("ok\n"));
    at_most(
        "time from the failure of a ring to the first reply by epoll",
        began.elapsed(),
        Duration::from_millis(500),
    );
    assert_eq!(server.stats().driver_fallbacks, 1);
    assert!(receiver.try_recv().is_err(), "there is one event");
    server.stop().unwrap();
}

/// Opens a connection that stays open. Returns the connection and the status of its reply.
fn hold(addr: SocketAddr, path: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut first = [0; 12];
    let asked = stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    let _reset = asked.and_then(|()| stream.read_exact(&mut first));
    (stream, String::from_utf8_lossy(&first[9..]).into_owned())
}

#[test]
fn connections_that_are_lost_with_a_ring_do_not_count_for_their_address() {
    if !engines().contains(&Engine::IoUring) {
        return;
    }
    let server = builder(Engine::Auto)
        .conns_per_ip_max(4)
        .listen(Listen::tcp(LOOPBACK), ok_service())
        .start()
        .unwrap();
    let addr = server.tcp_addr(0).unwrap();
    let held: Vec<_> = (0..4).map(|_| hold(addr, "/")).collect();
    assert!(held.iter().all(|(_, status)| status == "200"));
    assert_eq!(hold(addr, "/").1, "503", "one connection too many");
    server.handle().fail_worker(WorkerIndex(0));
    eventually(|| server.stats().driver_fallbacks == 1);
    let stats = server.stats();
    assert_eq!((stats.closed_because(CloseReason::Lost), stats.conns_live), (4, 0), "{stats:?}");
    let again: Vec<_> = (0..4).map(|_| hold(addr, "/")).collect();
    assert!(again.iter().all(|(_, status)| status == "200"), "the four lost connections do not count");
    assert_eq!(hold(addr, "/").1, "503", "new connections are counted");
    server.stop().unwrap();
}

#[test]
fn connections_that_are_lost_with_a_worker_do_not_count_for_their_address() {
    // The kernel chooses the worker of a client. In every second round both clients are on the
    // worker that fails.
    for round in 0..6 {
        let server = builder(Engine::Epoll)
            .workers(workers(2))
            .conns_per_ip_max(2)
            .on_worker_failure(OnWorkerFailure::Degrade)
            .listen(Listen::tcp(LOOPBACK), ok_service())
            .start()
            .unwrap();
        let (addr, handle) = (server.tcp_addr(0).unwrap(), server.handle());
        let held = [(); 2].map(|()| hold(addr, "/"));
        handle.fail_worker(WorkerIndex(0));
        eventually(|| !handle.is_healthy());
        drop(held);
        let both = || [(); 2].map(|()| hold(addr, "/")).iter().all(|(_, status)| status == "200");
        let until = Instant::now() + Duration::from_secs(2);
        while !both() {
            assert!(Instant::now() < until, "round {round}: a lost connection still counts");
            std::thread::sleep(Duration::from_millis(2));
        }
        server.stop().unwrap();
    }
}

#[test]
fn a_failed_worker_leaves_its_clients_to_the_others_when_so_configured() {
    let server = builder(Engine::Epoll)
        .workers(workers(2))
        .on_worker_failure(OnWorkerFailure::Degrade)
        .listen(Listen::tcp(LOOPBACK), ok_service())
        .start()
        .unwrap();
    let addr = server.tcp_addr(0).unwrap();
    let handle = server.handle();
    handle.fail_worker(WorkerIndex(0));
    eventually(|| !handle.is_healthy());
    for _ in 0..100 {
        assert!(
            ask(&mut TcpStream::connect(addr).unwrap(), GET).ends_with("ok\n"),
            "no client connects to the failed worker"
        );
    }
    server.stop().unwrap();
}

#[test]
fn a_failed_worker_ends_the_server_by_default() {
    let server = builder(Engine::Epoll)
        .workers(workers(2))
        .listen(Listen::tcp(LOOPBACK), ok_service())
        .start()
        .unwrap();
    server.handle().fail_worker(WorkerIndex(1));
    let error = server.wait().unwrap_err();
    assert_eq!(error.worker, WorkerIndex(1));
    assert!(error.to_string().contains("worker 1 failed"), "{error}");
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < until, "the condition did not become true within 5 s");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn every_refusal_is_counted_by_its_reason() {
    use doorbell::http::RequestError;
    for engine in engines() {
        let limits = doorbell::HttpLimits { head_bytes_max: 256, body_bytes_max: 10, ..Default::default() };
        let http = ok_service().limits(limits);
        let refusals = http.refusals();
        let server = builder(engine).listen(Listen::tcp(LOOPBACK), http).start().unwrap();
        let long = "x".repeat(300);
        let cases = [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400", RequestError::Host),
            (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), "431", RequestError::HeadTooLarge),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n".to_owned(),
                "413",
                RequestError::BodyTooLarge,
            ),
        ];
        for (request, status, error) in cases {
            let reply = ask(&mut TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap(), &request);
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{engine:?} {error}: {reply}");
            eventually(|| refusals.of(error) == 1);
        }
        assert_eq!(refusals.all().map(|(_, count)| count).sum::<u64>(), 3, "{engine:?}");
        server.stop().unwrap();
    }
}

#[test]
fn connections_that_end_early_are_counted_by_their_reason() {
    use doorbell::CloseReason;
    const IN_HEAD: &str = "GET / HTTP/1.1\r\nHos";
    const IN_BODY: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc";
    let soon = Duration::from_millis(200);
    for engine in engines() {
        let limits = doorbell::HttpLimits {
            header_timeout: soon,
            idle_timeout: soon,
            body_idle_timeout: soon,
            ..Default::default()
        };
        let server =
            builder(engine).listen(Listen::tcp(LOOPBACK), ok_service().limits(limits)).start().unwrap();
        let addr = server.tcp_addr(0).unwrap();
        let count = |reason| server.stats().closed_because(reason);
        let cases = [
            (GET_KEPT, CloseReason::IdleTimeout),
            (IN_HEAD, CloseReason::HeaderTimeout),
            (IN_BODY, CloseReason::BodyTimeout),
        ];
        for (request, reason) in cases {
            // A client that waits for the close sends nothing after its request.
            let _reply = ask(&mut TcpStream::connect(addr).unwrap(), request);
            eventually(|| count(reason) == 1);
        }
        for (reason, by_reset) in [(CloseReason::ClientGone, false), (CloseReason::ClientReset, true)] {
            let mut stream = TcpStream::connect(addr).unwrap();
            let bytes_before = server.stats().bytes_in;
            stream.write_all(IN_HEAD.as_bytes()).unwrap();
            eventually(|| server.stats().bytes_in > bytes_before);
            if by_reset {
                doorbell_testkit::peers::misbehave::reset(&stream).unwrap();
            }
            drop(stream);
            eventually(|| count(reason) == 1);
        }
        assert_eq!(server.stats().closed_total(), 5, "{engine:?}: each connection has one close reason");
        server.stop().unwrap();
    }
}
