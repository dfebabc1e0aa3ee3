//! Keeps what is cheap at home: learns what a handler's work costs and runs it where that is cheaper.
//!
//! Does not know about: what the work is, how a job gets to another thread.
//!
//! Work begins elsewhere, where each run is timed. When a row of them all took no longer than the limit, work is done on the ring
//! thread; there one run in [`TIMED_ONE_IN`] is timed, so that the ring lane reads no clock for a request. A timed run above the limit
//! sends the work away again, for a row twice as long: work whose cost varies around the limit ends up elsewhere. What is judged
//! is a handler and not a single run, so use one [`Auto`] for each kind of work; and work that waits (for a disk, a lock) is no work
//! for a ring thread, however quick it was so far.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use doorbell_http::{Answered, Request, Responder};
use rustix::time::{ClockId, clock_gettime};

use super::{Answer, Offload};

/// On the ring thread one run in so many is timed.
pub const TIMED_ONE_IN: u32 = 64;

/// So many runs in a row within the limit bring work home at first, and after many failures.
const ROW_MIN: u32 = 64;
const ROW_MAX: u32 = 1 << 20;

/// Work up to this is done at home: what a trip to another thread costs both threads together (`manual::compute_lane`).
const LIMIT: Duration = Duration::from_micros(10);

/// One kind of work, done on the ring thread or elsewhere. Cheap to clone; clones learn together.
#[derive(Clone, Debug)]
pub struct Auto {
    offload: Offload,
    learnt: Arc<Learnt>,
}

/// What is known about one kind of work.
struct Learnt {
    limit: Duration,
    clock: fn() -> Duration,
    at_home: AtomicBool,
    /// Runs within the limit since the last one that was not.
    row: AtomicU32,
    /// How long a row has to be.
    row_wanted: AtomicU32,
    /// Runs at home, for choosing those that are timed.
    turn: AtomicU32,
}

impl Offload {
    /// Jobs of one kind that are done at home while they are cheap. The default limit is 10 µs.
    pub fn auto(&self) -> Auto {
        let learnt = Learnt {
            limit: LIMIT,
            clock: monotonic,
            at_home: AtomicBool::new(false),
            row: AtomicU32::new(0),
            row_wanted: AtomicU32::new(ROW_MIN),
            turn: AtomicU32::new(0),
        };
        Auto { offload: self.clone(), learnt: Arc::new(learnt) }
    }
}

impl Auto {
    /// Forgets what was learnt; work up to `limit` is done at home. Zero: none.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        let clock = self.learnt.clock;
        let mut fresh = self.offload.auto();
        if let Some(learnt) = Arc::get_mut(&mut fresh.learnt) {
            (learnt.limit, learnt.clock) = (limit, clock);
        }
        fresh
    }

    /// Whether the next run is done on the ring thread.
    pub fn is_at_home(&self) -> bool {
        self.learnt.at_home.load(Ordering::Relaxed)
    }

    /// Has `work` done and answers with what it gives back.
    pub fn run<A: Into<Answer>>(
        &self,
        request: &Request<'_>,
        reply: Responder<'_>,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Answered {
        let learnt = &self.learnt;
        if !self.is_at_home() {
            let learnt = Arc::clone(learnt);
            return self.offload.run(request, reply, move || learnt.timed(work).into());
        }
        let timed = learnt.turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIMED_ONE_IN);
        match if timed { learnt.timed(work) } else { work() }.into() {
            Answer::Reply(made) => reply.send_owned(made),
            Answer::Then(finish) => finish(reply),
        }
    }
}

impl Learnt {
    fn timed<R>(&self, work: impl FnOnce() -> R) -> R {
        let begun = (self.clock)();
        let result = work();
        self.learn((self.clock)().saturating_sub(begun));
        result
    }

    /// Other threads learn at the same time: a row that is cut or begun twice only takes longer.
    fn learn(&self, took: Duration) {
        let row_wanted = self.row_wanted.load(Ordering::Relaxed);
        if took <= self.limit && !self.limit.is_zero() {
            if self.row.fetch_add(1, Ordering::Relaxed) + 1 >= row_wanted {
                self.at_home.store(true, Ordering::Relaxed);
            }
            return;
        }
        self.row.store(0, Ordering::Relaxed);
        if self.at_home.swap(false, Ordering::Relaxed) {
            self.row_wanted.store(row_wanted.saturating_mul(2).min(ROW_MAX), Ordering::Relaxed);
        }
    }
}

fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

impl fmt::Debug for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Learnt")
            .field("limit", &self.limit)
            .field("at_home", &self.at_home)
            .field("row", &self.row)
            .field("row_wanted", &self.row_wanted)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::{Executor, Pump};

    struct Nowhere;

    impl Executor for Nowhere {
        fn threads(&self) -> usize {
            1
        }

        fn spawn(&self, pump: Pump) {
            pump.run();
        }
    }

    fn auto() -> Auto {
        Offload::builder().build_on(Nowhere).auto()
    }

    fn learn(auto: &Auto, micros: u64, times: u32) {
        (0..times).for_each(|_| auto.learnt.learn(Duration::from_micros(micros)));
    }

    #[test]
    fn cheap_work_comes_home_after_a_row_and_dear_work_never() {
        let work = auto();
        learn(&work, 10, ROW_MIN - 1);
        assert!(!work.is_at_home(), "the row is one short");
        learn(&work, 10, 1);
        assert!(work.is_at_home());
        let dear = auto();
        learn(&dear, 11, 100_000);
        assert!(!dear.is_at_home());
        let never = auto().limit(Duration::ZERO);
        learn(&never, 0, 100_000);
        assert!(!never.is_at_home());
    }

    #[test]
    fn one_run_above_the_limit_sends_work_away_for_twice_as_long() {
        let work = auto().limit(Duration::from_micros(50));
        for round in 0..3 {
            let row = ROW_MIN << round;
            learn(&work, 50, row - 1);
            assert!(!work.is_at_home(), "round {round}");
            learn(&work, 50, 1);
            assert!(work.is_at_home(), "round {round}");
            learn(&work, 51, 1);
            assert!(!work.is_at_home(), "round {round}");
        }
        // A dear one in each short row: it never comes home.
        for _ in 0..10_000 {
            learn(&work, 1, ROW_MIN - 1);
            learn(&work, 51, 1);
            assert!(!work.is_at_home());
        }
    }
}
