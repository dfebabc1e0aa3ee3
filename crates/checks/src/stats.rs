//! Counters of each check by name, so that they survive a reload.

use crate::phase_times::{Phase, PhaseTimes};
use doorbell_health::{CheckState, Outcome};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Upper bounds in microseconds of all buckets but the last, which is unbounded.
pub const DURATION_BOUNDS_US: [u64; 7] = [500, 2_500, 10_000, 50_000, 250_000, 1_000_000, 5_000_000];

/// Histogram of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Counts per bucket, not cumulative; the last bucket is unbounded.
    pub buckets: [u64; DURATION_BOUNDS_US.len() + 1],
    /// Sum in microseconds.
    pub sum_us: u64,
}

/// Counters of one check.
///
/// A run takes the lock once.
#[derive(Debug, Default)]
pub struct CheckStats(Mutex<CheckCounts>);

/// Counters of one check at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    /// Counts by outcome and by the phase that decided the outcome. A list, because there are few
    /// such pairs.
    attempts: Vec<(Outcome, &'static str, u64)>,
    /// Durations by [`Phase`]; `None` for phases that did not occur.
    durations: [Option<Box<Durations>>; Phase::ALL.len()],
    /// Transitions by the new [`CheckState`].
    transitions: [u64; CheckState::ALL.len()],
    /// Runs that lasted longer than their interval.
    pub overruns: u64,
    /// Requests for a run while one was in progress.
    pub coalesced: u64,
    /// Requests for a run that were not needed because the last result was fresh.
    pub cache_hits: u64,
    /// Expiry of the server's certificates, in seconds since 1970; 0 if unknown.
    certificate_ends: u64,
}

/// Counters of all checks, by name.
#[derive(Debug, Default)]
pub struct StatsByCheck(Mutex<HashMap<Box<str>, Weak<CheckStats>>>);

/// Used if no phase decided the outcome: the response did not meet the expectations, or there were
/// no phases, as with a pushed result.
const VERDICT: &str = "verdict";

/// Used instead of a phase for [`Outcome::Success`].
const NONE: &str = "none";

impl Durations {
    fn add(&mut self, took_us: u64) {
        let bucket = DURATION_BOUNDS_US.partition_point(|bound| *bound < took_us);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.sum_us = self.sum_us.saturating_add(took_us);
    }
}

impl CheckStats {
    /// Counts a run.
    pub fn ran(
        &self,
        outcome: Outcome,
        latency: Duration,
        phase_times: &PhaseTimes,
        certificate: Option<Duration>,
    ) {
        let mut counts = self.lock();
        counts.attempt(outcome, phase_times.last.map_or(VERDICT, Phase::as_str));
        let timed =
            Phase::ALL.iter().zip(phase_times.took_us).filter_map(|(phase, took)| Some((*phase, took?)));
        let mut is_timed = false;
        for (phase, took_us) in timed {
            is_timed = true;
            counts.add_duration(phase, u64::from(took_us));
        }
        if !is_timed {
            counts.add_latency(latency);
        }
        if let Some(ends) = certificate {
            counts.certificate_ends = ends.as_secs();
        }
    }

    /// Counts a pushed result.
    pub fn pushed(&self, outcome: Outcome, latency: Duration) {
        let mut counts = self.lock();
        counts.attempt(outcome, VERDICT);
        // Zero means that the result came without a latency.
        if !latency.is_zero() {
            counts.add_latency(latency);
        }
    }

    /// Counts the result of an aborted run.
    pub fn aborted(&self, outcome: Outcome) {
        self.lock().attempt(outcome, VERDICT);
    }

    /// Counts a transition to `state`.
    pub fn moved_to(&self, state: CheckState) {
        self.lock().transitions[state as usize] += 1;
    }

    pub(crate) fn overran(&self) {
        self.lock().overruns += 1;
    }

    pub(crate) fn coalesced(&self) {
        self.lock().coalesced += 1;
    }

    pub(crate) fn cache_hit(&self) {
        self.lock().cache_hits += 1;
    }

