//! The counters of one prober at one endpoint in one lane, and their sum over lanes.
//!
//! Does not know about: which prober, which endpoint.

use crate::http::Time;
use crate::http::log::Prober;
use doorbell_health::EndpointState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One for each prober, and the last for all others.
pub(super) const PLACES: usize = Prober::ALL.len() + 1;

const STATES: usize = EndpointState::ALL.len();

/// How much the last distance between two probes weighs in the mean: one part of so many, as a power of two.
const MEAN_SHIFT: u32 = 3;

/// A cache line: nothing that others write to is in it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Tally {
    told: [AtomicU64; STATES],
    /// When the last one came, in nanoseconds; 0 before there was one.
    last: AtomicU64,
    /// An exponential mean of the distance in nanoseconds that began at 0.
    gap: AtomicU64,
    told_last: AtomicU64,
}

/// All lanes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) told: [u64; STATES],
    pub(super) told_last: EndpointState,
    pub(super) last: Time,
    pub(super) interval: Option<Duration>,
}

/// Where a prober is counted.
#[inline(always)]
pub(super) const fn place_of(prober: Option<Prober>) -> usize {
    match prober {
        Some(prober) => prober as usize,
        None => PLACES - 1,
    }
}

impl Tally {
    /// Plain loads and stores: only by the thread whose lane it is.
    #[inline(always)]
    pub(super) fn count(&self, told: EndpointState, now: Time) {
        let count = &self.told[told as usize];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let now = now.as_nanos();
        let last = self.last.load(Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
        self.told_last.store(told as u64, Ordering::Relaxed);
        if last > 0 {
            let gap = self.gap.load(Ordering::Relaxed);
            let mean = gap - (gap >> MEAN_SHIFT) + (now.saturating_sub(last) >> MEAN_SHIFT);
            self.gap.store(mean, Ordering::Relaxed);
        }
    }

    /// The mean distance in nanoseconds, not less than the time from the last probe here to the `last` one anywhere: a lane that probes
    /// left for others says ever less. It began at 0, and how much of that is left in it is known.
    fn gap_ns(&self, last: u64) -> Option<f64> {
        let count: u64 = self.told.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        let gaps = i32::try_from(count.saturating_sub(1)).unwrap_or(i32::MAX);
        let left = (1.0 - 1.0 / f64::from(1 << MEAN_SHIFT)).powi(gaps);
        let mean = as_f64(self.gap.load(Ordering::Relaxed)) / (1.0 - left);
        let since = as_f64(last.saturating_sub(self.last.load(Ordering::Relaxed)));
        (gaps > 0 && mean > 0.0).then_some(mean.max(since))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean")]
const fn as_f64(nanos: u64) -> f64 {
    nanos as f64
}

/// Probes per lane come as they may: what adds up is how often they come. How often they came stays as it was when nobody comes any
/// more: that is what the time since the last one is compared with.
pub(super) fn sum<'t>(tallies: impl Iterator<Item = &'t Tally> + Clone) -> Option<Sum> {
    let mut told = [0; STATES];
    let (mut last, mut told_last) = (0, 0);
    for tally in tallies.clone() {
        for (sum, count) in told.iter_mut().zip(&tally.told) {
            *sum += count.load(Ordering::Relaxed);
        }
        let here = tally.last.load(Ordering::Relaxed);
        if here > last {
            (last, told_last) = (here, tally.told_last.load(Ordering::Relaxed));
        }
    }
    let per_second: f64 = tallies.filter_map(|tally| tally.gap_ns(last)).map(|gap| 1e9 / gap).sum();
    if told == [0; STATES] {
        return None;
    }
    let told_last = usize::try_from(told_last).ok().and_then(|at| EndpointState::ALL.get(at)).copied();
    Some(Sum {
        told,
        told_last: told_last.unwrap_or(EndpointState::Down),
        last: Time::from_nanos(last),
        interval: (per_second > 0.0).then(|| Duration::from_secs_f64(1.0 / per_second)),
    })
}
