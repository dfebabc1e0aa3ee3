//! The jobs of one class that wait, in order and bounded.
//!
//! Does not know about: other classes, who takes them.
//!
//! A job that is called off gives up its claim at once, so that clients who ask and leave keep nobody out. Its entry stays where it is until its turn
//! comes, or until as many such entries have gathered as jobs may wait: then one round of the queue clears them all. So the work for an entry
//! is bounded whoever leaves, and a queue that is full of jobs that wait is never looked through.

use super::job::{Entry, StartedJob};
use crate::sync::ArrayQueue;
use crate::sync::atomic::{AtomicU64, Ordering};

/// See the [module](self).
pub(super) struct Line {
    entries: ArrayQueue<Entry>,
    /// Jobs that wait, in the lower half, at most `jobs_max`. In the upper half places that are taken, by them, by entries of jobs that were
    /// called off, and by what somebody has just in hand: at most as many as `entries` has, so that each finds room in it.
    counts: AtomicU64,
    jobs_max: u32,
    places_max: u32,
    /// Entries that were cleared.
    swept: AtomicU64,
}

/// What [`Line::take`] found.
pub(super) enum Taken {
    CalledOff,
    Job(StartedJob),
}

/// Why there is no room.
#[derive(PartialEq, Eq)]
enum Full {
    /// Those who were called off have the last places.
    CalledOff,
    Jobs,
}

const JOB: u64 = 1;
const PLACE: u64 = 1 << 32;

/// Entries a place of a job has: its own, and one that was called off.
const PLACES_A_JOB: u32 = 2;

impl Line {
    pub(super) fn new(jobs_max: usize) -> Self {
        let jobs_max = u32::try_from(jobs_max).unwrap_or(u32::MAX).clamp(1, u32::MAX / PLACES_A_JOB);
        let places_max = jobs_max * PLACES_A_JOB;
        Self {
            entries: ArrayQueue::new(places_max as usize),
            counts: AtomicU64::new(0),
            jobs_max,
            places_max,
            swept: AtomicU64::new(0),
        }
    }

    /// False when as many wait as may.
    pub(super) fn push(&self, entry: Entry) -> bool {
        let mut entered = self.enter();
        if entered == Err(Full::CalledOff) {
            self.sweep();
            // To change nothing is to see what others have just given back: a load may find what was there before.
            self.counts.fetch_add(0, Ordering::AcqRel);
            entered = self.enter();
        }
        if entered.is_err() {
            return false;
        }
        let pushed = self.entries.push(entry).is_ok();
        debug_assert!(pushed, "whoever has a place finds room");
        if !pushed {
            self.counts.fetch_sub(JOB + PLACE, Ordering::AcqRel);
        }
        pushed
    }

    /// The next entry.
    pub(super) fn take(&self) -> Option<Taken> {
        let started = self.entries.pop()?.start();
        let gone = if started.is_some() { JOB + PLACE } else { PLACE };
        self.counts.fetch_sub(gone, Ordering::AcqRel);
        Some(started.map_or(Taken::CalledOff, Taken::Job))
    }

    /// One that waits was called off.
    pub(super) fn called_off(&self) {
        self.counts.fetch_sub(JOB, Ordering::AcqRel);
    }

    /// Jobs that wait and were not called off.
    pub(super) fn jobs(&self) -> usize {
        jobs(self.counts.load(Ordering::Relaxed)) as usize
    }

    pub(super) fn swept(&self) -> u64 {
        self.swept.load(Ordering::Relaxed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn enter(&self) -> Result<(), Full> {
        let one_more = |counts| {
            (jobs(counts) < self.jobs_max && places(counts) < self.places_max).then_some(counts + JOB + PLACE)
        };
        match self.counts.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(_) => Ok(()),
            Err(counts) if jobs(counts) < self.jobs_max => Err(Full::CalledOff),
            Err(_) => Err(Full::Jobs),
        }
    }

    /// One round of the queue without those that were called off. Those that stay keep their order; what others bring meanwhile may come
    /// to stand before them.
    #[cold]
    fn sweep(&self) {
        for _ in 0..self.entries.len() {
            let Some(entry) = self.entries.pop() else { return };
            if entry.is_called_off() {
                self.counts.fetch_sub(PLACE, Ordering::AcqRel);
                self.swept.fetch_add(1, Ordering::Relaxed);
            } else if let Err(entry) = self.entries.push(entry) {
                debug_assert!(false, "it has kept its place");
                // Whoever waits hears that his job is lost.
                drop(entry.start());
                self.counts.fetch_sub(JOB + PLACE, Ordering::AcqRel);
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn jobs(counts: u64) -> u32 {
    counts as u32
}

const fn places(counts: u64) -> u32 {
    (counts >> 32) as u32
}