    /// A snapshot of the counters.
    #[must_use]
    pub fn counts(&self) -> CheckCounts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, CheckCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckCounts {
    fn attempt(&mut self, outcome: Outcome, part: &'static str) {
        let why = if outcome == Outcome::Success { NONE } else { part };
        match self.attempts.iter_mut().find(|(known, known_why, _)| (*known, *known_why) == (outcome, why)) {
            Some((_, _, count)) => *count += 1,
            None => self.attempts.push((outcome, why, 1)),
        }
    }

    /// Counts a duration without phases as one phase.
    fn add_latency(&mut self, latency: Duration) {
        self.add_duration(Phase::Processing, u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    fn add_duration(&mut self, phase: Phase, took_us: u64) {
        self.durations[phase as usize].get_or_insert_default().add(took_us);
    }

    /// Name of the outcome, name of the phase, and count.
    pub fn attempts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        self.attempts.iter().map(|(outcome, why, count)| (outcome.as_str(), *why, *count))
    }

    /// Durations of the phases that occurred.
    pub fn durations(&self) -> impl Iterator<Item = (Phase, &Durations)> {
        Phase::ALL.iter().zip(&self.durations).filter_map(|(phase, one)| Some((*phase, one.as_deref()?)))
    }

    /// Transitions into each state.
    pub fn transitions(&self) -> impl Iterator<Item = (CheckState, u64)> {
        CheckState::ALL.into_iter().zip(self.transitions).filter(|(_, count)| *count > 0)
    }

    /// Expiry of the server's certificates, in seconds since 1970, if known.
    #[must_use]
    pub fn certificate_ends(&self) -> Option<u64> {
        (self.certificate_ends > 0).then_some(self.certificate_ends)
    }
}

impl StatsByCheck {
    /// The counters of these checks, existing or new. Counters of other checks are dropped unless
    /// still referenced.
    pub fn of<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<Arc<CheckStats>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, stats| stats.strong_count() > 0);
        names
            .map(|name| {
                known.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
                    let stats = Arc::default();
                    known.insert(name.into(), Arc::downgrade(&stats));
                    stats
                })
            })
            .collect()
    }

    /// Counters of the checks that are still referenced, by name.
    pub fn counts(&self) -> BTreeMap<Box<str>, CheckCounts> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let living = known.iter().filter_map(|(name, stats)| Some((name.clone(), stats.upgrade()?)));
        living.map(|(name, stats)| (name, stats.counts())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_by_phase() {
        let stats = CheckStats::default();
        let mut phase_times = PhaseTimes::default();
        let ms = Duration::from_millis;
        stats.ran(Outcome::Success, ms(3), &phase_times, None);
        (phase_times.last, phase_times.took_us[Phase::Resolve as usize]) = (Some(Phase::Connect), Some(0));
        phase_times.took_us[Phase::Connect as usize] = Some(2_501);
        stats.ran(Outcome::Timeout, ms(3), &phase_times, Some(Duration::from_secs(7)));
        stats.ran(Outcome::Timeout, ms(3), &phase_times, None);
        [0, 4].into_iter().for_each(|latency| stats.pushed(Outcome::Failure, ms(latency)));
        stats.aborted(Outcome::Error);
        let counts = stats.counts();
        assert_eq!(
            counts.attempts().collect::<Vec<_>>(),
            [
                ("success", "none", 1),
                ("timeout", "connect", 2),
                ("failure", "verdict", 2),
                ("error", "verdict", 1)
            ]
        );
        assert_eq!(counts.certificate_ends(), Some(7));
        let durations: Vec<_> =
            counts.durations().map(|(phase, one)| (phase.as_str(), one.buckets, one.sum_us)).collect();
        assert_eq!(
            durations,
            [
                ("connect", [0, 0, 2, 0, 0, 0, 0, 0], 5_002),
                ("processing", [0, 0, 2, 0, 0, 0, 0, 0], 7_000),
                ("resolve", [2, 0, 0, 0, 0, 0, 0, 0], 0),
            ]
        );
    }

    #[test]
    fn counters_live_as_long_as_they_are_referenced() {
        let by_check = StatsByCheck::default();
        let before = by_check.of(["a", "b"].into_iter());
        before[1].overran();
        let after = by_check.of(["b", "c"].into_iter());
        assert!(Arc::ptr_eq(&before[1], &after[0]));
        drop(before);
        let counts = by_check.counts();
        assert_eq!(counts.keys().map(|name| &**name).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!((counts["b"].overruns, counts["c"].overruns), (1, 0));
        drop(after);
        assert_eq!(by_check.of(["b"].into_iter())[0].lock().overruns, 0);
    }
}
