//! Promise: probes are served while the runtime is blocked, within 5 ms at p99, and report that it
//! is blocked; served probes do not wake the runtime.
//!
//! The limit is asserted only with `DOORBELL_FULL=1`, because other programs use the processor too.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]
#![expect(clippy::disallowed_methods, reason = "the test blocks a runtime and measures time")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use doorbell::{Descriptors, Engine};
use doorbell_tokio::Embed;
use tokio::runtime::{Builder, Runtime};

use doorbell_testkit::figures::at_most;

use crate::common::{
    ENGINES, alone, builder, limited, ready, serve_unique, sized, status, without_heartbeat,
};

/// Time after which the program counts as stuck.
const LIMIT: Duration = Duration::from_millis(500);

/// The promise.
const P99_MAX: Duration = Duration::from_millis(5);

/// The reply to a probe, when it was sent, and how long it took.
#[derive(Debug)]
struct ProbeResult {
    at: Duration,
    status: u16,
    took: Duration,
}

fn probe_for(addr: SocketAddr, time: Duration) -> Vec<ProbeResult> {
    let start = Instant::now();
    let mut results = Vec::new();
    while start.elapsed() < time {
        let at = start.elapsed();
        let status = status(addr, "/livez").unwrap();
        results.push(ProbeResult { at, status, took: start.elapsed() - at });
        std::thread::sleep(Duration::from_millis(2));
    }
    results
}

/// A runtime, and a function that blocks all its threads for a time.
type Blocked = (Runtime, fn(&Runtime, Duration));

/// A runtime with a single thread.
fn one_thread() -> Blocked {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    (runtime, |runtime, time| runtime.block_on(async { std::thread::sleep(time) }))
}

/// A runtime with two workers; the thread that waits for them is not one of them.
fn two_workers() -> Blocked {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    (runtime, |runtime, time| {
        // The barrier keeps the tasks on different workers: neither ends before both have begun.
        let both = Arc::new(Barrier::new(2));
        let until = Instant::now() + time;
        let blocks = [(); 2].map(|()| {
            let both = Arc::clone(&both);
            runtime.spawn(async move {
                both.wait();
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            })
        });
        runtime.block_on(async {
            for block in blocks {
                block.await.unwrap();
            }
        });
    })
}

/// Results of probes while a runtime is blocked. Also checks that the runtime recovers.
fn probe_while_blocked(
    (runtime, block): &Blocked,
    way: (Engine, Descriptors),
    blocked: Duration,
) -> Vec<ProbeResult> {
    let health = limited(|health| health.stalled_after(LIMIT, LIMIT));
    let (control, _handed) =
        runtime.block_on(async { Embed::new(builder(way, &health)).health(&health).start() });
    let addr = runtime.block_on(ready(&control, way));
    let prober = std::thread::spawn(move || probe_for(addr, blocked));
    block(runtime, blocked + Duration::from_millis(100));
    let results = prober.join().unwrap();
    // When the runtime stops, its last tick may be as old as the tick interval. The monitoring
    // thread may also wait for a processor.
    for ProbeResult { at, status, took } in &results {
        if *at + *took < LIMIT / 2 {
            assert_eq!(*status, 200, "{way:?}: at {at:?} it is too early to detect");
        } else if *at > LIMIT * 2 {
            assert_eq!(*status, 503, "{way:?}: at {at:?} a stuck runtime is not alive");
        }
    }
    assert!(
        results.iter().any(|result| result.at > LIMIT * 2),
        "{way:?}: it was blocked long enough to be detected"
    );
    // The runtime runs again, so liveness must recover.
    runtime.block_on(crate::common::until("it is alive again", || status(addr, "/livez") == Ok(200)));
    runtime.block_on(control.stop()).unwrap();
    results
}

