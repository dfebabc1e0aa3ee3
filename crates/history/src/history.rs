//! The history of a process: accepts rows from any thread and buffers them for the writer.
//!
//! Adding a row takes a lock for a short time and never waits for the store.

use crate::buffer::{Batch, Buffer, Counts};
use crate::increments::{Counter, Counters};
use crate::minutes::{MINUTE_MS, Minutes};
use crate::row::{Increments, Kind, Minute, Row};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until};

/// A buffer of rows for a [`Writer`](crate::Writer), shared between threads.
#[derive(Debug)]
pub struct History {
    inner: Mutex<HistoryInner>,
    /// Notified when a row arrives in the empty buffer, and when a batch is full.
    wake: Notify,
}

#[derive(Debug)]
struct HistoryInner {
    buffer: Buffer,
    minutes: Minutes,
    batch_rows: usize,
    batches_failed: u64,
    failure: Option<String>,
    is_unavailable: bool,
}

/// Counters, and the result of the last attempt to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters by kind, in the order of [`Kind::ALL`].
    pub rows: [Counts; Kind::ALL.len()],
    /// Memory of the rows in the buffer.
    pub bytes_live: usize,
    /// Failed attempts to write a batch.
    pub batches_failed: u64,
    /// Reason for the failure of the last attempt; `None` after a success.
    pub failure: Option<String>,
}

impl Stats {
    /// Returns the sum of a counter over all kinds.
    #[must_use]
    pub fn sum(&self, counter: impl Fn(&Counts) -> u64) -> u64 {
        self.rows.iter().map(counter).sum()
    }
}

impl History {
    /// Creates an empty history that buffers at most `bytes_max` bytes and is written in batches of
    /// up to `batch_rows` rows.
    #[must_use]
    pub fn new(bytes_max: usize, batch_rows: usize) -> Self {
        let inner = HistoryInner {
            buffer: Buffer::new(bytes_max),
            minutes: Minutes::default(),
            batch_rows,
            batches_failed: 0,
            failure: None,
            is_unavailable: false,
        };
        Self { inner: Mutex::new(inner), wake: Notify::new() }
    }

    /// Changes the limits. Rows that exceed the new limit are dropped as when the buffer is full.
    pub fn resize(&self, bytes_max: usize, batch_rows: usize) {
        let mut inner = self.lock();
        inner.batch_rows = batch_rows;
        inner.buffer.resize(bytes_max);
    }

    /// Adds a row.
    pub fn push(&self, row: Row) {
        let mut inner = self.lock();
        let before = inner.buffer.rows();
        inner.buffer.push(row);
        self.notify(inner, before);
    }

