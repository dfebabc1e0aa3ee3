//! Connections with a single request, served without a slot of the table: events during such a call
//! affect no other connection, and are counted as on the general path.
//!
//! Does not know about: single drivers (see `conformance`).
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real sockets and may panic"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use doorbell::{
    CloseReason, Engine, Http1, HttpLimits, Listen, Server, StaticReply, Status, Workers, service_fn,
};
use doorbell_testkit::skip;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Number of rounds, enough for each path to be cached and used again.
const ROUNDS: u64 = 20;

/// Whether the driver is available; epoll always is.
fn is_here(engine: Engine) -> bool {
    engine == Engine::Epoll || skip::io_uring()
}

fn serve(engine: Engine) -> Server {
    let ok = StaticReply::text(Status::OK, "ok\n");
    let large = StaticReply::text(Status::OK, "x".repeat(4_000_000));
    let service = Http1::new(service_fn(move |request, reply| match request.path() {
        "/bug" => panic!("a defect of the handler"),
        "/hang" => reply.close(),
        "/large" => reply.send(&large),
        "/made" => reply.status(Status::OK).content(request.path()),
        _ => reply.send(&ok),
    }));
    let builder = Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::MIN)).conns_max(256);
    let started = builder.listen(Listen::tcp(LOOPBACK), service).start();
    started.unwrap()
}

fn ask(addr: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn alternating_replies_panics_and_hang_ups_are_counted_separately() {
    for server in [Engine::Epoll, Engine::IoUring].into_iter().filter(|&engine| is_here(engine)).map(serve) {
        let addr = server.tcp_addr(0).unwrap();
        for _ in 0..ROUNDS {
            let reply = ask(addr, "/livez");
            assert!(reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("\r\n\r\nok\n"), "{reply}");
            assert!(ask(addr, "/bug").starts_with("HTTP/1.1 500 "));
            assert!(ask(addr, "/made").ends_with("\r\n\r\n/made"));
            assert_eq!(ask(addr, "/hang"), "");
            assert!(ask(addr, "/large").ends_with(&"x".repeat(4_000_000)));
        }
        let until = Instant::now() + Duration::from_secs(5);
        while server.stats().conns_live > 0 || server.stats().conns_accepted < 5 * ROUNDS {
            assert!(Instant::now() < until, "{:?}", server.stats());
            thread::sleep(Duration::from_millis(5));
        }
        let stats = server.stats();
        assert_eq!((stats.conns_accepted, stats.requests), (5 * ROUNDS, 5 * ROUNDS));
        assert_eq!(stats.handler_panics, ROUNDS);
        assert_eq!(stats.closed_because(CloseReason::HandlerPanic), ROUNDS);
        assert_eq!(stats.closed_because(CloseReason::Done), 4 * ROUNDS);
        server.stop().unwrap();
    }
}

/// The head and the large content of a reply are not sent in one call.
#[test]
fn replies_to_clients_that_are_accepted_during_a_drain_are_counted_as_done() {
    for engine in [Engine::Epoll, Engine::IoUring].into_iter().filter(|&engine| is_here(engine)) {
        let (begun, has_begun) = sync_channel(1);
        let (permit, permitted) = sync_channel::<()>(1);
        let permitted = Mutex::new(permitted);
        let blocks = Http1::new(service_fn(move |_, reply| {
            begun.send(()).unwrap();
            permitted.lock().unwrap().recv().unwrap();
            reply.status(Status::OK).content("ok")
        }));
        let large = StaticReply::text(Status::OK, "x".repeat(300_000));
        let large = Http1::new(service_fn(move |_, reply| reply.send(&large)));
        let builder = Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::MIN)).conns_max(64);
        let builder = builder.listen(Listen::tcp(LOOPBACK), blocks).listen(Listen::tcp(LOOPBACK), large);
        let server = builder.start().unwrap();
        let [blocking, addr] = [0, 1].map(|listener| server.tcp_addr(listener).unwrap());
        let handle = server.handle();
        let first = thread::spawn(move || ask(blocking, "/"));
        has_begun.recv().unwrap();
        let mut second = TcpStream::connect(addr).unwrap();
        second.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        // The worker takes the command before it accepts the second client.
        handle.drain_within(Duration::from_secs(60));
        permit.send(()).unwrap();
        let mut reply = String::new();
        second.read_to_string(&mut reply).unwrap();
        assert!(reply.ends_with(&"x".repeat(300_000)), "{engine:?}");
        first.join().unwrap();
        server.wait().unwrap();
        assert_eq!(handle.stats().closed_because(CloseReason::Done), 2, "{engine:?}");
    }
}

