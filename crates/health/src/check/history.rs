//! The last results of one check, in a ring buffer of fixed size.

use std::time::Duration;

use super::state::{CheckResult, Outcome};
use crate::time::Time;

/// One stored result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time of arrival.
    pub at: Time,
    /// The outcome of the run.
    pub outcome: Outcome,
    latency_us: u32,
}

impl Entry {
    /// Duration of the run, rounded down to microseconds; at most 71 minutes.
    pub const fn latency(&self) -> Duration {
        Duration::from_micros(self.latency_us as u64)
    }
}

/// A ring buffer of results.
#[derive(Clone, Debug)]
pub struct History {
    entries: Vec<Entry>,
    len_max: usize,
    /// Position of the oldest entry, which a full ring overwrites next; 0 until the ring is full.
    next: usize,
}

// 16 bytes per result, so that 10,000 checks with 200 results each take 32 MB.
const _: () = assert!(size_of::<Entry>() == 16);

impl History {
    pub(super) fn new(len_max: usize) -> Self {
        Self { entries: Vec::with_capacity(len_max), len_max, next: 0 }
    }

    /// Copies the last results into a ring of this length.
    pub(super) fn resized(&self, len_max: usize) -> Self {
        let mut history = Self::new(len_max);
        self.iter().for_each(|entry| history.put(*entry));
        history
    }

    pub(super) fn push(&mut self, result: &CheckResult<'_>, at: Time) {
        let latency_us = u32::try_from(result.latency.as_micros()).unwrap_or(u32::MAX);
        self.put(Entry { at, outcome: result.outcome, latency_us });
    }

    fn put(&mut self, entry: Entry) {
        if self.entries.len() < self.len_max {
            self.entries.push(entry);
        } else if let Some(oldest) = self.entries.get_mut(self.next) {
            *oldest = entry;
            self.next = (self.next + 1) % self.len_max;
        }
    }

    /// The results, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Entry> {
        let (len, start) = (self.entries.len(), self.next);
        (0..len).map(move |at| &self.entries[(start + at) % len])
    }
}
