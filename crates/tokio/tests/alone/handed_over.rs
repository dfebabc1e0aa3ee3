//! Promise: a hand-over loses no connection and no byte that was already read, and leaks no
//! descriptor.
//!
//! The test opens about 10,000 connections, or 1,000,000 with `DOORBELL_FULL=1`.

#![expect(clippy::disallowed_methods, reason = "the test waits for other threads")]
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::net::SocketAddr;
use std::time::Duration;

use doorbell::{
    CloseReason, Descriptors, Engine, Handler, Http1, Listen, Replied, Request, Responder, Server,
};
use doorbell_testkit::peers::{Load, LoadReport, Mode};
use doorbell_tokio::Embed;

use crate::common::{
    ENGINES, alone, builder, descriptors, ready, serve_unique, sized, status, until, without_heartbeat,
};

/// Total number of connections of all runs, including kept ones.
const NOW: u64 = 10_000;
const FULL: u64 = 1_000_000;

async fn load(server: SocketAddr, mode: Mode, in_flight: u32, requests: u64, first_id: u64) {
    let patience = Duration::from_secs(600);
    let load = Load { server, sources: Vec::new(), requests, in_flight, mode, first_id, patience };
    let report = tokio::task::spawn_blocking(move || load.run()).await.unwrap().unwrap();
    let is_clean = report.is_clean() && report.replies == requests;
    let report = LoadReport { latencies: Vec::new(), ..report };
    assert!(is_clean, "{mode:?}, {in_flight} in flight: {report:?}");
}

