//! Cost of the access log on the thread that serves requests, and on the writer's thread.
//!
//! `cargo bench -p doorbell-benches --bench logger`. Records are logged in bursts, and no row
//! includes the time to empty the queues between bursts. The figures are medians of three criterion
//! runs on a two-core virtual machine with a dozen other busy threads, so they are upper bounds.
//! `instructions/log.rs` has exact counts.
//!
//! | row | time | what |
//! |---|---|---|
//! | `off, a success` | 2 to 4 ns | |
//! | `errors, a success` | 4 to 5 ns | cost of a probe by default |
//! | `errors and one in 1000, a success` | 57 to 70 ns | nearly all of it the search for `User-Agent` |
//! | `all/kubelet` | 52 to 53 ns | creates (38 ns) and queues the record; the goal is 60 ns, and the Go server Flint takes 497 ns |
//! | `all/browser` | 68 to 71 ns | the second half of the record uses a separate queue |
//! | `all/two threads, a queue each` | 56 to 59 ns | the same as one thread |
//! | `all/two threads, one queue (not used)` | 55 to 104 ns | whole records; the time increases with contention |
//! | `first record after a rest` | 15 to 17 us | includes a wake-up, which is why not every record wakes the writer |
//! | `dropped` | 98 to 104 ns | the log is stopped or the queue is full |
//! | `render/text`, `render/json` | 395 to 433 ns, 504 to 536 ns | on the writer's thread |
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock and waits")]

use std::hint::black_box;
use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use crossbeam_queue::ArrayQueue;
use doorbell::access_log::{AccessLog, LogSink, LogTarget};
use doorbell_benches::{BROWSER, PROBE};
use doorbell_http::log::{Entry, Epoch, Filter, Format, Logger, Record, Renderer, Sink};
use doorbell_http::parse::Head;
use doorbell_http::{Client, Limits, Request, Status, Time};

/// Records in a burst. After each burst the queues are emptied.
const BURST: u64 = 1024;

/// The rejected alternative: one queue for all threads. The bench empties it between bursts.
struct SharedQueue(ArrayQueue<Record>);

impl Sink for SharedQueue {
    fn log(&self, record: &Record) {
        let _ = self.0.push(*record);
    }
}

/// A target that discards records, to measure only their creation.
struct Nowhere;

impl Sink for Nowhere {
    fn log(&self, record: &Record) {
        black_box(record);
    }
}

