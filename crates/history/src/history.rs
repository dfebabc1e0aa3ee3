//! The history of a process: accepts rows from any thread and buffers them for the writer.
//!
//! Does not know about: stores.
//!
//! Adding a row takes a lock for a short time and never waits for the store.

use crate::buffer::{Batch, Buffer, Counts};
use crate::increments::Counters;
use crate::minutes::Minutes;
use crate::row::{Kind, Row};
use crate::source::Source;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until};

const MINUTE_MS: u64 = 60_000;

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
        let (buffer, minutes) = (Buffer::new(bytes_max), Minutes::default());
        let inner = HistoryInner {
            buffer,
            minutes,
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

    /// Adds the rows of completed minutes. The [`Writer`](crate::Writer) calls this once a minute.
    pub fn tick(&self, now_ms: u64) {
        self.add_minutes(|minutes| minutes.completed(now_ms));
    }

    fn add_minutes(&self, take: impl FnOnce(&mut Minutes) -> Vec<crate::row::Minute>) {
        let mut inner = self.lock();
        let before = inner.buffer.rows();
        for minute in take(&mut inner.minutes) {
            inner.buffer.push(Row::Minute(minute));
        }
        self.notify(inner, before);
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
    pub(crate) async fn tick_always(&self, source: &impl Source, counters: &RefCell<Counters>) {
        loop {
            let into_minute = source.time_of_day().as_millis() % 60_000;
            let left = u64::try_from(60_000 - into_minute).unwrap_or(60_000);
            sleep(Duration::from_millis(left + 1)).await;
            let now_ms = millis(source.time_of_day());
            self.tick(now_ms);
            // The minute that has just ended.
            self.count(source, &mut counters.borrow_mut(), (now_ms / MINUTE_MS).saturating_sub(1));
        }
    }

    /// Adds the rows of the current, incomplete minute at shutdown.
    pub(crate) fn end_minute(&self, source: &impl Source, counters: &mut Counters) {
        let now_ms = millis(source.time_of_day());
        self.add_minutes(|minutes| minutes.end(now_ms));
        self.count(source, counters, now_ms / MINUTE_MS);
    }

    /// Adds the increments of all counters.
    fn count(&self, source: &impl Source, counters: &mut Counters, minute: u64) {
        let increments = counters.increments(minute, source.counters());
        increments.into_iter().for_each(|increments| self.push(Row::Increments(increments)));
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

    pub(crate) fn written(&self) {
        self.lock().buffer.written();
    }

    pub(crate) fn refused(&self) {
        self.lock().buffer.refused();
    }

    /// Splits a batch that is too large for the store. Returns false if it has a single row.
    pub(crate) fn split(&self) -> bool {
        let mut inner = self.lock();
        let is_split = inner.buffer.split();
        inner.batches_failed += u64::from(is_split);
        is_split
    }

    /// Records a failed attempt.
    pub(crate) fn failed(&self, why: &str) {
        let mut inner = self.lock();
        inner.batches_failed += 1;
        inner.failure = Some(why.to_owned());
    }

    /// Records that the store is unavailable. Returns true at the first call since the last
    /// success.
    pub(crate) fn mark_unavailable(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_unavailable, true)
    }

    /// Records a successful attempt. Returns true if the store was unavailable before.
    pub(crate) fn succeeded(&self) -> bool {
        let mut inner = self.lock();
        inner.failure = None;
        std::mem::take(&mut inner.is_unavailable)
    }

    fn lock(&self) -> MutexGuard<'_, HistoryInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
        history.failed("refused");
        assert!(!history.succeeded());
        history.failed("refused");
        assert!(history.mark_unavailable() && !history.mark_unavailable());
        assert!(history.succeeded() && !history.succeeded());
    }
}
