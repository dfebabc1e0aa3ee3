//! Start times of a check's runs: a fixed phase within the interval, plus random jitter.
//!
//! Every check has a phase derived from its name and the instance. So the checks of one process,
//! and the same checks of its replicas, do not all run at once, whatever their start times. Runs
//! follow the resulting grid: a delay by jitter or by a slow run does not shift later runs.

use doorbell_health::Time;
use siphasher::sip::SipHasher13;
use std::hash::Hasher as _;
use std::time::Duration;

/// Start times of one check.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// Position within any interval, in units of the interval / 2^64.
    phase: u64,
    /// Maximum jitter in percent of the interval, at most 50.
    jitter: u32,
    chance: u64,
}

impl Schedule {
    /// Creates a schedule. `instance` distinguishes replicas.
    pub(crate) fn new(instance: &str, check: &str, jitter: u32) -> Self {
        let mut hasher = SipHasher13::new_with_keys(0, 0);
        hasher.write(instance.as_bytes());
        hasher.write_u8(0);
        hasher.write(check.as_bytes());
        let phase = hasher.finish();
        Self { phase, jitter: jitter.min(50), chance: phase }
    }

    /// The phase, which determines the order of the first runs.
    pub(crate) const fn phase(&self) -> u64 {
        self.phase
    }

    /// Start of the next run, if the last run started at `start` and ended at `now`: the first grid
    /// position at least half an interval after `start`, plus up to `jitter`. An overdue run is due
    /// now.
    pub(crate) fn next(&mut self, start: Time, interval: Duration, now: Time) -> Time {
        let interval = nanos(interval).max(1);
        let phase = scaled(self.phase, interval);
        let earliest = start.as_nanos().saturating_add(interval / 2);
        let beyond = earliest.saturating_sub(phase).div_ceil(interval);
        let place = beyond.saturating_mul(interval).saturating_add(phase);
        let late = scaled(self.roll(), interval / 100 * u64::from(self.jitter));
        Time::from_nanos(place.saturating_add(late)).max(now)
    }

    /// Start of the next run, if the last run started at `start` and no probe requests an earlier
    /// one: a random time in the third quarter of `max_age`, so that a result is renewed in time
    /// and replicas that started together drift apart.
    pub(crate) fn renew(&mut self, start: Time, max_age: Duration) -> Time {
        let max_age = nanos(max_age);
        let chance = scaled(self.roll(), max_age / 4);
        Time::from_nanos(start.as_nanos().saturating_add(max_age / 2).saturating_add(chance))
    }

    /// The next pseudo-random number (`SplitMix64`).
    fn roll(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.chance ^ (self.chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The fraction `part` / 2^64 of `len`.
fn scaled(part: u64, len: u64) -> u64 {
    u64::try_from((u128::from(part) * u128::from(len)) >> 64).unwrap_or(u64::MAX)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn starts(schedule: &mut Schedule, from: Time, interval: Duration, run: Duration) -> Vec<Time> {
        let mut all = vec![from];
        for _ in 0..200 {
            let start = all[all.len() - 1];
            all.push(schedule.next(start, interval, start.after(run)));
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// From the second run on, each interval of the grid contains exactly one run, regardless
        /// of delays.
        #[test]
        fn every_interval_has_one_run(
            from in 0_u64..1 << 50, millis in 100_u64..100_000, jitter in 0_u32..=50, name in "[a-z]{1,8}",
        ) {
            let interval = Duration::from_millis(millis);
            let mut schedule = Schedule::new("host", &name, jitter);
            let phase = scaled(schedule.phase(), nanos(interval));
            let all = starts(&mut schedule, Time::from_nanos(from), interval, interval / 4);
            let first = all[1].since(all[0]);
            prop_assert!(first >= interval / 2 && first <= interval * 2 + Duration::from_nanos(1));
            let place = |at: Time| (at.as_nanos() - phase) / nanos(interval);
            for pair in all[1..].windows(2) {
                prop_assert_eq!(place(pair[1]), place(pair[0]) + 1);
                let delay = (pair[1].as_nanos() - phase) % nanos(interval);
                prop_assert!(delay <= nanos(interval) / 100 * u64::from(jitter));
            }
        }
    }

    #[test]
    fn an_overrun_is_due_at_once_and_a_change_of_pace_finds_its_grid() {
        let mut schedule = Schedule::new("host", "db", 0);
        let start = schedule.next(Time::from_secs(100), SECOND, Time::from_secs(100));
        let over = start.after(SECOND * 3);
        assert_eq!(schedule.next(start, SECOND, over), over);
        let slow = schedule.next(over, SECOND * 10, over);
        assert!((SECOND * 5..=SECOND * 15).contains(&slow.since(over)), "{:?}", slow.since(over));
        assert_eq!(schedule.next(slow, SECOND * 10, slow).since(slow), SECOND * 10);
        assert_eq!(schedule.next(Time::MAX, SECOND, Time::ZERO), Time::MAX);
    }

    #[test]
    fn an_unprobed_check_is_renewed_before_its_result_is_old() {
        let (mut schedule, age) = (Schedule::new("host", "db", 0), SECOND * 60);
        let start = Time::from_secs(1_000);
        let waits: Vec<u64> = (0..400).map(|_| schedule.renew(start, age).since(start).as_secs()).collect();
        assert!(waits.iter().all(|wait| (30..45).contains(wait)), "{waits:?}");
        assert!((30..45).all(|second| waits.contains(&second)), "{waits:?}");
        assert_eq!(schedule.renew(Time::MAX, age), Time::MAX);
    }

    /// No tenth of the interval may contain more than 1.5 times its fair share of runs.
    #[test]
    fn checks_and_replicas_are_spread() {
        for (instances, checks) in [(1, 10_000), (500, 20)] {
            let mut tenths = [0; 10];
            for instance in 0..instances {
                for check in 0..checks {
                    let schedule = Schedule::new(&format!("pod-{instance}"), &format!("check-{check}"), 10);
                    tenths[usize::try_from(scaled(schedule.phase(), 10)).unwrap()] += 1;
                }
            }
            assert!(tenths.iter().all(|&count| (850..1150).contains(&count)), "{tenths:?}");
        }
        let once = Schedule::new("a", "bc", 0).phase();
        assert_eq!(once, Schedule::new("a", "bc", 0).phase(), "the same in every process");
        assert_ne!(once, Schedule::new("ab", "c", 0).phase());
    }
}
