//! Promise: probes are answered beside a blocked runtime, within 5 ms at p99, and tell that it is blocked; answered probes cost the
//! runtime no wake-up.
//!
//! Does not know about: what the program does. The 5 ms are exact behind `DOORBELL_FULL=1` and generous by default.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]
#![expect(clippy::disallowed_methods, reason = "the test blocks a runtime and measures time")]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use doorbell_tokio::{Embed, Health};

use common::{ENGINES, alone, builder, is_full, ready, sized, status};

/// When the program counts as stuck.
const LIMIT: Duration = Duration::from_millis(500);

/// What a probe said, when, and how long that took.
#[derive(Debug)]
struct Heard {
    at: Duration,
    status: u16,
    took: Duration,
}

fn probe_for(addr: SocketAddr, time: Duration) -> Vec<Heard> {
    let start = Instant::now();
    let mut heard = Vec::new();
    while start.elapsed() < time {
        let at = start.elapsed();
        let status = status(addr, "/livez").unwrap();
        heard.push(Heard { at, status, took: start.elapsed() - at });
        std::thread::sleep(Duration::from_millis(2));
    }
    heard
}

#[test]
fn probes_beside_a_blocked_runtime_are_answered_in_time_and_fail_after_the_limit() {
    let _turn = alone();
    let blocked = sized(Duration::from_millis(1_500), Duration::from_secs(5));
    for way in ENGINES {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let health = Health::new().stalled_after(LIMIT);
        let (control, _handed) =
            runtime.block_on(async { Embed::new(builder(way, &health)).health(&health).start() });
        let addr = runtime.block_on(ready(&control));
        let prober = std::thread::spawn(move || probe_for(addr, blocked));
        // The only thread of the runtime.
        runtime.block_on(async { std::thread::sleep(blocked + Duration::from_millis(100)) });
        let heard = prober.join().unwrap();

        let mut took: Vec<_> = heard.iter().map(|heard| heard.took).collect();
        took.sort_unstable();
        let p99 = took[took.len() * 99 / 100];
        let max = if is_full() { Duration::from_millis(5) } else { Duration::from_millis(100) };
        assert!(p99 <= max, "{way:?}: p99 {p99:?} of {}", took.len());

        // A tick may be as old as their interval when the runtime stops.
        for Heard { at, status, .. } in &heard {
            if *at < LIMIT / 2 {
                assert_eq!(*status, 200, "{way:?}: at {at:?} it is too early to tell");
            } else if *at > LIMIT + Duration::from_millis(200) {
                assert_eq!(*status, 503, "{way:?}: at {at:?} a stuck runtime is not alive");
            }
        }
        // It runs again: so it is alive again.
        runtime.block_on(common::until("it is alive again", || status(addr, "/livez") == Ok(200)));
        runtime.block_on(control.stop()).unwrap();
    }
}

#[test]
fn a_runtime_that_is_gone_is_not_alive() {
    let _turn = alone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let health = Health::new().stalled_after(Duration::from_millis(200));
    let (control, _handed) =
        runtime.block_on(async { Embed::new(builder(ENGINES[0], &health)).health(&health).start() });
    let addr = runtime.block_on(ready(&control));
    assert_eq!(status(addr, "/livez"), Ok(200));
    drop(runtime);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(status(addr, "/livez"), Ok(503));
}

/// Counts how often it was woken.
#[derive(Default)]
struct Counting(AtomicU64);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_answered_probe_wakes_nobody_and_a_batch_wakes_once() {
    let _turn = alone();
    for way in ENGINES {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _context = runtime.enter();
        let health = Health::new();
        let (control, mut handed) = Embed::new(builder(way, &health)).start();
        let addr = runtime.block_on(ready(&control));
        let count = Arc::new(Counting::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        assert!(handed.poll_accept(&mut cx).is_pending());
        for _ in 0..1_000 {
            assert_eq!(status(addr, "/livez"), Ok(200));
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 0, "{way:?}");

        // Whoever is awake already is not woken again.
        let clients: Vec<_> = (0..20)
            .map(|_| {
                let mut stream = std::net::TcpStream::connect(addr).unwrap();
                std::io::Write::write_all(&mut stream, b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                stream
            })
            .collect();
        while control.stats().handed_waiting < clients.len() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "{way:?}: one wake-up for the first batch");
        let mut taken = Vec::new();
        while let Poll::Ready(Some(connection)) = handed.poll_accept(&mut cx) {
            assert_eq!(connection.stream.preread(), b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n");
            taken.push(connection);
        }
        assert_eq!(taken.len(), clients.len());
        assert_eq!(control.stats().handed_out as usize, clients.len());
        drop(taken);
        assert_eq!(control.stats().handed_out, 0);
        runtime.block_on(control.stop()).unwrap();
        assert!(matches!(handed.poll_accept(&mut cx), Poll::Ready(None)), "no more will come");
    }
}
