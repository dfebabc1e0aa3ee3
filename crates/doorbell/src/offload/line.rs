//! The bounded queue of one class of jobs.
//!
//! Does not know about: other classes, threads.
//!
//! A cancelled job frees its place at once, so that clients that leave do not block others. Its
//! entry stays in the queue until its turn, or until there are as many such entries as jobs may
//! wait: then one pass over the queue removes all of them. So the work per entry is bounded, and a
//! queue full of waiting jobs is never scanned.

use super::job::{Entry, StartedJob};
use crate::sync::ArrayQueue;
use crate::sync::atomic::{AtomicU64, Ordering};

/// See the [module](self).
pub(super) struct Line {
    entries: ArrayQueue<Entry>,
    /// Lower half: waiting jobs, at most `jobs_max`. Upper half: used places, that is, waiting
    /// jobs, entries of cancelled jobs, and entries in transit. Their number is at most the
    /// capacity of `entries`, so that every push finds room.
    counts: AtomicU64,
    jobs_max: u32,
    places_max: u32,
    /// Number of entries removed by passes.
    swept: AtomicU64,
}

/// Result of [`Line::take`].
pub(super) enum Taken {
    CalledOff,
    Job(StartedJob),
}

/// Why there is no room.
#[derive(PartialEq, Eq)]
enum Full {
    /// Entries of cancelled jobs occupy the last places.
    CalledOff,
    Jobs,
}

const JOB: u64 = 1;
const PLACE: u64 = 1 << 32;

/// Entries per waiting job: its own, and one of a cancelled job.
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

    /// False if the maximum number of jobs waits.
    pub(super) fn push(&self, entry: Entry) -> bool {
        let mut entered = self.enter();
        if entered == Err(Full::CalledOff) {
            self.sweep();
            // A read-modify-write sees places that other threads have just freed; a plain load may
            // see an older value.
            self.counts.fetch_add(0, Ordering::AcqRel);
            entered = self.enter();
        }
        if entered.is_err() {
            return false;
        }
        let pushed = self.entries.push(entry).is_ok();
        debug_assert!(pushed, "a counted entry finds room");
        if !pushed {
            self.counts.fetch_sub(JOB + PLACE, Ordering::AcqRel);
        }
        pushed
    }

    /// Takes the next entry.
    pub(super) fn take(&self) -> Option<Taken> {
        let started = self.entries.pop()?.start();
        let gone = if started.is_some() { JOB + PLACE } else { PLACE };
        self.counts.fetch_sub(gone, Ordering::AcqRel);
        Some(started.map_or(Taken::CalledOff, Taken::Job))
    }

    /// Records that a waiting job was cancelled.
    pub(super) fn called_off(&self) {
        self.counts.fetch_sub(JOB, Ordering::AcqRel);
    }

    /// Number of waiting jobs that were not cancelled.
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

    /// Removes cancelled entries in one pass. The others keep their order; entries that are added
    /// meanwhile may end up before them.
    #[cold]
    fn sweep(&self) {
        for _ in 0..self.entries.len() {
            let Some(entry) = self.entries.pop() else { return };
            if entry.is_called_off() {
                self.counts.fetch_sub(PLACE, Ordering::AcqRel);
                self.swept.fetch_add(1, Ordering::Relaxed);
            } else if let Err(entry) = self.entries.push(entry) {
                debug_assert!(false, "it has kept its place");
                // Dropping the started job reports the loss to the waiting request.
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
