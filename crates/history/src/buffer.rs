//! The bounded buffer: rows by kind, the batch in progress, and exact counters.
//!
//! A full buffer drops the oldest row of the least important kind. Dropping the oldest row leaves
//! no gap between the remaining rows and the present, so they show the current state correctly.
//! Kinds are ranked because one transition explains more than many results.

use crate::row::{Kind, Row};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows per block. Memory is allocated and released in blocks.
const BLOCK: usize = 256;

/// A batch takes at most about 1 / `BATCH_SHARE` of the buffer.
const BATCH_SHARE: usize = 4;

/// The bounded buffer.
#[derive(Debug)]
pub struct Buffer {
    queues: [Queue; Kind::ALL.len()],
    bytes: usize,
    bytes_max: usize,
    counts: [Counts; Kind::ALL.len()],
    /// The batch in progress; its parts, if it was split.
    pending: VecDeque<Arc<Batch>>,
}

/// Rows of one kind that are written together.
#[derive(Debug)]
pub struct Batch {
    kind: Kind,
    rows: Vec<Row>,
    bytes: usize,
}

/// Counters of one kind. `added` is the sum of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows that were added.
    pub added: u64,
    /// Rows that the store has accepted.
    pub written: u64,
    /// Rows that were dropped because the buffer was full.
    pub full: u64,
    /// Rows that were dropped because the store refused them.
    pub refused: u64,
    /// Rows that were dropped at shutdown.
    pub ended: u64,
    /// Rows in the buffer, including those being written.
    pub live: u64,
}

/// Rows in blocks, oldest first.
#[derive(Debug, Default)]
struct Queue(VecDeque<VecDeque<Row>>);

impl Batch {
    /// The kind of all rows.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The rows, oldest first.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl Counts {
    /// Rows that were dropped for any reason.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.full + self.refused + self.ended
    }
}

impl Buffer {
    /// Creates an empty buffer for at most `bytes_max` bytes of rows.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let (queues, counts, pending) = Default::default();
        Self { queues, bytes: 0, bytes_max, counts, pending }
    }

    /// Changes the limit. Rows that exceed it are dropped.
    pub fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.make_room();
    }

    /// Adds a row. If the buffer is then over its limit, the oldest rows of the least important
    /// kind are dropped, possibly this one.
    pub fn push(&mut self, row: Row) {
        let kind = row.kind();
        self.bytes += row.bytes();
        let counts = &mut self.counts[kind as usize];
        (counts.added, counts.live) = (counts.added + 1, counts.live + 1);
        self.queues[kind as usize].push(row);
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.bytes > self.bytes_max {
            let mut oldest = Kind::ALL.iter().rev().map(|kind| *kind as usize);
            let Some((kind, row)) = oldest.find_map(|kind| Some((kind, self.queues[kind].pop()?))) else {
                return;
            };
            self.bytes -= row.bytes();
            self.counts[kind].full += 1;
            self.counts[kind].live -= 1;
        }
    }

    /// Returns the batch to write next: the unfinished batch if there is one, otherwise the oldest
    /// rows of the most important kind. The batch remains part of the buffer until
    /// [`Self::written`] or [`Self::refused`].
    pub fn next(&mut self, rows_max: usize) -> Option<Arc<Batch>> {
        if self.pending.is_empty() {
            let kind = Kind::ALL.into_iter().find(|kind| !self.queues[*kind as usize].is_empty())?;
            let (mut rows, mut bytes) = (Vec::new(), 0);
            while rows.len() < rows_max.max(1) && (rows.is_empty() || bytes < self.bytes_max / BATCH_SHARE) {
                let Some(row) = self.queues[kind as usize].pop() else { break };
                bytes += row.bytes();
                rows.push(row);
            }
            self.pending.push_back(Arc::new(Batch { kind, rows, bytes }));
        }
        self.pending.front().cloned()
    }

    /// Removes the unfinished batch, after the store has accepted it.
    pub fn written(&mut self) {
        self.finish(|counts, rows| counts.written += rows);
    }

    /// Removes the unfinished batch, after the store has refused it permanently.
    pub fn refused(&mut self) {
        self.finish(|counts, rows| counts.refused += rows);
    }

    /// Splits the unfinished batch into two halves, which are the next batches. Returns false if it
    /// has a single row.
    pub fn split(&mut self) -> bool {
        let Some(batch) = self.pending.front().filter(|batch| batch.rows.len() > 1) else { return false };
        let (first, second) = batch.rows.split_at(batch.rows.len() / 2);
        let halves = [first, second].map(|rows| {
            let bytes = rows.iter().map(Row::bytes).sum();
            Arc::new(Batch { kind: batch.kind, rows: rows.to_vec(), bytes })
        });
        self.pending.pop_front();
        halves.into_iter().rev().for_each(|half| self.pending.push_front(half));
        true
    }

    fn finish(&mut self, count: impl Fn(&mut Counts, u64)) {
        let Some(batch) = self.pending.pop_front() else { return };
        self.bytes -= batch.bytes;
        let counts = &mut self.counts[batch.kind as usize];
        counts.live -= batch.rows.len() as u64;
        count(counts, batch.rows.len() as u64);
    }

    /// Drops all rows at shutdown and returns their number.
    pub fn end(&mut self) -> u64 {
        let before = self.counts.map(|counts| counts.ended);
        self.pending.clear();
        for (queue, counts) in self.queues.iter_mut().zip(&mut self.counts) {
            counts.ended += std::mem::take(&mut counts.live);
            queue.0.clear();
        }
        self.bytes = 0;
        self.counts.iter().zip(before).map(|(counts, before)| counts.ended - before).sum()
    }

    /// Number of rows, including those being written.
    #[must_use]
    pub fn rows(&self) -> usize {
        let live: u64 = self.counts.iter().map(|counts| counts.live).sum();
        usize::try_from(live).unwrap_or(usize::MAX)
    }

    /// Memory of all rows in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is an unfinished batch.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Counters, in the order of [`Kind::ALL`].
    #[must_use]
    pub const fn counts(&self) -> &[Counts; Kind::ALL.len()] {
        &self.counts
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, row: Row) {
        if self.0.back().is_none_or(|block| block.len() == block.capacity()) {
            self.0.push_back(VecDeque::with_capacity(BLOCK));
        }
        if let Some(block) = self.0.back_mut() {
            block.push_back(row);
        }
    }

    /// Removes the oldest row.
    fn pop(&mut self) -> Option<Row> {
        let block = self.0.front_mut()?;
        let row = block.pop_front();
        if block.is_empty() {
            self.0.pop_front();
        }
        row
    }
}
