//! Keeps what is cheap at home: learns what a handler's work costs and runs it where that is cheaper.
//!
//! Does not know about: what the work is, how a job gets to another thread.
//!
//! Work begins elsewhere. Every run is timed, there and at home, by two readings of the clock (no system call on the usual machine:
//! vdso(7)). When a row of runs all took no longer than the limit, work is done on the ring thread. The first run above the limit sends it
//! away again, so that a ring thread meets one such run and not the next; what other ring threads have begun by then is finished
//! there. Each time the row for coming back is doubled, up to [`ROW_MAX`], and [`FORGIVEN_AFTER`] cheap runs at home halve it: the clock
//! cannot tell dear work from a thread that was interrupted, and interruptions must not drive cheap work away for good. So work of which fewer than one run in [`FORGIVEN_AFTER`] is dear stays at home mostly, and work
//! of which more are ends up elsewhere mostly. What is judged is a handler and not a single run, so use one [`Auto`] for each kind of work;
//! and work that waits (for a disk, a lock) is no work for a ring thread, however quick it was so far.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use doorbell_http::{Answered, Request, Responder};
use rustix::time::{ClockId, clock_gettime};

use super::{Answer, Offload};

/// So many runs in a row within the limit bring work home at first.
pub const ROW_MIN: u32 = 64;

/// No row is longer than this: how long work stays away after many failures.
pub const ROW_MAX: u32 = ROW_MIN << LEVEL_MAX;

/// So many runs in a row within the limit at home undo one failure.
pub const FORGIVEN_AFTER: u32 = 1_024;

/// How often a row is doubled.
const LEVEL_MAX: u32 = 10;

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
    /// A [`State`] in one word: what several threads learn at once is learnt one after the other.
    state: AtomicU32,
}

/// Where work is done, and what the runs so far say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    at_home: bool,
    /// How often the first row was doubled.
    level: u32,
    /// Runs within the limit since the last one that was not, or since the last change.
    row: u32,
}

impl Offload {
    /// Jobs of one kind that are done at home while they are cheap. The default limit is 10 µs.
    pub fn auto(&self) -> Auto {
        let learnt = Learnt { limit: LIMIT, clock: monotonic, state: AtomicU32::new(State::NEW.pack()) };
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
        self.learnt.state().at_home
    }

    /// Has `work` done and answers with what it gives back.
    pub fn run<'a, A: Into<Answer>>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Answered<'a> {
        let learnt = &self.learnt;
        if !self.is_at_home() {
            let learnt = Arc::clone(learnt);
            return self.offload.run(request, reply, move || learnt.timed(work).into());
        }
        match learnt.timed(work).into() {
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

    fn learn(&self, took: Duration) {
        let cheap = took <= self.limit && !self.limit.is_zero();
        let changed = |packed| {
            let state = State::unpack(packed);
            let next = state.after(cheap);
            // Usually nothing is learnt, and no other thread's copy of the word is touched.
            (next != state).then(|| next.pack())
        };
        let _as_it_was = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }

    fn state(&self) -> State {
        State::unpack(self.state.load(Ordering::Relaxed))
    }
}

impl State {
    const NEW: Self = Self { at_home: false, level: 0, row: 0 };

    const fn pack(self) -> u32 {
        (self.at_home as u32) << 31 | self.level << 24 | self.row
    }

    const fn unpack(packed: u32) -> Self {
        Self { at_home: packed >> 31 != 0, level: packed >> 24 & 0x7f, row: packed & 0x00ff_ffff }
    }

    fn after(self, cheap: bool) -> Self {
        let Self { at_home, level, row } = self;
        match (cheap, at_home) {
            (true, true) if level == 0 => self,
            (true, true) if row + 1 >= FORGIVEN_AFTER => Self { level: level - 1, row: 0, ..self },
            (true, false) if row + 1 >= ROW_MIN << level => Self { at_home: true, row: 0, ..self },
            (true, _) => Self { row: row + 1, ..self },
            (false, true) => Self { at_home: false, level: (level + 1).min(LEVEL_MAX), row: 0 },
            (false, false) => Self { row: 0, ..self },
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
            .field("state", &self.state())
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

    #[test]
    fn failures_are_forgiven_one_by_one_and_none_is_for_good() {
        let work = auto();
        for failures in 0..100 {
            learn(&work, 10, ROW_MIN << failures.min(LEVEL_MAX));
            assert!(work.is_at_home(), "however often it failed");
            learn(&work, 11, 1);
        }
        assert_eq!(work.learnt.state(), State { at_home: false, level: LEVEL_MAX, row: 0 });
        learn(&work, 10, ROW_MAX - 1);
        assert!(!work.is_at_home());
        learn(&work, 10, 1);
        for forgiven in 1..=LEVEL_MAX {
            learn(&work, 10, FORGIVEN_AFTER - 1);
            assert_eq!(work.learnt.state().level, LEVEL_MAX - forgiven + 1);
            learn(&work, 10, 1);
            assert_eq!(work.learnt.state().level, LEVEL_MAX - forgiven);
        }
        learn(&work, 10, 10 * FORGIVEN_AFTER);
        learn(&work, 11, 1);
        learn(&work, 10, 2 * ROW_MIN);
        assert!(work.is_at_home(), "as after the first failure");
    }

    /// A thread that is interrupted once in 2,000 runs looks dear then; work that is dear once in 500 runs is.
    #[test]
    fn rare_interruptions_leave_work_at_home_and_frequent_ones_do_not() {
        for (one_in, at_home_percent) in [(2_000, 90..=100), (500, 0..=10)] {
            let (work, mut at_home) = (auto(), 0_u32);
            for run in 0..2_000_000_u32 {
                if run >= 1_000_000 {
                    at_home += u32::from(work.is_at_home());
                }
                learn(&work, if run % one_in == 0 { 1_000 } else { 1 }, 1);
            }
            assert!(at_home_percent.contains(&(at_home / 10_000)), "1 in {one_in}: {at_home}");
        }
    }

    #[test]
    fn a_state_survives_its_word() {
        for at_home in [false, true] {
            for level in 0..=LEVEL_MAX {
                for row in [0, 1, FORGIVEN_AFTER, ROW_MAX] {
                    let state = State { at_home, level, row };
                    assert_eq!(State::unpack(state.pack()), state);
                }
            }
        }
    }

    /// What is found dear is away, whatever other threads are just learning from cheap runs.
    #[test]
    fn a_dear_run_is_not_undone_by_a_cheap_one_at_the_same_time() {
        for round in 0..2_000 {
            let work = auto();
            let was_at_home = round % 2 == 1;
            learn(&work, 1, ROW_MIN - u32::from(!was_at_home));
            std::thread::scope(|scope| {
                let work = &work;
                scope.spawn(|| learn(work, 1, 10));
                learn(work, 11, 1);
            });
            // Without a run that was at home the cheap ones may have come first: then the dear one sent it away again, or after it:
            // then ten are no row.
            let state = work.learnt.state();
            assert!(!state.at_home && (state.level == 1 || !was_at_home), "{state:?}");
        }
    }
}
