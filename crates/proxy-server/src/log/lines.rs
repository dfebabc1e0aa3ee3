//! The queue of log lines, and the thread that writes them.

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of the queue in bytes. Lines that do not fit are dropped and counted.
const QUEUED_LEN_MAX: usize = 1 << 20;

/// Maximum capacity that a buffer keeps when it is emptied; a larger buffer is freed.
const IDLE_LEN_MAX: usize = 64 << 10;

/// `PIPE_BUF` of pipe(7): writes up to this size are atomic, so lines of other processes do not
/// interleave. A writable pipe has at least this much free space.
pub const PIECE_LEN: usize = 4096;

/// Pause after a write, in which further lines are collected, so that a flood of lines does not
/// wake this process and the reader for each line. A line that arrives after the pause is written
/// immediately.
const REST: Duration = Duration::from_millis(5);

/// The queue of log lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    inner: Mutex<LinesInner>,
    arrived: Condvar,
    written: Condvar,
}

#[derive(Debug, Default)]
struct LinesInner {
    queue: Vec<u8>,
    /// Whether the thread is writing lines that it has taken from the queue.
    writing: bool,
    /// Whether the thread is waiting for a line.
    is_idle: bool,
    /// Whether a flush is waiting.
    is_awaited: bool,
    /// Lines lost since the start.
    lost: u64,
    /// Number of lost lines that have been reported in the log.
    reported: u64,
}

/// Writer of one line.
#[derive(Debug)]
pub(super) struct Entry(pub(super) Arc<Lines>);

impl Lines {
    /// Starts the thread, which runs until the process ends.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        let lines = Arc::clone(self);
        let write = move || lines.write_all(io::stdout().as_fd());
        std::thread::Builder::new().name("log".into()).spawn(write).map(drop)
    }

    /// Waits until all lines are written; false after the timeout.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let mut inner = self.inner.lock();
        inner.is_awaited = true;
        self.arrived.notify_one();
        let is_busy = |inner: &mut LinesInner| inner.writing || !inner.queue.is_empty();
        let waited = self.written.wait_while_for(&mut inner, is_busy, timeout);
        inner.is_awaited = false;
        !waited.timed_out()
    }

    /// Number of lines lost since the start.
    pub(super) fn lost(&self) -> u64 {
        self.inner.lock().lost
    }

    fn push(&self, line: &[u8]) {
        let mut inner = self.inner.lock();
        if inner.queue.len() + line.len() > QUEUED_LEN_MAX {
            inner.lost += 1;
            return;
        }
        inner.queue.extend_from_slice(line);
        if std::mem::take(&mut inner.is_idle) {
            drop(inner);
            self.arrived.notify_one();
        }
    }

    fn write_all(&self, out: BorrowedFd<'_>) {
        let mut batch = Vec::new();
        loop {
            self.take(&mut batch);
            let failed = write_batch(out, &batch);
            if let Some(lost) = self.end_batch(failed) {
                tracing::warn!(
                    lines = lost,
                    "log lines lost: the reader of standard output was too slow, or a write failed"
                );
            }
            self.rest();
        }
    }

    fn rest(&self) {
        let rests = |inner: &mut LinesInner| !inner.is_awaited;
        self.arrived.wait_while_for(&mut self.inner.lock(), rests, REST);
    }

    /// Waits for lines, and takes all lines of the queue.
    fn take(&self, batch: &mut Vec<u8>) {
        batch.clear();
        if batch.capacity() > IDLE_LEN_MAX {
            *batch = Vec::new();
        }
        let is_idle = |inner: &mut LinesInner| {
            inner.is_idle = inner.queue.is_empty();
            inner.is_idle
        };
        let mut inner = self.inner.lock();
        self.arrived.wait_while(&mut inner, is_idle);
        inner.writing = true;
        std::mem::swap(&mut inner.queue, batch);
    }

    /// Records a finished write. After a successful write, returns the number of lost lines that
    /// have not been reported.
    fn end_batch(&self, failed: u64) -> Option<u64> {
        let mut inner = self.inner.lock();
        inner.writing = false;
        inner.lost += failed;
        let news = inner.lost - inner.reported;
        let reports = failed == 0 && news > 0;
        if reports {
            inner.reported = inner.lost;
        }
        drop(inner);
        self.written.notify_all();
        reports.then_some(news)
    }
}