#[test]
fn the_request_and_age_limits_are_counted_as_close_reasons() {
    for engine in [Engine::Epoll, Engine::IoUring].into_iter().filter(|&engine| is_here(engine)) {
        let limits = || HttpLimits {
            requests_per_conn_max: 3,
            conn_age_max: Duration::from_millis(100),
            ..HttpLimits::default()
        };
        let ok = StaticReply::text(Status::OK, "ok\n");
        let service = Http1::new(service_fn(move |_, reply| reply.send(&ok))).limits(limits());
        let builder = Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::MIN)).conns_max(64);
        let server = builder.listen(Listen::tcp(LOOPBACK), service).start().unwrap();
        let addr = server.tcp_addr(0).unwrap();
        // Sends requests on one connection, with this pause before each request; the last reply
        // ends the connection.
        let talk = |wait: Duration| {
            let mut stream = TcpStream::connect(addr).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let mut reply = Vec::new();
            while !reply.windows(17).any(|part| part == b"Connection: close") {
                thread::sleep(wait);
                stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                while !reply.ends_with(b"ok\n") {
                    let mut some = [0; 1000];
                    let len = stream.read(&mut some).unwrap();
                    assert_ne!(len, 0, "{engine:?}");
                    reply.extend_from_slice(&some[..len]);
                }
                if !reply.windows(17).any(|part| part == b"Connection: close") {
                    reply.clear();
                }
            }
            assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "{engine:?}");
        };
        talk(Duration::ZERO);
        talk(Duration::from_millis(150));
        ask(addr, "/");
        let until = Instant::now() + Duration::from_secs(5);
        while server.stats().conns_live > 0 || server.stats().conns_accepted < 3 {
            assert!(Instant::now() < until, "{:?}", server.stats());
            thread::sleep(Duration::from_millis(5));
        }
        let stats = server.stats();
        let of = |reason| stats.closed_because(reason);
        let counts = [CloseReason::RequestsMax, CloseReason::AgeMax, CloseReason::Done].map(of);
        assert_eq!(counts, [1, 1, 1], "{engine:?}: {stats:?}");
        server.stop().unwrap();
    }
}

/// An invalid reply becomes a 500 on the fast path, on the general path and in a pipeline.
#[test]
fn an_invalid_reply_is_a_500_that_is_counted_and_reported_once_per_kind() {
    for engine in [Engine::Epoll, Engine::IoUring].into_iter().filter(|&engine| is_here(engine)) {
        let service = Http1::new(service_fn(|request, reply| match request.path() {
            "/reserved" => reply.status(Status::OK).header("Content-Length", "1").empty(),
            _ => reply.status(Status::OK).header("X-Line", "a\r\nb").empty(),
        }));
        let (sender, receiver) = sync_channel(16);
        let builder = Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::MIN)).conns_max(64);
        let builder = builder.observer(move |event| sender.send(format!("{event:?}")).unwrap());
        let server = builder.listen(Listen::tcp(LOOPBACK), service).start().unwrap();
        let addr = server.tcp_addr(0).unwrap();
        let last = "Host: a\r\nConnection: close\r\n\r\n";
        let mut count = 0;
        for (requests, replies) in [
            (format!("GET /reserved HTTP/1.1\r\n{last}"), 1),
            (format!("GET /reserved HTTP/1.1\r\n{last}"), 1),
            (format!("GET /reserved HTTP/1.1\r\nHost: a\r\n\r\nGET /line HTTP/1.1\r\n{last}"), 2),
            (format!("POST /line HTTP/1.1\r\nContent-Length: 2\r\n{last}ab"), 1),
        ] {
            let reply = doorbell_testkit::peers::exchange(addr, requests.as_bytes()).unwrap();
            let reply = String::from_utf8_lossy(&reply.bytes);
            assert_eq!(reply.matches("HTTP/1.1 500 ").count(), replies, "{engine:?}: {reply}");
            count += replies as u64;
            let counted = || server.stats().handler_misuses == count;
            assert!(doorbell_testkit::peers::wait_until(Duration::from_secs(60), counted).is_some());
        }
        server.stop().unwrap();
        let messages: Vec<_> = receiver.iter().collect();
        assert_eq!(messages.len(), 2, "{engine:?}: {messages:?}");
        assert!(
            messages[0].contains("HeaderReserved") && messages[1].contains("HeaderValue"),
            "{messages:?}"
        );
    }
}
