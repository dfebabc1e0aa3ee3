//! Promise: liveness fails if a program does not serve handed-over connections, for whatever
//! reason. It also fails if no server uses the `Health`, and the reply names `Embed::health`.
//!
//! Does not know about: a runtime that is stuck as a whole (see `alone/stuck.rs`).

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]
#![expect(clippy::disallowed_methods, reason = "the test blocks a worker and measures time")]

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use doorbell::{Descriptors, Engine};
use doorbell_testkit::peers::{Reply, exchange};
use doorbell_tokio::{Control, Embed, Handed, Health};
use tokio::runtime::{Builder, Runtime};

use crate::common::{ENGINES, builder, limited, patient, ready, status, until};

const LIVE: (Result<u16, String>, Result<u16, String>) = (Ok(200), Ok(200));
const FAILED: (Result<u16, String>, Result<u16, String>) = (Ok(503), Ok(503));

/// Results of the liveness and readiness probes.
fn probes(addr: SocketAddr) -> (Result<u16, String>, Result<u16, String>) {
    (status(addr, "/livez"), status(addr, "/readyz"))
}

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

/// A program that is ready.
fn start(runtime: &Runtime, way: (Engine, Descriptors), health: &Health) -> (Control, Handed, SocketAddr) {
    let (control, handed) =
        runtime.block_on(async { Embed::new(builder(way, health)).health(health).start() });
    let addr = runtime.block_on(ready(&control, way));
    health.set_ready(true);
    assert_eq!(probes(addr), LIVE);
    (control, handed, addr)
}

fn ask_for_the_program(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    stream
}

#[test]
fn a_health_without_a_server_fails_and_reports_the_reason() {
    for way in ENGINES {
        let runtime = runtime(1);
        let health = patient();
        let (control, _handed) = runtime.block_on(async { Embed::new(builder(way, &health)).start() });
        let addr = runtime.block_on(ready(&control, way));
        health.set_ready(true);
        for path in ["/livez", "/readyz", "/startupz", "/healthz"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let reply = Reply::parse(&exchange(addr, request.as_bytes()).unwrap().bytes, false).unwrap();
            let body = String::from_utf8(reply.body).unwrap();
            assert!(reply.status == 503 && body.contains("Embed::health"), "{path}: {body}");
        }
        runtime.block_on(control.stop()).unwrap();
    }
}

#[test]
fn a_receiver_that_was_dropped_fails_liveness_and_readiness() {
    for way in ENGINES {
        let runtime = runtime(1);
        let health = patient();
        let (control, handed, addr) = start(&runtime, way, &health);
        drop(handed);
        assert_eq!(probes(addr), FAILED);
        // The next server with the same health has a receiver.
        runtime.block_on(control.stop()).unwrap();
        let (control, _handed) =
            runtime.block_on(async { Embed::new(builder(way, &health)).health(&health).start() });
        let addr = runtime.block_on(ready(&control, way));
        assert_eq!(status(addr, "/livez"), Ok(200));
        runtime.block_on(control.stop()).unwrap();
    }
}

#[test]
fn connections_that_are_never_accepted_fail_liveness_and_readiness_until_they_are() {
    for way in ENGINES {
        let runtime = runtime(1);
        let health =
            limited(|health| health.accept_within(Duration::from_millis(200), Duration::from_millis(200)));
        let (control, mut handed, addr) = start(&runtime, way, &health);
        let _client = ask_for_the_program(addr);
        runtime.block_on(until("it is detected", || probes(addr) == FAILED));
        let _connection = runtime.block_on(handed.accept()).unwrap();
        assert_eq!(probes(addr), LIVE, "nothing waits");
        runtime.block_on(control.stop()).unwrap();
    }
}

/// Workers that poll continuously are not reported as blocked. A worker that blocks is reported
/// until it returns.
#[test]
fn one_blocked_worker_of_two_is_not_alive_and_a_busy_one_is() {
    const BUSY: Duration = Duration::from_secs(8);
    let runtime = runtime(2);
    // The limit of 6 s is longer than a loaded machine delays a heartbeat.
    let health = limited(|health| health.stalled_after(Duration::from_secs(6), Duration::from_secs(6)));
    let (control, _handed, addr) = start(&runtime, ENGINES[0], &health);
    let until_then = Instant::now() + BUSY;
    for _ in 0..2 {
        runtime.spawn(async move {
            while Instant::now() < until_then {
                let poll = Instant::now() + Duration::from_millis(1);
                while Instant::now() < poll {
                    std::hint::spin_loop();
                }
                tokio::task::yield_now().await;
            }
        });
    }
    while Instant::now() < until_then {
        assert_eq!(status(addr, "/livez"), Ok(200), "it polls");
        std::thread::sleep(Duration::from_millis(50));
    }

    let (go, gone) = channel::<()>();
    let (began, begins) = channel();
    let blocked = runtime.spawn(async move {
        began.send(()).unwrap();
        // Blocking like this is a mistake in async code.
        let _end = gone.recv();
    });
    begins.recv().unwrap();
    let start = Instant::now();
    runtime.block_on(until("it is detected", || status(addr, "/livez") == Ok(503)));
    assert!(start.elapsed() > Duration::from_secs(5), "not reported while it could be one long poll");
    drop(go);
    runtime.block_on(blocked).unwrap();
    runtime.block_on(until("it is alive again", || status(addr, "/livez") == Ok(200)));
    runtime.block_on(control.stop()).unwrap();
}
