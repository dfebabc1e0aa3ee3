//! The counters of one prober at one endpoint in one shard, and their sum over shards.
//!
//! Does not know about: which prober, which endpoint.

use crate::http::Time;
use crate::http::prober::Prober;
use doorbell_health::EndpointState;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

/// One for each prober, and the last for all others.
pub(super) const PLACES: usize = Prober::ALL.len() + 1;

const STATES: usize = EndpointState::ALL.len();

/// Of how many notes the times are kept. A mean distance is of the last ones, and one is being written.
const NOTES: usize = 8;

/// A time and a state in one word: whether both are the same as before is one comparison. The clock of requests goes in steps of 1 to 4 ms
/// ([`doorbell::time::OsClock`]), so of a flood few are noted, and the distance of the others is found from their number.
const STATE_BITS: u32 = 3;

/// Before anybody came: no state has this number.
const NEVER: u64 = (1 << STATE_BITS) - 1;

const _: () = assert!(STATES < 1 << STATE_BITS, "and one is left for nobody");

/// One thread writes to it, and nothing that others write to is in its cache lines. A probe that is not noted needs the first of them alone.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct ProberCounters {
    told: [AtomicU64; STATES],
    /// When the last one came, in nanoseconds, and below it what it was told.
    last: AtomicU64,
    /// How many notes were taken.
    notes: AtomicU64,
    noted: [Note; NOTES],
}

/// A probe of which the time is known.
#[derive(Debug, Default)]
struct Note {
    /// As [`ProberCounters::last`].
    word: AtomicU64,
    /// How many had been told the same by then.
    told: AtomicU64,
}

/// All shards together.
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

/// Where the note of this number is.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "only its lowest bits count")]
const fn place_of_note(number: u64) -> usize {
    number as usize % NOTES
}

impl ProberCounters {
    /// Plain loads and stores: only by the thread whose shard it is.
    #[inline(always)]
    pub(super) fn count(&self, told: EndpointState, now: Time) {
        let count = &self.told[told as usize];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let word = now.as_nanos() << STATE_BITS | told as u64;
        if word != self.last.load(Ordering::Relaxed) {
            self.last.store(word, Ordering::Relaxed);
            let notes = self.notes.load(Ordering::Relaxed);
            let note = &self.noted[place_of_note(notes)];
            // Whoever sees one of these has seen the number before it.
            note.word.store(word, Ordering::Release);
            note.told.store(count.load(Ordering::Relaxed), Ordering::Release);
            self.notes.store(notes.wrapping_add(1), Ordering::Release);
        }
    }

    /// The last notes, the oldest first: what came when, and which of its kind it was.
    fn recent(&self) -> Vec<(u64, u64)> {
        // The one before those is being written.
        let first_of = |notes: u64| notes.saturating_sub(NOTES as u64 - 1);
        let notes = self.notes.load(Ordering::Acquire);
        let first = first_of(notes);
        let read = |number| {
            let note = &self.noted[place_of_note(number)];
            (note.word.load(Ordering::Relaxed), note.told.load(Ordering::Relaxed))
        };
        let recent: Vec<_> = (first..notes).map(read).collect();
        fence(Ordering::Acquire);
        // Nobody knows what was read where others have been written meanwhile.
        let lost = first_of(self.notes.load(Ordering::Relaxed)) - first;
        recent.into_iter().skip(usize::try_from(lost).unwrap_or(usize::MAX)).collect()
    }

    /// When the last one came, and what it was told; nothing before there was one.
    fn last(&self) -> Option<(u64, EndpointState)> {
        let word = self.last.load(Ordering::Relaxed);
        let state = usize::try_from(word & NEVER).ok().and_then(|at| EndpointState::ALL.get(at)).copied();
        state.map(|state| (word >> STATE_BITS, state))
    }

    /// The mean distance in nanoseconds, not less than the time from the last probe here to the `last` one anywhere: a shard that probes
    /// left for others says ever less.
    fn gap_ns(&self, last: u64) -> Option<f64> {
        let (mut apart, mut come) = (0, 0);
        for pair in self.recent().windows(2) {
            let [(from, before), (to, after)] = [pair[0], pair[1]];
            apart += (to >> STATE_BITS).saturating_sub(from >> STATE_BITS);
            // Of others that were told the former state meanwhile nobody knows when they came.
            come += if from & NEVER == to & NEVER { after.saturating_sub(before) } else { 1 };
        }
        let since = last.saturating_sub(self.last()?.0);
        (come > 0 && apart > 0).then(|| (as_f64(apart) / as_f64(come)).max(as_f64(since)))
    }
}

impl Default for ProberCounters {
    fn default() -> Self {
        Self {
            told: <[AtomicU64; STATES]>::default(),
            last: AtomicU64::new(NEVER),
            notes: AtomicU64::new(0),
            noted: <[Note; NOTES]>::default(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean")]
const fn as_f64(nanos: u64) -> f64 {
    nanos as f64
}

/// Probes per shard come as they may: what adds up is how often they come. How often they came stays as it was when nobody comes any
/// more: that is what the time since the last one is compared with.
pub(super) fn sum<'t>(all: impl Iterator<Item = &'t ProberCounters> + Clone) -> Option<Sum> {
    let mut told = [0; STATES];
    let (mut last, mut told_last) = (0, EndpointState::Down);
    for counters in all.clone() {
        for (sum, count) in told.iter_mut().zip(&counters.told) {
            *sum += count.load(Ordering::Relaxed);
        }
        if let Some((here, told_here)) = counters.last().filter(|(here, _)| *here >= last) {
            (last, told_last) = (here, told_here);
        }
    }
    let per_second: f64 = all.filter_map(|counters| counters.gap_ns(last)).map(|gap| 1e9 / gap).sum();
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
