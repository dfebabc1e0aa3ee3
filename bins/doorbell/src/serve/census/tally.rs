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

/// Probes that come closer together than that are one event for the times: with a million of them a second nobody asks which microsecond it
/// was, and their distance is found from their number.
const NOTED_EVERY_NS: u64 = 1_000_000;

/// A time and a state in one word: whether both are nearly the same as before is one comparison.
const STATE_BITS: u32 = 3;

/// Before anybody came: no state has this number.
const NEVER: u64 = (1 << STATE_BITS) - 1;

const _: () = assert!(STATES < 1 << STATE_BITS, "and one is left for nobody");

/// A cache line: nothing that others write to is in it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Tally {
    told: [AtomicU64; STATES],
    /// When the last one came, in nanoseconds, to within [`NOTED_EVERY_NS`], and below it what it was told.
    last: AtomicU64,
    /// An exponential mean of the distance in nanoseconds; 0 before there was one.
    gap: AtomicU64,
    /// How many had come by `last`.
    noted: AtomicU64,
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
        let word = now.as_nanos() << STATE_BITS | told as u64;
        // Another state leaves low bits, which are the high ones behind the rotation.
        let off = word.wrapping_sub(self.last.load(Ordering::Relaxed)).rotate_right(STATE_BITS);
        if off >= NOTED_EVERY_NS {
            self.note(word);
        }
    }

    #[inline(never)]
    fn note(&self, word: u64) {
        let (last, all) = (self.last.load(Ordering::Relaxed), self.all());
        let come = all.saturating_sub(self.noted.load(Ordering::Relaxed));
        let apart = (word >> STATE_BITS).saturating_sub(last >> STATE_BITS).checked_div(come);
        if let Some(apart) = apart.filter(|_| last != NEVER) {
            let gap = self.gap.load(Ordering::Relaxed);
            let mean = if gap == 0 { apart } else { gap - (gap >> MEAN_SHIFT) + (apart >> MEAN_SHIFT) };
            self.gap.store(mean, Ordering::Relaxed);
        }
        self.last.store(word, Ordering::Relaxed);
        self.noted.store(all, Ordering::Relaxed);
    }

    fn all(&self) -> u64 {
        self.told.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// When the last one came, and what it was told; nothing before there was one.
    fn last(&self) -> Option<(u64, EndpointState)> {
        let word = self.last.load(Ordering::Relaxed);
        let state = usize::try_from(word & NEVER).ok().and_then(|at| EndpointState::ALL.get(at)).copied();
        state.map(|state| (word >> STATE_BITS, state))
    }

    /// The mean distance in nanoseconds, not less than the time from the last probe here to the `last` one anywhere: a lane that probes
    /// left for others says ever less.
    fn gap_ns(&self, last: u64) -> Option<f64> {
        let gap = self.gap.load(Ordering::Relaxed);
        let since = last.saturating_sub(self.last()?.0);
        (gap > 0).then(|| as_f64(gap.max(since)))
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            told: <[AtomicU64; STATES]>::default(),
            last: AtomicU64::new(NEVER),
            gap: AtomicU64::new(0),
            noted: AtomicU64::new(0),
        }
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
    let (mut last, mut told_last) = (0, EndpointState::Down);
    for tally in tallies.clone() {
        for (sum, count) in told.iter_mut().zip(&tally.told) {
            *sum += count.load(Ordering::Relaxed);
        }
        if let Some((here, told_here)) = tally.last().filter(|(here, _)| *here >= last) {
            (last, told_last) = (here, told_here);
        }
    }
    let per_second: f64 = tallies.filter_map(|tally| tally.gap_ns(last)).map(|gap| 1e9 / gap).sum();
    if told == [0; STATES] {
        return None;
    }
    Some(Sum {
        told,
        told_last,
        last: Time::from_nanos(last),
        interval: (per_second > 0.0).then(|| Duration::from_secs_f64(1.0 / per_second)),
    })
}
