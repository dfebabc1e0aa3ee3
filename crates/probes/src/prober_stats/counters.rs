//! The counters of one prober at one endpoint in one shard, and their sum over shards.

use doorbell_health::EndpointState;
use doorbell_http::Time;
use doorbell_http::prober::Prober;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

/// Number of counters in a shard: one for each prober, and a last one for unknown clients.
pub(super) const PLACES: usize = Prober::ALL.len() + 1;

const STATES: usize = EndpointState::ALL.len();

/// Number of samples kept. The mean interval is computed from all of them except the oldest, which
/// may be in the middle of a write.
const SAMPLES: usize = 8;

/// A time and a state are encoded as one number: the state in this many low bits, the time in the
/// other bits. So one comparison shows whether both are unchanged. The clock of requests may
/// advance in steps of 1 to 4 ms (`CLOCK_MONOTONIC_COARSE`). At a high rate, most probes have the
/// same time and state as the previous probe; they add no [`Sample`]. So the interval is computed
/// from the number of replies between two samples.
const STATE_BITS: u32 = 3;

/// Value of [`ProberCounters::last`] before the first probe. No state has this number.
const NEVER: u64 = (1 << STATE_BITS) - 1;

const _: () = assert!(STATES < 1 << STATE_BITS, "one value is left for `NEVER`");

/// Counters of one prober in one shard, in cache lines that only the thread of the shard writes to.
/// A probe that adds no [`Sample`] accesses only the first cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct ProberCounters {
    states: [AtomicU64; STATES],
    /// Time of the last probe in nanoseconds, with the state of its reply in the [`STATE_BITS`] low
    /// bits.
    last: AtomicU64,
    /// Number of samples taken.
    samples_total: AtomicU64,
    samples: [Sample; SAMPLES],
}

/// Time, state and number of replies at one probe.
#[derive(Debug, Default)]
struct Sample {
    /// Time and state, encoded as in [`ProberCounters::last`].
    word: AtomicU64,
    /// Number of replies with the same state, up to and including this probe.
    replies: AtomicU64,
}

/// Sum of the counters of one prober over all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) states: [u64; STATES],
    pub(super) state_last: EndpointState,
    pub(super) last: Time,
    pub(super) interval: Option<Duration>,
}

/// Index of a prober's counters.
#[inline(always)]
pub(super) const fn place_of(prober: Option<Prober>) -> usize {
    match prober {
        Some(prober) => prober as usize,
        None => PLACES - 1,
    }
}

/// Index of the sample with this number.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "only the lowest bits matter")]
const fn place_of_sample(number: u64) -> usize {
    number as usize % SAMPLES
}

impl ProberCounters {
    /// Counts replies. Plain loads and stores suffice, because each shard belongs to one thread.
    /// Only the shared shard may lose counts.
    #[inline(always)]
    pub(super) fn count(&self, state: EndpointState, now: Time, replies: u32) {
        let count = &self.states[state as usize];
        count.store(count.load(Ordering::Relaxed).wrapping_add(u64::from(replies)), Ordering::Relaxed);
        let word = now.as_nanos() << STATE_BITS | state as u64;
        if word != self.last.load(Ordering::Relaxed) {
            self.last.store(word, Ordering::Relaxed);
            let samples_total = self.samples_total.load(Ordering::Relaxed);
            let sample = &self.samples[place_of_sample(samples_total)];
            // A reader that loads one of the two new values sees, after its fence, at least this
            // value of `samples_total`. It therefore skips this sample.
            sample.word.store(word, Ordering::Release);
            sample.replies.store(count.load(Ordering::Relaxed), Ordering::Release);
            self.samples_total.store(samples_total.wrapping_add(1), Ordering::Release);
        }
    }

    /// The last samples, oldest first: time and state, and the number of replies with that state.
    fn recent(&self) -> Vec<(u64, u64)> {
        // The oldest sample may be in the middle of a write.
        let first_of = |samples_total: u64| samples_total.saturating_sub(SAMPLES as u64 - 1);
        let samples_total = self.samples_total.load(Ordering::Acquire);
        let first = first_of(samples_total);
        let read = |number| {
            let sample = &self.samples[place_of_sample(number)];
            (sample.word.load(Ordering::Relaxed), sample.replies.load(Ordering::Relaxed))
        };
        let recent: Vec<_> = (first..samples_total).map(read).collect();
        fence(Ordering::Acquire);
        // A sample that was overwritten during the read may be torn.
        let lost = first_of(self.samples_total.load(Ordering::Relaxed)) - first;
        recent.into_iter().skip(usize::try_from(lost).unwrap_or(usize::MAX)).collect()
    }

    /// Time and state of the last probe, if there was one.
    fn last(&self) -> Option<(u64, EndpointState)> {
        let word = self.last.load(Ordering::Relaxed);
        let state = usize::try_from(word & NEVER).ok().and_then(|at| EndpointState::ALL.get(at)).copied();
        state.map(|state| (word >> STATE_BITS, state))
    }

    /// Mean interval in nanoseconds, but at least the time from the last probe in this shard to the
    /// `last` probe in any shard. So the rate of a shard that no longer receives probes decreases.
    fn gap_ns(&self, last: u64) -> Option<f64> {
        let (mut apart, mut come) = (0, 0);
        for pair in self.recent().windows(2) {
            let [(from, before), (to, after)] = [pair[0], pair[1]];
            apart += (to >> STATE_BITS).saturating_sub(from >> STATE_BITS);
            // If the state differs between two samples, the number of probes between them is
            // unknown, so only the probe of the later sample is counted.
            come += if from & NEVER == to & NEVER { after.saturating_sub(before) } else { 1 };
        }
        let since = last.saturating_sub(self.last()?.0);
        (come > 0 && apart > 0).then(|| (as_f64(apart) / as_f64(come)).max(as_f64(since)))
    }
}

impl Default for ProberCounters {
    fn default() -> Self {
        Self {
            states: <[AtomicU64; STATES]>::default(),
            last: AtomicU64::new(NEVER),
            samples_total: AtomicU64::new(0),
            samples: <[Sample; SAMPLES]>::default(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean")]
const fn as_f64(nanos: u64) -> f64 {
    nanos as f64
}

/// Sums up the counters of one prober; `None` if there was no probe. The rates of the shards are
/// added, because each shard counts only a part of the probes. The mean interval does not change
/// while no probe arrives, so that it can be compared with the time since the last probe.
pub(super) fn sum<'t>(all: impl Iterator<Item = &'t ProberCounters> + Clone) -> Option<Sum> {
    let mut states = [0; STATES];
    let (mut last, mut state_last) = (0, EndpointState::Down);
    for counters in all.clone() {
        for (sum, count) in states.iter_mut().zip(&counters.states) {
            *sum += count.load(Ordering::Relaxed);
        }
        if let Some((here, state_here)) = counters.last().filter(|(here, _)| *here >= last) {
            (last, state_last) = (here, state_here);
        }
    }
    let per_second: f64 = all.filter_map(|counters| counters.gap_ns(last)).map(|gap| 1e9 / gap).sum();
    if states == [0; STATES] {
        return None;
    }
    Some(Sum {
        states,
        state_last,
        last: Time::from_nanos(last),
        interval: (per_second > 0.0).then(|| Duration::from_secs_f64(1.0 / per_second)),
    })
}
