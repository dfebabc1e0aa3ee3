//! Promise: a server on the runtime itself, as on systems other than Linux, replies like the ring
//! threads and loses no connection.
//!
//! Does not know about: frameworks (see `embedding/axum.rs`).

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use doorbell_testkit::peers::{Load, Mode, exchange};
use doorbell_tokio::{Control, Embed, Handed, Health, HealthError, Ttl};
use tokio::runtime::Runtime;

use crate::common::{
    ENGINES, alone, builder, descriptors, limited, on_runtime, patient, ready, serve_unique, status, until,
};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn start(runtime: &Runtime, health: &Health) -> (Control, Handed, SocketAddr) {
    let (control, handed) = runtime.block_on(on_runtime(health));
    let addr = control.tcp_addr(0).unwrap();
    (control, handed, addr)
}

/// The bytes of a reply without its date.
fn reply(addr: SocketAddr, request: &str) -> String {
    let bytes = exchange(addr, request.as_bytes()).unwrap().bytes;
    let text = String::from_utf8(bytes).unwrap();
    text.split_inclusive("\r\n").filter(|line| !line.starts_with("Date: ")).collect()
}

#[test]
fn replies_are_those_of_the_ring_threads() {
    let _turn = alone();
    let runtime = runtime();
    let health = || -> Result<Health, HealthError> {
        let db = Ttl::of(Duration::from_secs(3600));
        Health::builder().push("db", db).details(doorbell_tokio::Details::Always).build()
    };
    let _context = runtime.enter();
    let (ring_health, own_health) = (health().unwrap(), health().unwrap());
    let (own_control, _own_handed, own) = start(&runtime, &own_health);
    let (control, _handed) = Embed::new(builder(ENGINES[0], &ring_health)).health(&ring_health).start();
    let ring = runtime.block_on(ready(&control, ENGINES[0]));
    let long = format!("GET /livez HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    for request in [
        "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /readyz?verbose HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /readyz?format=json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /readyz/db HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "HEAD /livez HTTP/1.0\r\n\r\n",
        "OPTIONS /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "DELETE /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "TRACE /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /startupz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /livez HTTP/9.9\r\nHost: a\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: a\r\n x: y\r\n\r\n",
        "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        long.as_str(),
    ] {
        let (own, ring) = (reply(own, request), reply(ring, request));
        assert!(ring.starts_with("HTTP/1.1 "), "{request:?}: {ring}");
        assert_eq!(own, ring, "{}", request.chars().take(80).collect::<String>());
    }
    runtime.block_on(async { (control.stop().await.unwrap(), own_control.stop().await.unwrap()) });
}

#[test]
fn nothing_is_lost() {
    let _turn = alone();
    let runtime = runtime();
    let before = descriptors();
    let (control, handed, addr) = start(&runtime, &patient());
    runtime.spawn(serve_unique(handed));
    let modes = [(Mode::Close, 64, 2_000), (Mode::KeepAlive(10), 64, 2_000), (Mode::Pipelined(8), 32, 2_000)];
    for (at, (mode, in_flight, requests)) in (0_u64..).zip(modes) {
        let (sources, patience) = (Vec::new(), Duration::from_secs(600));
        let load = Load { server: addr, sources, requests, in_flight, mode, first_id: at << 32, patience };
        let report = load.run().unwrap();
        assert!(report.is_clean() && report.replies == requests, "{mode:?}");
        assert_eq!(status(addr, "/livez"), Ok(200));
    }
    let is_over = || {
        let stats = control.stats();
        (stats.handed_out, stats.runtime.conns_live, stats.runtime.refused) == (0, 0, 0)
    };
    runtime.block_on(until("every connection ends", is_over));
    assert_eq!(control.stats().runtime.requests, 3, "the probes");
    runtime.block_on(control.stop()).unwrap();
    drop(runtime);
    assert!(descriptors() <= before);
}

#[test]
fn a_missing_receiver_fails_health_and_refuses_requests() {
    let _turn = alone();
    let runtime = runtime();
    let limit = Duration::from_millis(200);
    let health = limited(|health| health.accept_within(limit, limit));
    health.set_ready(true);
    let (control, mut handed, addr) = start(&runtime, &health);
    assert_eq!([status(addr, "/livez"), status(addr, "/readyz")], [Ok(200), Ok(200)]);
    let mut client = TcpStream::connect(addr).unwrap();
    client.write_all(b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    runtime.block_on(until("it is detected", || status(addr, "/livez") == Ok(503)));
    let connection = runtime.block_on(handed.accept()).unwrap();
    assert_eq!(connection.stream.preread(), b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(status(addr, "/livez"), Ok(200), "nothing waits");
    drop(handed);
    assert_eq!([status(addr, "/livez"), status(addr, "/app")], [Ok(503), Ok(503)]);
    assert_eq!(control.stats().runtime.refused, 1);
    runtime.block_on(control.stop()).unwrap();
    assert!(TcpStream::connect(addr).is_err(), "no process listens");
}

/// A drain finishes requests that have begun and those in the backlog, closes idle connections, and
/// closes the rest at the earlier deadline of two drains.
#[test]
fn a_drain_ends_connections() {
    let _turn = alone();
    let runtime = runtime();
    let (control, _handed, addr) = start(&runtime, &patient());
    let connect = |first: &[u8]| {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(first).unwrap();
        stream
    };
    let rest = |mut stream: TcpStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    };
    let mut kept = connect(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut first = [0; 12];
    kept.read_exact(&mut first).unwrap();
    let (mut begun, stuck) = (connect(b"GET /livez HT"), connect(b"GET"));
    runtime.block_on(until("all are connected", || control.stats().runtime.conns_live == 3));
    let draining = runtime.spawn({
        let control = control.clone();
        async move { control.drain(Duration::from_secs(600)).await }
    });
    assert!(rest(kept).is_ok(), "the end of an idle connection is a FIN");
    begun.write_all(b"TP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let text = rest(begun).unwrap();
    assert!(text.contains("Connection: close\r\n"), "{text}");
    runtime.block_on(control.drain(Duration::from_millis(100))).unwrap();
    runtime.block_on(draining).unwrap().unwrap();
    assert_eq!((rest(stuck).unwrap_or_default(), control.stats().runtime.conns_live), (String::new(), 0));
}

/// Connections that the server has not accepted yet, because its runtime was busy.
#[test]
fn a_drain_replies_to_the_backlog() {
    let _turn = alone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (control, _handed, addr) = start(&runtime, &patient());
    let clients: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(addr).unwrap();
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            stream
        })
        .collect();
    runtime.block_on(control.drain(Duration::from_secs(20))).unwrap();
    for mut client in clients {
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    }
    assert_eq!(control.stats().runtime.requests, 50);
}

#[test]
fn it_ends_with_its_handles() {
    let _turn = alone();
    let runtime = runtime();
    let (control, handed, addr) = start(&runtime, &patient());
    drop(handed);
    assert!(TcpStream::connect(addr).is_ok());
    drop(control);
    runtime.block_on(until("it has ended", || TcpStream::connect(addr).is_err()));
}

#[test]
fn a_port_in_use_is_named() {
    let _turn = alone();
    let runtime = runtime();
    let (_control, _handed, addr) = start(&runtime, &patient());
    let again = doorbell_tokio::Doorbell::bind(addr.to_string()).without_signals().on_runtime();
    let refused = runtime.block_on(again.start()).unwrap_err().to_string();
    assert!(refused.contains(&format!("cannot listen on {addr}: ")), "{refused}");
}
