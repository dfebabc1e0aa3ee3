//! Concurrency limits of routes and listeners: excess requests are refused and counted, and permits
//! are released.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use doorbell_testkit::peers::{Reply, connect_from, misbehave};

use crate::plain::get;
use crate::support::{Doorbell, LIMIT, on_both_engines};

on_both_engines! {
    a_route_takes_so_many_at_once
    a_listener_takes_so_many_at_once
}

const CLIENTS: usize = 8;
/// Pipelined requests of one client; their replies fit into the socket buffers.
const PIPELINED: usize = 8;
/// Batches of new connections, so that every worker gets some.
const BATCHES: usize = 16;
/// Refusals that a test needs. Each refusal needs two workers that reply within the same
/// microseconds.
const REFUSED_MIN: u64 = 5;

/// `/slow` redirects to a location that is long enough to make the write slow.
fn serve(engine: &str, listener: &str, route: &str) -> Doorbell {
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 4\n[lifecycle]\ndrain_delay = \"0s\"\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\n{listener}\n\
             [route.slow]\npath = \"/slow/{{*rest}}\"\n{route}\nredirect = {{ host = \"new.test\" }}\n\
             [route.open]\npath = \"/open\"\nreply = {{ body = \"open\\n\" }}\n"
        ),
    )
}

/// Number of accepted and refused requests of all clients.
#[derive(Debug, Default)]
struct Counts {
    good: AtomicU64,
    busy: AtomicU64,
}

/// Sends requests from several threads until enough are refused. The last request of each batch is
/// for `/open`, which may be refused only if `open_too` is set.
fn flood(server: SocketAddr, open_too: bool) -> Counts {
    let counts = Counts::default();
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while counts.busy.load(Ordering::Relaxed) < REFUSED_MIN && start.elapsed() < LIMIT {
                    ask_in_batches(server, open_too, &counts);
                }
            });
        }
    });
    counts
}

fn ask_in_batches(server: SocketAddr, open_too: bool, counts: &Counts) {
    let slow = format!("GET /slow/{} HTTP/1.1\r\nHost: a\r\n\r\n", "x%7e".repeat(1_000));
    let batch = slow.repeat(PIPELINED - 1) + "GET /open HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut stream = connect_from(std::net::Ipv4Addr::LOCALHOST, server).unwrap();
    for _ in 0..BATCHES {
        stream.write_all(batch.as_bytes()).unwrap();
        let bytes = misbehave::read_replies(&mut stream, PIPELINED, false).unwrap();
        let (replies, _) = Reply::parse_all(&bytes);
        for (at, reply) in replies.iter().enumerate() {
            let is_open = at + 1 == PIPELINED;
            match reply.status {
                200 if is_open => &counts.good,
                308 if !is_open => &counts.good,
                503 if !is_open || open_too => {
                    assert_eq!(reply.field("retry-after"), Some("1"), "{}", reply.head);
                    assert_eq!(reply.body, b"busy\n");
                    &counts.busy
                }
                _ => panic!("request {at}: {}", reply.head),
            }
            .fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn assert_limited(engine: &str, doorbell: Doorbell, open_too: bool) {
    let Counts { good, busy } = flood(doorbell.addr, open_too);
    let (good, busy) = (good.into_inner(), busy.into_inner());
    eprintln!("{engine}: {busy} of {} requests refused", good + busy);
    assert!(busy >= REFUSED_MIN, "{busy} refused, {good} accepted");
    // Sequential requests are accepted, so neither accepted nor refused requests still hold
    // permits.
    for n in 0..50 {
        assert_eq!(get(doorbell.addr, &format!("/slow/{n}"), &[]).status, 308, "{n}");
    }
    let totals = doorbell.totals();
    assert_eq!(totals["refused"], format!("busy={busy}"), "{totals}");
    assert_eq!(totals["requests"], good + busy + 50, "{totals}");
}

fn a_route_takes_so_many_at_once(engine: &str) {
    assert_limited(engine, serve(engine, "", "concurrent = 1"), false);
}

fn a_listener_takes_so_many_at_once(engine: &str) {
    assert_limited(engine, serve(engine, "limits = { requests_in_flight = 1 }", ""), true);
}