fn p99(results: &[ProbeResult]) -> Duration {
    let mut took: Vec<_> = results.iter().map(|result| result.took).collect();
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

#[test]
fn probes_during_a_blocked_runtime_are_served_in_time_and_fail_after_the_limit() {
    let _turn = alone();
    let blocked = sized(Duration::from_millis(1_200), Duration::from_secs(5));
    for way in ENGINES {
        for runtime in [one_thread, two_workers] {
            let p99 = p99(&probe_while_blocked(&runtime(), way, blocked));
            at_most(format_args!("{way:?}: p99 of probes while the runtime is blocked"), p99, P99_MAX);
        }
    }
}

/// Two servers with one health, each in its own runtime.
#[test]
fn a_runtime_that_lives_does_not_hide_one_that_is_stuck() {
    let _turn = alone();
    let way = ENGINES[0];
    let health = limited(|health| health.stalled_after(LIMIT, LIMIT));
    let start = |runtime: &Runtime| {
        let (control, handed) =
            runtime.block_on(async { Embed::new(builder(way, &health)).health(&health).start() });
        let addr = runtime.block_on(ready(&control, way));
        (control, handed, addr)
    };
    let (stuck, block) = one_thread();
    let lives = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (start(&stuck), start(&lives));
    let addrs = [first.2, second.2];
    let prober = std::thread::spawn(move || {
        std::thread::sleep(LIMIT * 2);
        addrs.map(|addr| status(addr, "/livez"))
    });
    block(&stuck, LIMIT * 3);
    assert_eq!(prober.join().unwrap(), [Ok(503), Ok(503)], "half of the program is stuck");
    // The runtime of a server that has ended need not tick.
    stuck.block_on(first.0.stop()).unwrap();
    drop(stuck);
    std::thread::sleep(LIMIT + Duration::from_millis(200));
    assert_eq!(status(second.2, "/livez"), Ok(200));
    lives.block_on(second.0.stop()).unwrap();
}

/// Checks continue to run on the runtime.
#[test]
fn a_stuck_runtime_is_not_alive_after_its_server_has_ended() {
    let _turn = alone();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let health = limited(|health| health.stalled_after(LIMIT, LIMIT).runtime(handle));
    let (control, _handed) =
        runtime.block_on(async { Embed::new(builder(ENGINES[0], &health)).health(&health).start() });
    runtime.block_on(control.stop()).unwrap();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let blocks = runtime.spawn(async move { ended.recv() });
    crate::common::eventually("it is reported", || !health.is_live());
    end.send(()).unwrap();
    crate::common::eventually("it is alive again", || health.is_live());
    runtime.block_on(blocks).unwrap().unwrap();
}

/// The other worker serves the heartbeat, so only the statistics of the workers show the blocked
/// one.
#[test]
fn one_blocked_worker_of_two_fails_readiness_and_is_named() {
    let _turn = alone();
    let (runtime, _) = two_workers();
    let (ready_limit, never) = (Duration::from_millis(1_500), Duration::from_secs(600));
    let health = limited(|health| health.stalled_after(ready_limit, never));
    let way = ENGINES[0];
    let (control, _handed) =
        runtime.block_on(async { Embed::new(builder(way, &health)).health(&health).start() });
    let addr = runtime.block_on(ready(&control, way));
    health.set_ready(true);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let blocks = runtime.spawn(async move { ended.recv() });
    runtime.block_on(crate::common::until("it is reported", || {
        let request = b"GET /readyz?verbose HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let bytes = doorbell_testkit::peers::exchange(addr, request).unwrap().bytes;
        let text = String::from_utf8(bytes).unwrap();
        text.starts_with("HTTP/1.1 503 ") && text.contains("of the runtime is blocked")
    }));
    assert_eq!(status(addr, "/livez"), Ok(200), "it has a limit of its own");
    end.send(()).unwrap();
    runtime.block_on(crate::common::until("it is ready again", || status(addr, "/readyz") == Ok(200)));
    runtime.block_on(blocks).unwrap().unwrap();
    runtime.block_on(control.stop()).unwrap();
}

#[test]
fn a_runtime_that_is_gone_is_not_alive() {
    let _turn = alone();
    for way in ENGINES {
        let (runtime, _) = one_thread();
        let health =
            limited(|health| health.stalled_after(Duration::from_millis(200), Duration::from_millis(200)));
        let (control, _handed) =
            runtime.block_on(async { Embed::new(builder(way, &health)).health(&health).start() });
        let addr = runtime.block_on(ready(&control, way));
        assert_eq!(status(addr, "/livez"), Ok(200));
        drop(runtime);
        let fails = |_| {
            std::thread::sleep(Duration::from_millis(10));
            status(addr, "/livez") == Ok(503)
        };
        assert!((0..2_000).any(fails), "{way:?}");
    }
}

/// A runtime that serves handed-over connections sleeps while probes are served. The heartbeat is
/// disabled, because it wakes the runtime.
#[test]
fn an_idle_runtime_sleeps_through_served_probes() {
    let _turn = alone();
    for way in ENGINES {
        for workers in [None, Some(2)] {
            let wake_ups = Arc::new(AtomicU64::new(0));
            let mut builder =
                workers.map_or_else(Builder::new_current_thread, |_| Builder::new_multi_thread());
            if let Some(workers) = workers {
                builder.worker_threads(workers);
            }
            let counter = Arc::clone(&wake_ups);
            builder.enable_all().on_thread_unpark(move || {
                counter.fetch_add(1, Ordering::SeqCst);
            });
            let runtime = builder.build().unwrap();
            sleeps_through_probes(&runtime, way, &wake_ups);
        }
    }
}

fn sleeps_through_probes(runtime: &Runtime, way: (Engine, Descriptors), wake_ups: &AtomicU64) {
    let health = without_heartbeat();
    let (control, handed) = runtime.block_on(async { Embed::new(builder(way, &health)).start() });
    let addr = runtime.block_on(ready(&control, way));
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        // This thread drives the runtime, which waits for connections.
        let driven = scope.spawn(|| {
            runtime.block_on(async {
                tokio::spawn(serve_unique(handed));
                ended.await.unwrap();
            });
        });
        // Waits until 100 ms pass without a wake-up of the runtime.
        let settled = (0..100).any(|_| {
            let before = wake_ups.load(Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(100));
            wake_ups.load(Ordering::SeqCst) == before
        });
        assert!(settled, "{way:?}: it never sleeps");
        let before = wake_ups.load(Ordering::SeqCst);
        for _ in 0..1_000 {
            assert_eq!(status(addr, "/livez"), Ok(200));
        }
        assert_eq!(wake_ups.load(Ordering::SeqCst), before, "{way:?}: 1,000 probes");
        // A hand-over does wake it, which shows that the counter works.
        assert_eq!(status(addr, "/unique/00000000000000ff/40"), Ok(200));
        assert!(wake_ups.load(Ordering::SeqCst) > before, "{way:?}");
        end.send(()).unwrap();
        driven.join().unwrap();
    });
    runtime.block_on(control.stop()).unwrap();
}

/// Counts wake-ups.
#[derive(Default)]
struct Counting(AtomicU64);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_served_probe_wakes_no_task_and_a_batch_wakes_once() {
    let _turn = alone();
    for way in ENGINES {
        let (runtime, _) = one_thread();
        let _context = runtime.enter();
        let health = without_heartbeat();
        let (control, mut handed) = Embed::new(builder(way, &health)).start();
        let addr = runtime.block_on(ready(&control, way));
        let count = Arc::new(Counting::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        assert!(handed.poll_accept(&mut cx).is_pending());
        for _ in 0..1_000 {
            assert_eq!(status(addr, "/livez"), Ok(200));
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 0, "{way:?}");

        // A task that is already awake is not woken again.
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
