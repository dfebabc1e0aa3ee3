//! Tests the writer: batches, retries, a change of the store, shutdown, and an unreachable store.

use doorbell_history::{
    Batch, CheckResult, Counter, CounterName, History, Kind, Minute, Options, Row, Store, StoreError, Writer,
};
use doorbell_testkit::peers;
use doorbell_testkit::peers::process::rss_anon_bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const OPTIONS: Options = Options { interval: Duration::from_millis(10), timeout: Duration::from_secs(5) };
const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
fn await_that(done: impl FnMut() -> bool) {
    assert!(peers::wait_until(LIMIT, done).is_some(), "not within {LIMIT:?}");
}

/// A store in memory.
#[derive(Clone, Default)]
struct Memory(Arc<MemoryState>);

#[derive(Default)]
struct MemoryState {
    batches: Mutex<Vec<Vec<u64>>>,
    is_away: AtomicBool,
    refuses: AtomicBool,
    hangs: AtomicBool,
    /// Maximum number of rows of a batch, and a row that is too large by itself; 0: no limit.
    rows_max: AtomicUsize,
    large_row: AtomicU64,
    inserts: AtomicUsize,
}

impl Memory {
    fn numbers(&self) -> Vec<u64> {
        self.0.batches.lock().expect("no panic").concat()
    }
}

impl Store for Memory {
    async fn check(&self) -> Result<(), StoreError> {
        match self.0.is_away.load(Ordering::Relaxed) {
            true => Err(StoreError::Unavailable("unavailable".to_owned())),
            false => Ok(()),
        }
    }

    async fn insert(&self, batch: &Batch) -> Result<(), StoreError> {
        self.0.inserts.fetch_add(1, Ordering::Relaxed);
        if self.0.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.0.refuses.swap(false, Ordering::Relaxed) {
            return Err(StoreError::Refused("bad".to_owned()));
        }
        let rows_max = self.0.rows_max.load(Ordering::Relaxed);
        let large_row = self.0.large_row.load(Ordering::Relaxed);
        let is_large = |row: &Row| large_row > 0 && number(row) == large_row;
        if (rows_max > 0 && batch.rows().len() > rows_max) || batch.rows().iter().any(is_large) {
            return Err(StoreError::TooLarge("HTTP 413".to_owned()));
        }
        self.check().await?;
        self.0.batches.lock().expect("no panic").push(batch.rows().iter().map(number).collect());
        Ok(())
    }
}

fn number(row: &Row) -> u64 {
    match row {
        Row::Increments(row) => u64::from(row.counts[0]),
        Row::Minute(row) => row.minute,
        Row::Result(row) => row.at_ms,
        other => panic!("{other:?}"),
    }
}

fn result(number: u64) -> Row {
    let (check, reason) = ("db".into(), "".into());
    Row::Result(CheckResult { at_ms: number, check, outcome: "success", latency_us: 1, weight: 1, reason })
}

const fn time_of_day() -> Duration {
    Duration::from_secs(1_800_000_000)
}

fn start(history: &Arc<History>, store: &Memory) -> Writer<Memory> {
    Writer::start(Arc::clone(history), store.clone(), OPTIONS, time_of_day, Vec::new).expect("a thread")
}

#[test]
fn rows_are_written_once_and_in_batches() {
    let (history, store) = (Arc::new(History::new(1 << 20, 100)), Memory::default());
    let writer = start(&history, &store);
    (0..1_000).for_each(|number| history.push(result(number)));
    await_that(|| store.numbers().len() == 1_000);
    writer.stop();
    assert_eq!(store.numbers(), (0..1_000).collect::<Vec<_>>());
    assert!(store.0.batches.lock().unwrap().iter().all(|batch| batch.len() <= 100));
    let stats = history.stats();
    assert_eq!((stats.sum(|counts| counts.written), stats.batches_failed, stats.bytes_live), (1_000, 0, 0));
}

