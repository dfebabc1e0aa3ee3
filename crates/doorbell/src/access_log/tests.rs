//! Tests: full queues, targets that fail, write partially or block, many threads, rotation, sleep
//! and stop.
#![expect(clippy::disallowed_methods, reason = "waits for the writer, within a bound")]

use core::sync::atomic::{AtomicBool, Ordering};
use std::io::Write;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use doorbell_http::log::{Entry, Record, Sink as _};
use doorbell_http::parse::Head;
use doorbell_http::{Client, Limits as HttpLimits, Request, Status, Time};

use super::*;

/// A record of a request for `target` with this reply status.
fn record(target: &str, status: Status) -> Record {
    let bytes = format!("GET {target} HTTP/1.1\r\nHost: h\r\nUser-Agent: curl/8.9\r\n\r\n").into_bytes();
    let mut head = Head::new();
    assert_eq!(head.parse(&bytes, &HttpLimits::default()), Ok(Some(bytes.len())));
    let request = Request::new(&bytes, &head, b"").from_client(&Client::UNKNOWN, Time::ZERO, 0);
    Record::answered(&Entry {
        elsewhere: false,
        request: &request,
        status: Some(status),
        content_len: 3,
        route: None,
        probe: false,
        subject: None,
    })
}

/// A target in memory that can fail or block the writer.
#[derive(Clone, Default)]
struct Memory(Arc<Inner>);

#[derive(Default)]
struct Inner {
    bytes: Mutex<Vec<u8>>,
    writes: Mutex<usize>,
    refuse: AtomicBool,
    /// A write accepts at most this number of bytes, and the next write fails.
    tear_after: Mutex<Option<usize>>,
    held: Mutex<bool>,
    freed: Condvar,
}

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.bytes.lock().unwrap().clone()).unwrap()
    }

    fn hold(&self, held: bool) {
        *self.0.held.lock().unwrap() = held;
        self.0.freed.notify_all();
    }

    fn log(&self) -> LogBuilder {
        AccessLog::builder(LogTarget::Writer(Box::new(self.clone())))
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(self.0.freed.wait_while(self.0.held.lock().unwrap(), |held| *held).unwrap());
        let mut tear_after = self.0.tear_after.lock().unwrap();
        if self.0.refuse.load(Ordering::SeqCst) || *tear_after == Some(0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let len = tear_after.map_or(bytes.len(), |left| left.min(bytes.len()));
        if let Some(left) = tear_after.as_mut() {
            *left -= len;
        }
        *self.0.writes.lock().unwrap() += 1;
        self.0.bytes.lock().unwrap().extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const LONG: Duration = Duration::from_secs(20);

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "{what} within {LONG:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A temporary directory of one test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("doorbell-access-log-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn everything_queued_is_written_at_an_orderly_end() {
    let memory = Memory::default();
    let log = memory.log().routes(vec!["api".to_owned()]).start().unwrap();
    let sink = log.sink();
    for i in 0..100 {
        sink.log(&record(&format!("/{i}"), Status::OK));
    }
    assert!(log.stop(LONG));
    let text = memory.text();
    let targets: Vec<&str> = text.lines().map(|line| line.split(' ').nth(6).unwrap()).collect();
    assert_eq!(targets, (0..100).map(|i| format!("/{i}")).collect::<Vec<_>>());
    assert!(*memory.0.writes.lock().unwrap() < 100, "lines are written in batches");
    let counters = sink.counters();
    assert_eq!((counters.written, counters.dropped, counters.failed), (100, 0, 0));

    sink.log(&record("/late", Status::OK));
    assert_eq!(
        (sink.counters().written, sink.counters().dropped),
        (100, 1),
        "a stopped log drops and counts"
    );
    assert_eq!(memory.text(), text);
}

#[test]
fn a_full_queue_drops_counts_and_reports_records() {
    let memory = Memory::default();
    memory.hold(true);
    let log = memory.log().records_max(8).start().unwrap();
    let sink = log.sink();
    sink.log(&record("/first", Status::OK));
    // The first record blocks the writer, so it does not read the following records.
    let first_taken = || log.shared.is_drained();
    wait_for("the writer has taken the first record", first_taken);
    // None of these calls waits: the writer is blocked until after the loop, so a waiting call
    // would never return.
    for i in 0..1000 {
        sink.log(&record(&format!("/{i}"), Status::OK));
    }
    assert_eq!(sink.counters().dropped, 1000 - 8);
    memory.hold(false);
    assert!(log.stop(LONG));
    assert_eq!((sink.counters().written, sink.counters().dropped), (9, 992));
    let text = memory.text();
    assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 9, "{text}");
    let said: u64 = text
        .lines()
        .filter_map(|line| {
            line.strip_suffix(" lines dropped: too many at once")?.rsplit(' ').next()?.parse::<u64>().ok()
        })
        .sum();
    assert_eq!(said, 992, "{text}");
}

#[test]
fn losses_are_reported_at_most_once_a_second() {
    let memory = Memory::default();
    let log = memory.log().records_max(1).start().unwrap();
    let sink = log.sink();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        for _ in 0..50 {
            sink.log(&record("/", Status::OK));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let elapsed = start.elapsed();
    assert!(log.stop(LONG));
    assert!(sink.counters().dropped > 100);
    // The first report is written at once, the last at the end, and at most one per second in
    // between.
    let said = memory.text().lines().filter(|line| line.starts_with("# ")).count() as u64;
    assert!((1..=2 + elapsed.as_secs()).contains(&said), "{said} in {elapsed:?}");
}

#[test]
fn every_record_of_many_threads_is_whole_and_in_the_order_of_its_thread() {
    const THREADS: usize = 8;
    const RECORDS: usize = 2000;
    let memory = Memory::default();
    let log = memory.log().records_max(RECORDS).start().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let sink = log.sink();
            scope.spawn(move || {
                for i in 0..RECORDS {
                    let filler = "x".repeat((i * 7 + thread) % 120);
                    sink.log(&record(&format!("/{thread}/{i}/{filler}"), Status::OK));
                }
            });
        }
    });
    let counters = log.sink();
    assert!(log.stop(LONG));
    assert_eq!((counters.counters().written, counters.counters().dropped), ((THREADS * RECORDS) as u64, 0));
    let (text, mut next) = (memory.text(), [0; THREADS]);
    for line in text.lines() {
        let target = line.split(' ').nth(6).unwrap();
        let mut parts = target.split('/').skip(1);
        let (thread, i): (usize, usize) =
            (parts.next().unwrap().parse().unwrap(), parts.next().unwrap().parse().unwrap());
        let filler = parts.next().unwrap();
        assert_eq!(i, next[thread], "{line}");
        assert_eq!(filler, "x".repeat((i * 7 + thread) % 120), "{line}");
        assert!(line.ends_with("HTTP/1.1\" 200 3 \"-\" \"curl/8.9\" host=\"h\""), "{line}");
        next[thread] += 1;
    }
    assert_eq!(next, [RECORDS; THREADS]);
}