    /// Sets the endpoints whose time in each state is recorded. A new endpoint has the given state
    /// at `now_ms` (milliseconds since 1970); a known one keeps its state.
    pub fn follow<'a>(&self, endpoints: impl IntoIterator<Item = (&'a str, &'a str)>, now_ms: u64) {
        self.lock().minutes.follow(endpoints, now_ms);
    }

    /// Records a state change of an endpoint for the rows by minute. The transition itself is a
    /// separate row.
    pub fn moved(&self, endpoint: &str, to: &str, now_ms: u64) {
        self.lock().minutes.moved(endpoint, to, now_ms);
    }

    /// Wakes the writer if the buffer was empty, or if a batch is now full.
    fn notify(&self, inner: MutexGuard<'_, HistoryInner>, before: usize) {
        let (after, full) = (inner.buffer.rows(), inner.batch_rows);
        drop(inner);
        if (before == 0 && after > 0) || (before < full && after >= full) {
            self.wake.notify_one();
        }
    }

    /// Returns the current counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let inner = self.lock();
        Stats {
            rows: *inner.buffer.counts(),
            bytes_live: inner.buffer.bytes(),
            batches_failed: inner.batches_failed,
            failure: inner.failure.clone(),
        }
    }

    /// Drops all rows at shutdown and returns their number.
    pub fn end(&self) -> u64 {
        self.lock().buffer.end()
    }

    /// Waits until a batch is due: enough rows have arrived, the first row has waited for
    /// `interval`, or an earlier attempt to write the batch has failed.
    pub(crate) async fn due(&self, interval: Duration) {
        while self.rows_live() == 0 {
            self.wake.notified().await;
        }
        let end = tokio::time::Instant::now() + interval;
        while !self.is_full() {
            tokio::select! {
                () = sleep_until(end) => return,
                () = self.wake.notified() => {}
            }
        }
    }

    /// Adds the rows of each minute at its end. Never returns.
    pub(crate) async fn tick_always(
        &self,
        time_of_day: fn() -> Duration,
        counters: &RefCell<Counters<impl Fn() -> Vec<Counter>>>,
    ) {
        loop {
            let into_minute = millis(time_of_day()) % MINUTE_MS;
            sleep(Duration::from_millis(MINUTE_MS - into_minute + 1)).await;
            let now_ms = millis(time_of_day());
            // The minute that has just ended.
            let ended = (now_ms / MINUTE_MS).saturating_sub(1);
            let increments = counters.borrow_mut().increments(ended);
            self.add_minutes(|minutes| minutes.completed(now_ms), increments);
        }
    }

    /// Adds the rows of the current, incomplete minute at shutdown.
    pub(crate) fn end_minute(&self, now_ms: u64, counters: &mut Counters<impl Fn() -> Vec<Counter>>) {
        let increments = counters.increments(now_ms / MINUTE_MS);
        self.add_minutes(|minutes| minutes.end(now_ms), increments);
    }

    fn add_minutes(&self, take: impl FnOnce(&mut Minutes) -> Vec<Minute>, increments: Vec<Increments>) {
        let mut inner = self.lock();
        let before = inner.buffer.rows();
        let minutes = take(&mut inner.minutes).into_iter().map(Row::Minute);
        let rows = minutes.chain(increments.into_iter().map(Row::Increments));
        rows.for_each(|row| inner.buffer.push(row));
        self.notify(inner, before);
    }

    fn is_full(&self) -> bool {
        let inner = self.lock();
        inner.buffer.has_pending() || inner.buffer.rows() >= inner.batch_rows
    }

    /// Number of rows in the buffer, including those being written.
    #[must_use]
    pub fn rows_live(&self) -> usize {
        self.lock().buffer.rows()
    }

    pub(crate) fn next(&self) -> Option<Arc<Batch>> {
        let mut inner = self.lock();
        let rows_max = inner.batch_rows;
        inner.buffer.next(rows_max)
    }

    /// Records that the store has accepted the batch. Returns true if the store was unavailable
    /// before.
    pub(crate) fn written(&self) -> bool {
        let mut inner = self.lock();
        inner.buffer.written();
        inner.failure = None;
        std::mem::take(&mut inner.is_unavailable)
    }

    /// Records that the store has refused the batch permanently.
    pub(crate) fn refused(&self, why: &str) {
        let mut inner = self.lock();
        inner.buffer.refused();
        inner.failed(why);
    }

    /// Records that the store is unavailable. Returns true if the outage or its reason is new.
    pub(crate) fn unavailable(&self, why: &str) -> bool {
        let mut inner = self.lock();
        let was_unavailable = std::mem::replace(&mut inner.is_unavailable, true);
        let is_new = !was_unavailable || inner.failure.as_deref() != Some(why);
        inner.failed(why);
        is_new
    }

    /// Splits a batch that is too large for the store. Returns false if it has a single row.
    pub(crate) fn split(&self) -> bool {
        let mut inner = self.lock();
        let is_split = inner.buffer.split();
        inner.batches_failed += u64::from(is_split);
        is_split
    }

    fn lock(&self) -> MutexGuard<'_, HistoryInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HistoryInner {
    fn failed(&mut self, why: &str) {
        self.batches_failed += 1;
        self.failure = Some(why.to_owned());
    }
}

/// Converts a time since 1970 to milliseconds.
#[must_use]
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that refuses rows counts as available.
    #[test]
    fn an_outage_begins_and_ends_once() {
        let history = History::new(1 << 20, 100);
        history.refused("bad");
        assert!(!history.written());
        history.refused("bad");
        assert!(history.unavailable("gone") && !history.unavailable("gone"));
        assert!(history.unavailable("no schema") && !history.unavailable("no schema"), "another reason");
        assert!(history.written() && !history.written());
        assert!(history.unavailable("no schema"), "another outage");
    }
}