/// Waits until at most `before` descriptors are open. The number may become lower, because an
/// earlier server may release its descriptors late.
async fn no_more_than(before: usize) {
    let mut now = 0;
    let mut is_so = || {
        now = descriptors();
        now <= before
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !is_so() && std::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(now <= before, "{before} descriptors became {now}");
}

async fn nothing_is_lost(way: (Engine, Descriptors), conns: u64) {
    let health = without_heartbeat();
    let before = descriptors();
    let (control, handed) = Embed::new(builder(way, &health)).start();
    let addr = ready(&control, way).await;
    let app = tokio::spawn(serve_unique(handed));
    let idle = descriptors();

    let mut first_id = 0;
    for (mode, in_flight, share) in [
        (Mode::Close, 64, 95),
        (Mode::Close, 1, 5),
        (Mode::KeepAlive(10), 64, 10),
        (Mode::Pipelined(8), 32, 5),
    ] {
        load(addr, mode, in_flight, conns * share / 100, first_id).await;
        first_id += 1 << 32;
        assert_eq!(status(addr, "/livez"), Ok(200), "probes are served");
    }
    until("every connection ends", || control.stats().handed_out == 0).await;
    // A worker updates its counters at the end of a turn, after it has sent replies.
    until("all but the probes are handed over", || {
        let ring = control.stats().ring;
        ring.closed_because(CloseReason::HandedOver) + 4 == ring.conns_accepted
    })
    .await;
    let stats = control.stats();
    let handed_over = stats.ring.closed_because(CloseReason::HandedOver);
    assert!(handed_over >= conns / 100 * 100, "one for each request with a close: {handed_over}");
    assert_eq!((stats.handed_failed, stats.ring.hand_over_errors, stats.ring.hand_over_refused), (0, 0, 0));
    no_more_than(idle).await;

    control.stop().await.unwrap();
    app.await.unwrap();
    drop(control);
    no_more_than(before).await;
}

#[test]
fn no_connection_no_first_byte_and_no_descriptor_is_lost() {
    let _turn = alone();
    for way in ENGINES {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(nothing_is_lost(way, sized(NOW, FULL) / ENGINES.len() as u64));
    }
}

/// The limit of connections per address applies before a hand-over: a client over the limit is
/// refused. Connections that were already handed over do not count.
#[test]
fn the_cap_of_an_address_holds_before_a_hand_over() {
    use std::io::{Read as _, Write as _};
    let _turn = alone();
    // With direct descriptors the peer address is unknown, so the limit does not apply.
    for way in ENGINES.into_iter().filter(|(_, descriptors)| *descriptors != Descriptors::Direct) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let health = without_heartbeat();
        let (control, handed) =
            runtime.block_on(async { Embed::new(builder(way, &health).conns_per_ip_max(4)).start() });
        let addr = runtime.block_on(ready(&control, way));
        let connect = |bytes: &[u8]| {
            let mut stream = std::net::TcpStream::connect(addr).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        let request = b"GET /unique/00000000000000ff/40 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        // These connections do not count, because they were handed over.
        let out: Vec<_> = (0..9).map(|_| connect(request)).collect();
        runtime.block_on(until("all are handed over", || control.stats().handed_waiting == out.len()));
        let idle: Vec<_> = (0..4).map(|_| connect(b"GET /livez HT")).collect();
        runtime.block_on(until("they are accepted", || control.stats().ring.conns_live == 4));
        // Repeats the same head, so that the worker caches it.
        for _ in 0..20 {
            let mut reply = String::new();
            connect(request).read_to_string(&mut reply).unwrap();
            assert!(reply.starts_with("HTTP/1.1 503 "), "{reply}");
        }
        // A close is counted after its client saw it.
        let refused = || control.stats().ring.closed_because(CloseReason::PerIpCap);
        runtime.block_on(until("all refusals are counted", || refused() == 20));
        drop(idle);
        runtime.block_on(until("they are gone", || control.stats().ring.conns_live == 0));
        runtime.spawn(serve_unique(handed));
        let client = std::thread::spawn(move || status(addr, "/unique/00000000000000ff/40"));
        runtime.block_on(until("the next one is served", || client.is_finished()));
        assert_eq!(client.join().unwrap(), Ok(200));
        runtime.block_on(control.stop()).unwrap();
    }
}

/// Other protocols on the same port, split at every byte. The server sends nothing before the
/// hand-over.
#[test]
fn other_protocols_arrive_whole_wherever_they_were_cut() {
    use std::io::{Read as _, Write as _};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let _turn = alone();
    let protocols: [&[u8]; 2] =
        [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", &[22, 3, 1, 0, 5, 1, 0, 0, 1, 9]];
    for way in ENGINES {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let health = without_heartbeat();
        let (control, mut handed) = runtime.block_on(async { Embed::new(builder(way, &health)).start() });
        let addr = runtime.block_on(ready(&control, way));
        for protocol in protocols {
            for at in 0..protocol.len() {
                let mut stream = std::net::TcpStream::connect(addr).unwrap();
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                stream.write_all(&protocol[..at]).unwrap();
                std::thread::yield_now();
                stream.write_all(&protocol[at..]).unwrap();
                runtime.block_on(async {
                    let mut connection = handed.accept().await.unwrap();
                    let mut bytes = vec![0; protocol.len()];
                    connection.stream.read_exact(&mut bytes).await.unwrap();
                    assert_eq!(bytes, protocol, "cut at {at}");
                    connection.stream.write_all(b"theirs").await.unwrap();
                });
                let mut came = String::new();
                stream.read_to_string(&mut came).unwrap();
                assert_eq!(came, "theirs", "cut at {at}");
            }
        }
        runtime.block_on(control.stop()).unwrap();
    }
}

/// One request, split at every byte into two segments that arrive separately.
#[test]
fn first_bytes_are_whole_wherever_they_were_cut() {
    use std::io::{Read as _, Write as _};
    let _turn = alone();
    let request = b"GET /unique/00000000000000ff/40 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for way in ENGINES {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let health = without_heartbeat();
        let (control, handed) = runtime.block_on(async { Embed::new(builder(way, &health)).start() });
        let addr = runtime.block_on(ready(&control, way));
        let client = std::thread::spawn(move || {
            for at in 1..request.len() {
                let mut stream = std::net::TcpStream::connect(addr).unwrap();
                stream.set_nodelay(true).unwrap();
                stream.write_all(&request[..at]).unwrap();
                std::thread::yield_now();
                stream.write_all(&request[at..]).unwrap();
                let mut reply = String::new();
                stream.read_to_string(&mut reply).unwrap();
                assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "cut at {at}: {reply}");
                assert!(reply.ends_with(&"00000000000000ff".repeat(3)[..40]), "cut at {at}: {reply}");
            }
        });
        runtime.block_on(async {
            tokio::spawn(serve_unique(handed));
            until("the client is done", || client.is_finished()).await;
            control.stop().await.unwrap();
        });
        client.join().unwrap();
    }
}

/// A service that panics when it is dropped.
struct PanicsInDrop;

impl Handler for PanicsInDrop {
    fn call<'a>(&self, _request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        reply.hand_over()
    }
}

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("a service of the test panics when dropped");
    }
}

/// If the panic hid the end of the server, the program would wait for its connections forever.
#[tokio::test]
async fn a_service_that_panics_in_drop_does_not_hide_the_end() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = Listen::tcp(port.local_addr().unwrap());
    let server = Server::builder().listen(taken, Http1::new(PanicsInDrop));
    let (control, mut handed) = Embed::new(server).start();
    assert!(control.ready().await.is_err());
    let end = async {
        control.shutdown().await;
        assert!(handed.accept().await.is_none());
    };
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("the end is reported");
}