#[test]
fn queues_of_ended_threads_are_given_back() {
    let memory = Memory::default();
    let log = memory.log().records_max(4).start().unwrap();
    for i in 0..50 {
        let sink = log.sink();
        std::thread::spawn(move || sink.log(&record(&format!("/{i}"), Status::OK))).join().unwrap();
    }
    wait_for("no queue is left", || log.shared.lanes_live() == 0);
    // A queue is released before its last line is written.
    wait_for("all are written", || log.counters().written == 50);
}

#[test]
fn a_sleeping_writer_is_woken_by_one_record_and_a_busy_one_by_none() {
    let memory = Memory::default();
    let log = memory.log().start().unwrap();
    let sink = log.sink();
    sink.log(&record("/", Status::OK));
    wait_for("the writer sleeps", || log.shared.is_asleep());
    let before = log.counters().wakes;
    let start = Instant::now();
    for _ in 0..100 {
        sink.log(&record("/", Status::OK));
    }
    let in_time = start.elapsed() < Duration::from_millis(50);
    wait_for("all are written", || log.counters().written == 101);
    // A slow machine may pause this thread for so long that the writer falls asleep again.
    assert!(log.counters().wakes == before + 1 || !in_time, "{:?}", log.counters());
    assert!(log.stop(LONG));
}