impl Write for Entry {
    /// Adds `line`, one whole line, to the queue.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes whole lines, in pieces of at most [`PIECE_LEN`] or of one longer line. Returns the number
/// of lines that could not be written.
fn write_batch(out: BorrowedFd<'_>, mut batch: &[u8]) -> u64 {
    let mut failed = 0;
    while !batch.is_empty() {
        let (piece, rest) = batch.split_at(piece_len(batch));
        batch = rest;
        if write_piece(out, piece).is_err() {
            failed += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
    }
    failed
}

/// Length of the complete lines that fit into a piece, or of a single longer line.
fn piece_len(batch: &[u8]) -> usize {
    let fits = batch.get(..PIECE_LEN).unwrap_or(batch);
    let end = memchr::memrchr(b'\n', fits).or_else(|| memchr::memchr(b'\n', batch));
    end.map_or(batch.len(), |end| end + 1)
}

/// Writes a piece. Blocks while the reader does not read.
fn write_piece(out: BorrowedFd<'_>, mut piece: &[u8]) -> rustix::io::Result<()> {
    while !piece.is_empty() {
        match rustix::io::write(out, piece) {
            Ok(0) => return Err(Errno::IO),
            Ok(len) => piece = piece.get(len..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Another process has made the standard stream non-blocking.
            Err(Errno::AGAIN) => {
                let _ready = poll(&mut [PollFd::from_borrowed_fd(out, PollFlags::OUT)], None);
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::time::Instant;

    fn lines(count: usize, len: usize) -> Vec<u8> {
        (0..count).flat_map(|n| format!("{n:0>len$}\n").into_bytes()).collect()
    }

    #[test]
    fn pieces_end_with_lines() {
        assert_eq!(piece_len(b"a\nbc\nd"), 5);
        assert_eq!(piece_len(b"abc"), 3);
        let many = lines(100, 99);
        assert_eq!(piece_len(&many), 4000);
        let long = [lines(1, 10_000), lines(1, 9)].concat();
        assert_eq!(piece_len(&long), 10_001);
        assert_eq!(piece_len(&long[10_001..]), 10);
    }

    /// While the reader hangs, lines are queued up to the limit and then dropped and counted; the
    /// queued lines arrive intact afterwards.
    #[test]
    fn a_hung_reader_costs_lines_but_no_time() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = Arc::new(Lines::default());
        let thread = Arc::clone(&lines);
        std::thread::spawn(move || thread.write_all(writer.as_fd()));
        let line = [b'x'; 1023].iter().chain(b"\n").copied().collect::<Vec<u8>>();
        const COUNT: u64 = 3000;
        for _ in 0..COUNT {
            Entry(Arc::clone(&lines)).write_all(&line).unwrap();
        }
        assert!(!lines.flush(Duration::from_millis(20)), "the reader hangs");
        let lost = lines.lost();
        // All lines except those in the queue, in the pipe and in the batch of the thread are lost.
        assert!((COUNT - 2200..=COUNT - 1024).contains(&lost), "{lost}");
        let kept = usize::try_from(COUNT - lost).unwrap();
        let mut read = vec![0; kept * line.len()];
        reader.read_exact(&mut read).unwrap();
        assert!(read.chunks(line.len()).all(|read| read == line), "no line is torn");
        assert!(lines.flush(Duration::from_secs(20)));
        assert_eq!(lines.lost(), lost);
    }

    /// Lines in quick succession are written together, and the first one is written immediately.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the maximum number of writes depends on real time")]
    fn a_flood_of_lines_is_few_writes() {
        let (reader, writer) = std::os::unix::net::UnixDatagram::pair().unwrap();
        reader.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let lines = Arc::new(Lines::default());
        let thread = Arc::clone(&lines);
        std::thread::spawn(move || thread.write_all(writer.as_fd()));
        let read = |wanted: usize| {
            let (mut buf, mut len, mut writes) = ([0; PIECE_LEN], 0, 0);
            while len < wanted {
                len += reader.recv(&mut buf).unwrap();
                writes += 1;
            }
            writes
        };
        let push = || Entry(Arc::clone(&lines)).write_all(b"line\n").unwrap();
        push();
        assert_eq!(read(5), 1);
        // No line is lost, regardless of the state of the thread.
        let began = Instant::now();
        for _ in 0..200 {
            push();
            std::thread::yield_now();
        }
        let writes = read(1_000);
        // The writer pauses after each write, so the elapsed time limits the number of writes, even
        // if this test was delayed.
        let writes_max = began.elapsed().as_millis() / REST.as_millis() + 2;
        assert!(writes <= writes_max, "{writes} writes, the maximum is {writes_max}");
        assert!(lines.flush(Duration::from_secs(20)));
        for _ in 0..20 {
            push();
            assert!(lines.flush(Duration::from_secs(20)), "a flush does not wait for the pause");
            assert_eq!(read(5), 1);
        }
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(write_batch(writer.as_fd(), &lines(100, 99)), 100);
        let lines = Lines::default();
        assert_eq!(
            (lines.end_batch(7), lines.lost()),
            (None, 7),
            "the loss is not reported after a failed write"
        );
        assert_eq!((lines.end_batch(0), lines.end_batch(0)), (Some(7), None));
    }
}
