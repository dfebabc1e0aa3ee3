//! `Auto`: a cheap handler moves to the ring thread, and moves back to jobs with the first
//! expensive run.

#![expect(clippy::disallowed_methods, reason = "expensive work takes time")]

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use doorbell::offload::{Auto, JobReply, Offload, ROW_MIN};
use doorbell::{Engine, Http1, Reply, Server, Status, service_fn};

use crate::hand::{Hand, get, reply, send};
use crate::promise::{self, anywhere, on_both_engines, workers};
use std::io::Write as _;

on_both_engines! {
    cheap_work_moves_to_the_ring_thread_until_the_first_expensive_run
    a_zero_limit_keeps_all_work_in_jobs
}

/// A limit far above the time of cheap work on a busy machine, and far below the time of expensive
/// work.
const LIMIT: Duration = Duration::from_millis(20);
const DEAR: Duration = Duration::from_millis(60);

/// Maximum number of runs until work moves to the ring thread; far more consecutive cheap runs than
/// this test requires.
const RUNS_MAX: u32 = 5_000;

struct Bench {
    hand: Hand,
    auto: Auto,
    dear: Arc<AtomicBool>,
    server: Server,
}

/// Starts one worker whose replies contain the name of the thread that did the work.
fn bench(engine: Engine, limit: Duration) -> Bench {
    let (hand, dear) = (Hand::default(), Arc::new(AtomicBool::new(false)));
    let auto = Offload::builder().build_on(hand.clone()).auto().limit(limit);
    let service = {
        let (auto, dear) = (auto.clone(), Arc::clone(&dear));
        service_fn(move |request, reply| {
            let dear = Arc::clone(&dear);
            let then = request.path() == "/then";
            auto.run(request, reply, move || {
                if dear.load(Ordering::SeqCst) {
                    thread::sleep(DEAR);
                }
                let name = thread::current().name().unwrap_or_default().to_owned();
                match then {
                    true => JobReply::then(|reply| reply.status(Status::ACCEPTED).content(name)),
                    false => Reply::text(Status::OK, name).into(),
                }
            })
        })
    };
    let server = promise::builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(service));
    Bench { hand, auto, dear, server: server.start().unwrap() }
}

impl Bench {
    /// Sends a request and runs its job, if there is one. Returns the status, the name of the
    /// thread, and whether there was a job.
    fn ask(&self, stream: &mut TcpStream, path: &str) -> (u16, String, bool) {
        let away = !self.auto.is_at_home();
        stream.write_all(&get(path)).unwrap();
        if away {
            self.hand.run_one();
        }
        let got = reply(stream);
        (got.status, String::from_utf8(got.body).unwrap(), away)
    }
}

fn cheap_work_moves_to_the_ring_thread_until_the_first_expensive_run(engine: Engine) {
    let bench = bench(engine, LIMIT);
    let here = thread::current().name().unwrap_or_default().to_owned();
    let mut stream = send(&bench.server, b"");
    for failures in 0..2 {
        let mut jobs = 0;
        while !bench.auto.is_at_home() {
            assert_eq!(bench.ask(&mut stream, "/"), (200, here.clone(), true));
            jobs += 1;
            assert!(jobs < RUNS_MAX, "cheap work never moved to the ring thread");
        }
        assert!(
            jobs >= ROW_MIN << failures,
            "moved to the ring thread after only {jobs} consecutive cheap jobs"
        );
        let queued = bench.server.stats().jobs_queued;
        // A run that was interrupted for longer than the limit counts as expensive and ends this
        // count early. The next round repeats the count.
        let at_home = (0..100).take_while(|_| bench.auto.is_at_home()).fold(0, |count, _| {
            let (status, thread_name, _) = bench.ask(&mut stream, "/then");
            assert_eq!(status, 202);
            assert!(
                thread_name != here && thread_name.starts_with("doorbell"),
                "a ring thread did the work: {thread_name}"
            );
            count + 1
        });
        assert!(at_home > 0);
        assert_eq!(bench.server.stats().jobs_queued, queued, "work on the ring thread queues no job");

        bench.dear.store(true, Ordering::SeqCst);
        if bench.auto.is_at_home() {
            assert_ne!(bench.ask(&mut stream, "/").1, here, "the first expensive run is on the ring thread");
        }
        assert!(!bench.auto.is_at_home(), "only one expensive run is on the ring thread");
        assert_eq!(bench.ask(&mut stream, "/"), (200, here.clone(), true), "the next is a job");
        bench.dear.store(false, Ordering::SeqCst);
    }
}

fn a_zero_limit_keeps_all_work_in_jobs(engine: Engine) {
    let bench = bench(engine, Duration::ZERO);
    let mut stream = send(&bench.server, b"");
    for _ in 0..2 * ROW_MIN {
        assert!(bench.ask(&mut stream, "/").2);
    }
    assert_eq!(bench.server.stats().jobs_queued, u64::from(2 * ROW_MIN));
}