#[test]
fn a_failing_target_is_counted_and_reported_once_until_it_works_again() {
    let (memory, troubles) = (Memory::default(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&troubles);
    let log = memory.log().on_trouble(move |trouble| seen.lock().unwrap().push(trouble.to_string()));
    let log = log.start().unwrap();
    let sink = log.sink();
    memory.0.refuse.store(true, Ordering::SeqCst);
    for i in 1..=5 {
        sink.log(&record("/lost", Status::OK));
        wait_for("it is counted", || log.counters().failed == i);
    }
    assert_eq!(*troubles.lock().unwrap(), ["cannot write the access log: lines are lost"]);
    memory.0.refuse.store(false, Ordering::SeqCst);
    sink.log(&record("/kept", Status::OK));
    wait_for("it is written", || log.counters().written == 1);
    memory.0.refuse.store(true, Ordering::SeqCst);
    sink.log(&record("/lost", Status::OK));
    wait_for("it is counted", || log.counters().failed == 6);
    assert_eq!(troubles.lock().unwrap().len(), 2, "a failure after a success is reported again");
    memory.0.refuse.store(false, Ordering::SeqCst);
    assert!(log.stop(LONG));
    let text = memory.text();
    assert!(!text.contains("/lost") && text.contains("/kept"), "{text}");
    let said: u64 = text
        .lines()
        .filter_map(|line| {
            line.strip_suffix(" lines lost: they could not be written")?
                .rsplit(' ')
                .next()?
                .parse::<u64>()
                .ok()
        })
        .sum();
    assert_eq!(said, 6, "{text}");
}

#[test]
fn a_torn_line_is_ended_before_the_next() {
    let memory = Memory::default();
    memory.hold(true);
    let log = memory.log().start().unwrap();
    let sink = log.sink();
    sink.log(&record("/0", Status::OK));
    wait_for("the writer has taken the first record", || log.shared.is_drained());
    let line_len = 100;
    *memory.0.tear_after.lock().unwrap() = Some(line_len * 3 / 2);
    memory.hold(false);
    wait_for("the first is written", || log.counters().written == 1);
    sink.log(&record("/1", Status::OK));
    wait_for("the second is torn", || log.counters().failed == 1);
    *memory.0.tear_after.lock().unwrap() = None;
    sink.log(&record("/2", Status::OK));
    wait_for("the third is written", || log.counters().written == 2);
    assert!(log.stop(LONG));
    let text = memory.text();
    let starts: Vec<&str> = text.lines().map(|line| line.get(..2).unwrap_or(line)).collect();
    assert!(starts == ["- ", "- ", "# ", "- "] || starts == ["- ", "- ", "- ", "# "], "{text}");
    assert!(text.lines().any(|line| line.contains("\"GET /2 ") && line.ends_with("host=\"h\"")), "{text}");
}

#[test]
fn a_stuck_target_blocks_neither_loggers_nor_a_stop() {
    let memory = Memory::default();
    memory.hold(true);
    let log = memory.log().start().unwrap();
    let sink = log.sink();
    sink.log(&record("/", Status::OK));
    // The target is blocked until after this call, so a stop that waited for it would never return.
    assert!(!log.stop(Duration::from_millis(50)), "the target is still blocked");
    sink.log(&record("/", Status::OK));
    assert_eq!(sink.counters().dropped, 1);
    memory.hold(false);
    wait_for("the first record is written once the target accepts writes", || sink.counters().written == 1);
}

#[test]
fn a_moved_file_is_opened_again_by_name() {
    let dir = Dir::new("rotate");
    let (path, moved) = (dir.0.join("access.log"), dir.0.join("access.log.1"));
    std::fs::write(&path, "earlier\n").unwrap();
    let log = AccessLog::builder(path.clone().into()).format(Format::Json).start().unwrap();
    let sink = log.sink();
    sink.log(&record("/old", Status::OK));
    wait_for("it is written", || log.counters().written == 1);
    std::fs::rename(&path, &moved).unwrap();
    sink.log(&record("/still-old", Status::OK));
    wait_for("it is written", || log.counters().written == 2);
    log.reopen();
    wait_for("it is opened again", || log.counters().reopened == 1);
    sink.log(&record("/new", Status::OK));
    assert!(log.stop(LONG));
    let (old, new) = (dir.read("access.log.1"), dir.read("access.log"));
    assert!(old.starts_with("earlier\n{") && old.contains("/old") && old.contains("/still-old"), "{old}");
    assert!(new.contains("\"/new\"") && new.lines().count() == 1 && !new.contains("old"), "{new}");
}

#[test]
fn a_file_that_cannot_be_opened_again_leaves_the_old_one_in_use() {
    let dir = Dir::new("gone");
    let inner = dir.0.join("inner");
    std::fs::create_dir(&inner).unwrap();
    let troubles = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&troubles);
    let log = AccessLog::builder(LogTarget::File(inner.join("access.log")))
        .on_trouble(move |trouble| seen.lock().unwrap().push(trouble.to_string()))
        .start()
        .unwrap();
    std::fs::rename(&inner, dir.0.join("moved")).unwrap();
    for i in 1..=3 {
        log.reopen();
        wait_for("it was tried", || log.counters().reopen_failed == i);
    }
    log.sink().log(&record("/kept", Status::OK));
    assert!(log.stop(LONG));
    assert!(dir.read("moved/access.log").contains("/kept"));
    assert_eq!(*troubles.lock().unwrap(), ["cannot reopen the access log: the old file stays in use"]);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_the_start() {
    let dir = Dir::new("none");
    let target = LogTarget::File(dir.0.join("no/such/dir/access.log"));
    assert_eq!(AccessLog::builder(target).start().unwrap_err().kind(), io::ErrorKind::NotFound);
}

/// An open that waits for a reader would hang the program at its start or a reload.
#[test]
fn a_fifo_without_a_reader_is_an_error() {
    let dir = Dir::new("fifo");
    let fifo = dir.0.join("access.log");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let error = AccessLog::builder(LogTarget::File(fifo)).start().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NXIO.raw_os_error()), "{error}");
}

#[test]
fn a_closed_pipe_is_only_counted() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let log = AccessLog::builder(LogTarget::Writer(Box::new(writer))).start().unwrap();
    log.sink().log(&record("/", Status::OK));
    wait_for("it is counted", || log.counters().failed == 1);
    assert!(log.stop(LONG));
}

#[test]
fn two_logs_have_queues_of_their_own() {
    let (one, two) = (Memory::default(), Memory::default());
    let (log_one, log_two) = (one.log().start().unwrap(), two.log().start().unwrap());
    for _ in 0..3 {
        log_one.sink().log(&record("/one", Status::OK));
        log_two.sink().log(&record("/two", Status::OK));
    }
    assert!(log_one.stop(LONG) && log_two.stop(LONG));
    assert_eq!((one.text().matches("/one").count(), one.text().matches("/two").count()), (3, 0));
    assert_eq!((two.text().matches("/one").count(), two.text().matches("/two").count()), (0, 3));
}