fn with_request<T>(bytes: &[u8], f: impl FnOnce(&Request<'_>) -> T) -> T {
    let mut head = Head::new();
    assert_eq!(head.parse(bytes, &Limits::default()), Ok(Some(bytes.len())));
    let client = Client::at([192, 0, 2, 7].into());
    f(&Request::new(bytes, &head, b"").from_client(&client, Time::from_nanos(1), 0))
}

fn entry<'a>(request: &'a Request<'a>, status: Status) -> Entry<'a> {
    Entry { status: Some(status), content_len: 3, ..Entry::unanswered(request) }
}

/// Logs in bursts. `settle` empties the queues after each burst; its time does not count.
fn bursts(requests: u64, log: &mut dyn FnMut(), settle: &dyn Fn()) -> Duration {
    let (mut left, mut spent) = (requests, Duration::ZERO);
    while left > 0 {
        let burst = left.min(BURST);
        let start = Instant::now();
        for _ in 0..burst {
            log();
        }
        spent += start.elapsed();
        left -= burst;
        settle();
    }
    spent
}

/// Waits until the writer has written all of the `sent` records.
fn wait_for(sink: &LogSink, sent: u64) {
    while sink.counters().written < sent {
        std::thread::sleep(Duration::from_micros(100));
    }
    assert_eq!(sink.counters().dropped, 0, "no record may be dropped, because that costs less");
}

fn start_log() -> AccessLog {
    AccessLog::builder(LogTarget::Writer(Box::new(io::sink()))).start().expect("a thread can be started")
}

fn ring_side(c: &mut Criterion) {
    for (name, bytes) in [("kubelet", PROBE), ("browser", BROWSER)] {
        with_request(bytes, |request| {
            c.bench_function(&format!("logger/record/{name}"), |b| {
                let logger = Logger::new(Filter::ALL, Nowhere);
                b.iter(|| logger.answered(black_box(&entry(request, Status::OK))));
            });
            c.bench_function(&format!("logger/all/{name}"), |b| {
                let log = start_log();
                let (sink, logger) = (log.sink(), Logger::new(Filter::ALL, log.sink()));
                b.iter_custom(|requests| {
                    let mut sent = sink.counters().written;
                    let sent = std::cell::Cell::from_mut(&mut sent);
                    let mut one = || {
                        logger.answered(black_box(&entry(request, Status::OK)));
                        sent.set(sent.get() + 1);
                    };
                    bursts(requests, &mut one, &|| wait_for(&sink, sent.get()))
                });
            });
            for (filter_name, filter) in [
                ("off", Filter::OFF),
                ("errors", Filter::ERRORS),
                ("errors and one in 1000", Filter::ERRORS.one_in(NonZeroU32::new(1000).expect("not zero"))),
            ] {
                c.bench_function(&format!("logger/{filter_name}, a success/{name}"), |b| {
                    let logger = Logger::new(filter, Nowhere);
                    b.iter(|| logger.answered(black_box(&entry(request, Status::OK))));
                });
            }
        });
    }
}

/// Two threads that log concurrently: with a queue each, and with a shared one.
fn two_threads(c: &mut Criterion) {
    with_request(PROBE, |request| {
        c.bench_function("logger/all/two threads, a queue each", |b| {
            let log = start_log();
            let sink = log.sink();
            let before = |_: u64| sink.counters().written;
            b.iter_custom(|requests| {
                let start = before(requests);
                let logged = Mutex::new(start);
                together(requests, &log.sink(), request, &|burst| {
                    let mut logged = logged.lock().expect("no panic");
                    *logged += burst;
                    wait_for(&sink, *logged);
                })
            });
        });
        c.bench_function("logger/all/two threads, one queue (not used)", |b| {
            let queue = Arc::new(SharedQueue(ArrayQueue::new(4096)));
            b.iter_custom(|requests| {
                together(requests, &Arc::clone(&queue), request, &|_| {
                    while queue.0.pop().is_some_and(|record| black_box(record).content_len() == 3) {}
                })
            });
        });
    });
}

/// Mean time of two threads that log `requests` records each. `settle` gets the number of records
/// since its last call.
fn together<K: Sink + Sync>(
    requests: u64,
    sink: &K,
    request: &Request<'_>,
    settle: &(dyn Fn(u64) + Sync),
) -> Duration {
    let barrier = Barrier::new(2);
    let run = |leads: bool| {
        let logger = Logger::new(Filter::ALL, sink);
        let (mut left, mut spent) = (requests, Duration::ZERO);
        while left > 0 {
            let burst = left.min(BURST);
            barrier.wait();
            let start = Instant::now();
            for _ in 0..burst {
                logger.answered(black_box(&entry(request, Status::OK)));
            }
            spent += start.elapsed();
            left -= burst;
            barrier.wait();
            if leads {
                settle(2 * burst);
            }
        }
        spent
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(false));
        let spent = run(true);
        (spent + other.join().expect("no panic")) / 2
    })
}

/// Cost of exceptional cases.
fn exceptions(c: &mut Criterion) {
    with_request(PROBE, |request| {
        c.bench_function("logger/first record after a rest", |b| {
            let log = start_log();
            let (sink, logger) = (log.sink(), Logger::new(Filter::ALL, log.sink()));
            b.iter_custom(|requests| {
                let mut spent = Duration::ZERO;
                for _ in 0..requests {
                    let wakes = sink.counters().wakes;
                    // The pause is longer than the time for which the writer stays awake.
                    std::thread::sleep(Duration::from_millis(150));
                    let start = Instant::now();
                    logger.answered(black_box(&entry(request, Status::OK)));
                    spent += start.elapsed();
                    assert!(sink.counters().wakes <= wakes + 1);
                }
                spent
            });
        });
        c.bench_function("logger/dropped", |b| {
            let log = start_log();
            let sink = log.sink();
            assert!(log.stop(Duration::from_secs(1)));
            let logger = Logger::new(Filter::ALL, sink);
            b.iter(|| logger.answered(black_box(&entry(request, Status::OK))));
        });
    });
}

fn writer_side(c: &mut Criterion) {
    for (format, name) in [(Format::Text, "text"), (Format::Json, "json")] {
        with_request(BROWSER, |request| {
            let (record, renderer) = (Record::answered(&entry(request, Status::OK)), Renderer::new(format));
            let mut out = Vec::with_capacity(4096);
            c.bench_function(&format!("logger/render/{name}"), |b| {
                b.iter(|| {
                    out.clear();
                    renderer.render(black_box(&record), Epoch::default(), &mut out);
                    out.len()
                });
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = ring_side, two_threads, exceptions, writer_side
}
criterion_main!(benches);
