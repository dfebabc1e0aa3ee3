//! Promise: jobs that keep every thread busy delay no probe, and no answer is lost or reaches another client.
//!
//! Does not know about: what jobs do; here each holds its thread for 10 ms.
#![cfg(feature = "rayon")]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "latency is real time, figures are shown, and helpers of tests may panic"
)]

mod promise;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell::{Answered, Engine, Http1, Offload, Reply, Request, Responder, Server, StaticReply, Status};
use doorbell_testkit::peers::{End, Exchange, Shape, Unique, exchange, percentile};

use promise::{addr, alone, anywhere, builder, on_both_engines, sized, workers};

on_both_engines! {
    probes_do_not_wait_for_jobs
}

/// Clients that ask for jobs, each with one at a time: more than the pool can run.
const ASKING: u64 = 4;

const ROUNDS_MAX: u64 = 6;

/// `/unique/ID/LEN` after 10 ms of work; everything else at once.
fn serve(engine: Engine) -> Server {
    let jobs = Offload::builder().build().unwrap();
    let alive = StaticReply::text(Status::OK, "ok\n");
    let service = move |request: &Request<'_>, reply: Responder<'_>| -> Answered {
        let Some(unique) = Unique::parse(request.path()) else { return reply.send(&alive) };
        jobs.run(request, reply, move || {
            let until = Instant::now() + Duration::from_millis(10);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            Reply::text(Status::OK, unique.body())
        })
    };
    builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(service)).start().unwrap()
}

fn probes(server: &Server, count: usize) -> Vec<Duration> {
    let probe = |_| {
        let begun = Instant::now();
        let got = Shape::Kubelet.probe(addr(server), "/livez").unwrap();
        let took = begun.elapsed();
        assert!(got.end == End::Fin && got.bytes.ends_with(b"ok\n"), "{got:?}");
        // Probes come one at a time, with a pause.
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
        assert_eq!(unique.foreign(body, 0), 0, "an answer that is somebody else's");
        asked += 1;
    }
    asked
}

/// Whatever else this machine does can only make probes slower: the best of a few rounds is judged.
fn probes_do_not_wait_for_jobs(engine: Engine) {
    let _turn = alone();
    let server = serve(engine);
    let mut answered = 0;
    let best = (0..ROUNDS_MAX).map(|round| {
        let ratio = compare(&server, round, &mut answered);
        eprintln!("{engine:?}: p99 beside jobs is {ratio:.2} times the p99 of an idle server");
        ratio
    });
    let kept = best.into_iter().any(|ratio| ratio <= 2.0);
    let stats = server.stats();
    assert_eq!((stats.jobs_queued, stats.jobs_refused, stats.answers_dropped), (answered, 0, 0), "{stats:?}");
    assert!(kept, "probes wait for jobs");
    server.stop().unwrap();
}

fn compare(server: &Server, round: u64, answered: &mut u64) -> f64 {
    let count = sized(400, 20_000);
    let mut idle = probes(server, count);
    let stop = AtomicBool::new(false);
    let mut busy = thread::scope(|scope| {
        let ask = |asker| {
            let stop = &stop;
            scope.spawn(move || ask_for_jobs(server, (round * 100 + asker) << 32, stop))
        };
        let askers: Vec<_> = (0..ASKING).map(ask).collect();
        let busy = probes(server, count);
        stop.store(true, Ordering::Relaxed);
        *answered += askers.into_iter().map(|asker| asker.join().unwrap()).sum::<u64>();
        busy
    });
    let ratio = percentile(&mut busy, 99.0).as_secs_f64() / percentile(&mut idle, 99.0).as_secs_f64();
    eprintln!("p50 {:?} idle, {:?} beside jobs", percentile(&mut idle, 50.0), percentile(&mut busy, 50.0));
    ratio
}