#[test]
fn rows_wait_for_an_unreachable_store() {
    let (history, store) = (Arc::new(History::new(1 << 20, 100)), Memory::default());
    store.0.is_away.store(true, Ordering::Relaxed);
    let writer = start(&history, &store);
    (0..10).for_each(|number| history.push(result(number)));
    await_that(|| history.stats().batches_failed > 1);
    assert_eq!(history.stats().failure.as_deref(), Some("unavailable"));
    store.0.is_away.store(false, Ordering::Relaxed);
    await_that(|| history.stats().failure.is_none());
    writer.stop();
    assert_eq!(store.numbers(), (0..10).collect::<Vec<_>>());
    assert_eq!(history.stats().sum(|counts| counts.dropped()), 0);
}

#[test]
fn rows_that_a_store_refuses_are_dropped_and_counted() {
    let (history, store) = (Arc::new(History::new(1 << 20, 4)), Memory::default());
    store.0.refuses.store(true, Ordering::Relaxed);
    (0..10).for_each(|number| history.push(result(number)));
    let writer = start(&history, &store);
    await_that(|| history.stats().sum(|counts| counts.live) == 0);
    writer.stop();
    assert_eq!(store.numbers(), (4..10).collect::<Vec<_>>());
    let counts = history.stats().rows[Kind::Result as usize];
    assert_eq!((counts.refused, counts.written), (4, 6));
}

#[test]
fn batches_that_are_too_large_are_sent_in_parts() {
    let (history, store) = (Arc::new(History::new(1 << 20, 100)), Memory::default());
    store.0.rows_max.store(30, Ordering::Relaxed);
    store.0.large_row.store(77, Ordering::Relaxed);
    (0..200).for_each(|number| history.push(result(number)));
    // All rows are written by the flush at the end.
    let long = Options { interval: Duration::from_secs(3_600), ..OPTIONS };
    Writer::start(Arc::clone(&history), store.clone(), long, time_of_day, Vec::new).unwrap().stop();
    assert_eq!(store.numbers(), (0..200).filter(|number| *number != 77).collect::<Vec<_>>());
    let stats = history.stats();
    let counts = stats.rows[Kind::Result as usize];
    assert_eq!((counts.refused, counts.written, counts.live), (1, 199, 0));
    assert!(stats.batches_failed > 2 && stats.bytes_live == 0, "{stats:?}");
}

#[test]
fn another_store_gets_the_rows_in_the_buffer() {
    for is_hung in [false, true] {
        let history = Arc::new(History::new(1 << 20, 100));
        let (first, second) = (Memory::default(), Memory::default());
        (if is_hung { &first.0.hangs } else { &first.0.is_away }).store(true, Ordering::Relaxed);
        let slow = Options { timeout: Duration::from_secs(3_600), ..OPTIONS };
        let writer = Writer::start(Arc::clone(&history), first.clone(), slow, time_of_day, Vec::new).unwrap();
        (0..10).for_each(|number| history.push(result(number)));
        let has_begun = || first.0.inserts.load(Ordering::Relaxed) > 0 || history.stats().batches_failed > 0;
        await_that(has_begun);
        writer.change(second.clone(), OPTIONS);
        await_that(|| second.numbers().len() == 10);
        // After the change, the shutdown has its own time limit.
        history.push(result(10));
        writer.stop();
        assert_eq!((first.numbers(), second.numbers().len()), (vec![], 11));
        assert_eq!(history.stats().sum(|counts| counts.dropped()), 0);
    }
}

#[test]
fn a_stop_writes_the_last_rows_and_does_not_wait_for_a_hung_store() {
    let (history, store) = (Arc::new(History::new(1 << 20, 100)), Memory::default());
    let long = Options { interval: Duration::from_secs(3_600), ..OPTIONS };
    let writer = Writer::start(Arc::clone(&history), store.clone(), long, time_of_day, Vec::new).unwrap();
    (0..10).for_each(|number| history.push(result(number)));
    writer.stop();
    assert_eq!(store.numbers().len(), 10);

    store.0.hangs.store(true, Ordering::Relaxed);
    // An attempt would take an hour.
    let slow = Options { interval: Duration::ZERO, timeout: Duration::from_secs(3_600) };
    let writer = Writer::start(Arc::clone(&history), store.clone(), slow, time_of_day, Vec::new).unwrap();
    (10..15).for_each(|number| history.push(result(number)));
    await_that(|| store.0.inserts.load(Ordering::Relaxed) > 1);
    writer.stop();
    let counts = history.stats().rows[Kind::Result as usize];
    assert_eq!((counts.written, counts.ended, counts.live), (10, 5, 0));
}

