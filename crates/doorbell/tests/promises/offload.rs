//! Promise: jobs that keep all threads busy delay no probe, and no reply is lost or reaches another
//! client.
#![cfg(feature = "rayon")]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "latency is real time, and helpers of tests may panic"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell::{Engine, Http1, Offload, Reply, Server, StaticReply, Status, service_fn};
use doorbell_testkit::figures::at_most;
use doorbell_testkit::peers::{End, Exchange, Shape, Unique, exchange, percentile};

use crate::promise::{addr, alone, anywhere, builder, on_both_engines, sized, workers};

on_both_engines! {
    probes_do_not_wait_for_jobs
}

/// Number of clients that request jobs, each one job at a time: more than the pool can run.
const ASKING: u64 = 4;

/// Number of rounds; odd, so that there is a median.
const ROUNDS: u64 = 7;
/// Maximum p99 of probes during jobs, relative to an idle server.
const SLOWER_MAX: f64 = 2.0;

/// Starts a server that replies to `/unique/ID/LEN` after a job of 10 ms, and to all other paths at
/// once.
fn serve(engine: Engine) -> Server {
    let jobs = Offload::builder().build().unwrap();
    let alive = StaticReply::text(Status::OK, "ok\n");
    let service = service_fn(move |request, reply| {
        let Some(unique) = Unique::parse(request.path()) else { return reply.send(&alive) };
        jobs.run(request, reply, move || {
            let until = Instant::now() + Duration::from_millis(10);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            Reply::text(Status::OK, unique.body())
        })
    });
    builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(service)).start().unwrap()
}

fn probes(server: &Server, count: usize) -> Vec<Duration> {
    let probe = |_| {
        let begun = Instant::now();
        let got = Shape::Kubelet.probe(addr(server), "/livez").unwrap();
        let took = begun.elapsed();
        assert!(got.end == End::Fin && got.bytes.ends_with(b"ok\n"), "{got:?}");
        // Probes are sent one at a time, with a pause.
        thread::sleep(Duration::from_micros(500));
        took
    };
    (0..count).map(probe).collect()
}

fn ask_for_jobs(server: &Server, first: u64, stop: &AtomicBool) -> u64 {
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        let unique = Unique { id: first + asked, len: 200 };
        let request = format!("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", unique.path());
        let Exchange { bytes, end, .. } = exchange(addr(server), request.as_bytes()).unwrap();
        assert!(bytes.starts_with(b"HTTP/1.1 200 ") && end == End::Fin, "{}", bytes.escape_ascii());
        let body = &bytes[bytes.len() - unique.len..];
        assert_eq!(unique.foreign(body, 0), 0, "a reply with bytes of another client");
        asked += 1;
    }
    asked
}

/// Every probe and every job gets a reply. Rounds alternate, and the median of their ratios is
/// compared, so that no single round decides.
fn probes_do_not_wait_for_jobs(engine: Engine) {
    let _turn = alone();
    let server = serve(engine);
    let mut answered = 0;
    let slower = median((0..sized(1, ROUNDS)).map(|round| compare(&server, round, &mut answered)));
    let stats = server.stats();
    assert_eq!((stats.jobs_queued, stats.jobs_refused, stats.answers_dropped), (answered, 0, 0), "{stats:?}");
    at_most(
        format_args!("{engine:?}: p99 of probes during jobs, relative to an idle server"),
        slower,
        SLOWER_MAX,
    );
    server.stop().unwrap();
}

/// Returns the p99 of one round during jobs, relative to an idle server.
fn compare(server: &Server, round: u64, answered: &mut u64) -> f64 {
    let count = sized(400, 20_000);
    let mut idle = probes(server, count);
    let mut beside_jobs = beside_jobs(server, round, answered, || probes(server, count));
    percentile(&mut beside_jobs, 99.0).as_secs_f64() / percentile(&mut idle, 99.0).as_secs_f64()
}

fn beside_jobs<R>(server: &Server, round: u64, answered: &mut u64, during: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let ask = |asker| {
            let stop = &stop;
            scope.spawn(move || ask_for_jobs(server, (round * 100 + asker) << 32, stop))
        };
        let askers: Vec<_> = (0..ASKING).map(ask).collect();
        let result = during();
        stop.store(true, Ordering::Relaxed);
        *answered += askers.into_iter().map(|asker| asker.join().unwrap()).sum::<u64>();
        result
    })
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = of.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
