//! Measures the run time of a handler's work. Runs cheap work on the ring thread and other work in
//! jobs.
//!
//! Work starts in jobs. Every run is timed, in jobs and on the ring thread, by two clock readings
//! (usually no system call: vdso(7)). After a *row*, which is a number of consecutive runs within
//! the limit, work moves to the ring thread, called *home* in names. The first run above the limit
//! moves it back, so a ring thread has only one such run. A run that has already begun on another
//! ring thread finishes there.
//!
//! Each move back doubles the length of the row that is needed to return, up to [`ROW_MAX`];
//! [`FORGIVEN_AFTER`] cheap runs on the ring thread halve that length. The clock cannot distinguish
//! expensive work from an interrupted thread; with the halving, interruptions do not keep cheap
//! work in jobs forever. Work that is expensive in fewer than one of [`FORGIVEN_AFTER`] runs mostly
//! stays on the ring thread, and other work mostly runs in jobs.
//!
//! The decision applies to all runs, not to a single one, so use one [`Auto`] for each kind of
//! work. Work that waits (for a disk, a lock) does not belong on a ring thread, however fast
//! earlier runs were.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use doorbell_http::{Replied, Request, Responder};
use rustix::time::{ClockId, clock_gettime};

use super::{JobReply, Offload};

/// Number of consecutive runs within the limit after which work first moves to the ring thread.
pub const ROW_MIN: u32 = 64;

/// Maximum number of consecutive runs within the limit after which work returns to the ring thread,
/// however many expensive runs came before.
pub const ROW_MAX: u32 = ROW_MIN << LEVEL_MAX;

/// Number of consecutive runs within the limit on the ring thread after which the number of runs
/// that are needed to return to the ring thread is halved.
pub const FORGIVEN_AFTER: u32 = 1_024;

/// Maximum number of times the required row of cheap runs is doubled.
const LEVEL_MAX: u32 = 10;

/// Default limit: work up to this duration runs on the ring thread. With many clients, jobs break
/// even at about this duration (`manual::compute_lane`).
const LIMIT: Duration = Duration::from_micros(10);

/// A runner for one kind of work, on the ring thread or in jobs.
///
/// Cheap to clone; clones share their measurements.
#[derive(Clone, Debug)]
pub struct Auto {
    offload: Offload,
    measurements: Arc<Measurements>,
}

/// Measurements of one kind of work.
struct Measurements {
    limit: Duration,
    clock: fn() -> Duration,
    /// A [`State`] packed into one word, so that updates of several threads are atomic.
    state: AtomicU32,
}

/// Where work runs, and a summary of the runs so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    at_home: bool,
    /// Number of doublings of the required row that are in effect.
    level: u32,
    /// Consecutive runs within the limit since the last change of `at_home` or `level`. Not counted
    /// on the ring thread at level 0.
    row: u32,
}

impl Offload {
    /// Returns a runner for one kind of work: on the ring thread while it is cheap, otherwise in
    /// jobs. Default limit: 10 µs ([`Auto::limit`]).
    pub fn auto(&self) -> Auto {
        let measurements =
            Measurements { limit: LIMIT, clock: monotonic, state: AtomicU32::new(State::NEW.pack()) };
        Auto { offload: self.clone(), measurements: Arc::new(measurements) }
    }
}

impl Auto {
    /// Sets the limit for running on the ring thread and discards all measurements. With zero, work
    /// always runs in jobs.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        let clock = self.measurements.clock;
        let mut fresh = self.offload.auto();
        if let Some(measurements) = Arc::get_mut(&mut fresh.measurements) {
            (measurements.limit, measurements.clock) = (limit, clock);
        }
        fresh
    }

    /// Whether the next run is on the ring thread.
    pub fn is_at_home(&self) -> bool {
        self.measurements.state().at_home
    }

    /// Runs `work` and replies with its result.
    pub fn run<'a, A: Into<JobReply>>(
        &self,
        request: &Request<'_>,
        reply: Responder<'a>,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Replied<'a> {
        let measurements = &self.measurements;
        if !self.is_at_home() {
            let measurements = Arc::clone(measurements);
            return self.offload.run(request, reply, move || measurements.timed(work).into());
        }
        match measurements.timed(work).into() {
            JobReply::Reply(made) => reply.send_owned(made),
            JobReply::Then(finish) => finish(reply),
        }
    }
}

impl Measurements {
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
            // Usually the state does not change; then the cache line is not written.
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

impl fmt::Debug for Measurements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measurements")
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
        (0..times).for_each(|_| auto.measurements.learn(Duration::from_micros(micros)));
    }

    #[test]
    fn cheap_work_moves_home_after_a_row_and_expensive_work_never() {
        let work = auto();
        learn(&work, 10, ROW_MIN - 1);
        assert!(!work.is_at_home(), "one run is missing from the row");
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
        // With one expensive run in each short row, work never moves to the ring thread.
        for _ in 0..10_000 {
            learn(&work, 1, ROW_MIN - 1);
            learn(&work, 51, 1);
            assert!(!work.is_at_home());
        }
    }

    #[test]
    fn failures_are_forgiven_one_by_one_and_none_is_permanent() {
        let work = auto();
        for failures in 0..100 {
            learn(&work, 10, ROW_MIN << failures.min(LEVEL_MAX));
            assert!(work.is_at_home(), "work returns after any number of failures");
            learn(&work, 11, 1);
        }
        assert_eq!(work.measurements.state(), State { at_home: false, level: LEVEL_MAX, row: 0 });
        learn(&work, 10, ROW_MAX - 1);
        assert!(!work.is_at_home());
        learn(&work, 10, 1);
        for forgiven in 1..=LEVEL_MAX {
            learn(&work, 10, FORGIVEN_AFTER - 1);
            assert_eq!(work.measurements.state().level, LEVEL_MAX - forgiven + 1);
            learn(&work, 10, 1);
            assert_eq!(work.measurements.state().level, LEVEL_MAX - forgiven);
        }
        learn(&work, 10, 10 * FORGIVEN_AFTER);
        learn(&work, 11, 1);
        learn(&work, 10, 2 * ROW_MIN);
        assert!(work.is_at_home(), "the row is as long as after the first failure");
    }

    /// One slow run in 2,000 is treated as an interruption, one in 500 as expensive work.
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
    fn a_state_is_unchanged_by_packing() {
        for at_home in [false, true] {
            for level in 0..=LEVEL_MAX {
                for row in [0, 1, FORGIVEN_AFTER, ROW_MAX] {
                    let state = State { at_home, level, row };
                    assert_eq!(State::unpack(state.pack()), state);
                }
            }
        }
    }

    /// An expensive run moves work to jobs, even if other threads finish cheap runs at the same
    /// moment.
    #[test]
    fn an_expensive_run_is_not_undone_by_a_concurrent_cheap_one() {
        for round in 0..2_000 {
            let work = auto();
            let was_at_home = round % 2 == 1;
            learn(&work, 1, ROW_MIN - u32::from(!was_at_home));
            std::thread::scope(|scope| {
                let work = &work;
                scope.spawn(|| learn(work, 1, 10));
                learn(work, 11, 1);
            });
            // If work was in jobs before, it is in jobs now, in either order of the runs: an
            // expensive run after the cheap runs moves it back to jobs, and ten cheap runs after
            // the expensive run are too few for a row.
            let state = work.measurements.state();
            assert!(!state.at_home && (state.level == 1 || !was_at_home), "{state:?}");
        }
    }
}
