//! The bounded queue of one class of jobs.
//!
//! A cancelled job no longer counts towards the limit, so clients that leave do not block others.
//! The entry of a cancelled job stays in the queue until it is taken, or until such entries fill
//! the spare capacity of the queue: then one pass removes all of them. So the work per entry is
//! bounded, and a queue full of waiting jobs is never scanned.

use super::job::{Entry, StartedJob};
use crate::sync::ArrayQueue;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The queue. The [module](self) documents it.
pub(super) struct Line {
    entries: ArrayQueue<Entry>,
    /// Two counts. Lower half: number of waiting jobs, at most `jobs_max`. Upper half: number of
    /// used places, which are waiting jobs, entries of cancelled jobs, and entries in transit. The
    /// number of used places is at most the capacity of `entries`, so that every push finds room.
    counts: AtomicU64,
    jobs_max: u32,
    places_max: u32,
    /// Number of entries removed by passes.
    swept: AtomicU64,
}

/// Result of [`Line::take`].
pub(super) enum TakeResult {
    CalledOff,
    Job(StartedJob),
}

/// The reason why a job cannot be queued.
#[derive(PartialEq, Eq)]
enum Full {
    /// All places are used, some of them by entries of cancelled jobs.
    CalledOff,
    Jobs,
}

const JOB: u64 = 1;
const PLACE: u64 = 1 << 32;

/// Capacity of the queue per waiting job: one entry for the job and one for a cancelled job.
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

    /// Queues an entry. Returns false if the queue is full.
    pub(super) fn push(&self, entry: Entry) -> bool {
        let mut entered = self.enter();
        if entered == Err(Full::CalledOff) {
            self.sweep();
            // A read-modify-write observes places that other threads have just freed; a plain load
            // may return an older value.
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
    pub(super) fn take(&self) -> Option<TakeResult> {
        let started = self.entries.pop()?.start();
        let gone = if started.is_some() { JOB + PLACE } else { PLACE };
        self.counts.fetch_sub(gone, Ordering::AcqRel);
        Some(started.map_or(TakeResult::CalledOff, TakeResult::Job))
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

    /// Removes cancelled entries in one pass. The other entries keep their order; entries that are
    /// added during the pass may end up before them.
    #[cold]
    fn sweep(&self) {
        for _ in 0..self.entries.len() {
            let Some(entry) = self.entries.pop() else { return };
            if entry.is_called_off() {
                self.counts.fetch_sub(PLACE, Ordering::AcqRel);
                self.swept.fetch_add(1, Ordering::Relaxed);
            } else if let Err(entry) = self.entries.push(entry) {
                debug_assert!(false, "an entry in transit keeps its place");
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