#[test]
fn counters_are_stored_as_increments() {
    let (history, store) = (Arc::new(History::new(1 << 20, 100)), Memory::default());
    let count = Arc::new(AtomicU64::new(5));
    let counted = Arc::clone(&count);
    let counters = move || {
        let counts = [counted.load(Ordering::Relaxed), 0, 0, 0, 0];
        vec![Counter { name: CounterName::Link("eu".into()), counts }]
    };
    let writer = Writer::start(Arc::clone(&history), store.clone(), OPTIONS, time_of_day, counters).unwrap();
    // The first counters are read before the first row is written.
    history.push(result(1));
    await_that(|| !store.numbers().is_empty());
    count.store(12, Ordering::Relaxed);
    writer.stop();
    assert_eq!(store.numbers(), [1, 7]);
    assert_eq!(history.stats().rows[Kind::Link as usize].written, 1);
}

/// Adds the results of an hour as fast as possible while the store is unreachable: 36 million with
/// `DOORBELL_FULL=1`. One thread adds the results, as the check thread does.
#[test]
fn memory_is_bounded_and_drops_are_exact_while_the_store_is_away() {
    const BYTES_MAX: usize = 32 << 20;
    let is_full = std::env::var("DOORBELL_FULL").is_ok_and(|value| value == "1");
    let results: u64 = if is_full { 36_000_000 } else { 1_000_000 };
    let (history, store) = (Arc::new(History::new(BYTES_MAX, 10_000)), Memory::default());
    store.0.is_away.store(true, Ordering::Relaxed);
    let writer = start(&history, &store);
    let before = rss_anon_bytes("self").unwrap();
    let minutes = {
        let history = Arc::clone(&history);
        std::thread::spawn(move || {
            for minute in 0..1_000 {
                history.push(Row::Minute(Minute { minute, ..Minute::default() }));
                std::thread::yield_now();
            }
        })
    };
    let check: Arc<str> = "db".into();
    for number in 0..results {
        let (check, reason) = (Arc::clone(&check), "connection refused".into());
        let (outcome, latency_us, weight) = ("failure", 1, 1);
        history.push(Row::Result(CheckResult { at_ms: number, check, outcome, latency_us, weight, reason }));
    }
    minutes.join().unwrap();
    let increments = rss_anon_bytes("self").unwrap().saturating_sub(before);
    assert!(increments < BYTES_MAX as u64 * 3 / 2, "{increments} bytes");
    let stats = history.stats();
    let [minutes, counts] = [Kind::Minute, Kind::Result].map(|kind| stats.rows[kind as usize]);
    assert_eq!((minutes.added, minutes.live, minutes.dropped()), (1_000, 1_000, 0));
    assert_eq!((counts.added, counts.written), (results, 0));
    assert_eq!(counts.added, counts.full + counts.live);
    assert!(stats.bytes_live <= BYTES_MAX && counts.live > 100_000, "{stats:?}");
    store.0.is_away.store(false, Ordering::Relaxed);
    await_that(|| history.rows_live() == 0);
    writer.stop();
    let written = history.stats().rows[Kind::Result as usize].written;
    // The remaining rows are the first batch and the last results.
    let numbers: Vec<u64> = store.numbers().into_iter().rev().take(1_000).collect();
    assert_eq!(numbers, (results - 1_000..results).rev().collect::<Vec<_>>());
    assert_eq!((written, store.numbers().len() as u64), (counts.live, counts.live + 1_000));
}
