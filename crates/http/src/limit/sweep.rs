//! Clears expired words of the table before their theoretical arrival time (TAT, see [`super`]) is
//! so old that it would be mistaken for one in the future.
//!
//! Time is divided into generations of 2^28 ticks, one sixteenth of the 32-bit range. In each
//! generation, every request sweeps a few sets of the table; the first request of the next
//! generation sweeps the remaining sets. After a pause of more than a whole generation all words
//! have expired, and the table is wiped.

/// Ticks in a generation, as a power of two.
const GENERATION_BITS: u32 = 28;
/// Number of bits for the index of the next set; the other bits are the generation.
const CURSOR_BITS: u32 = 28;
const CURSOR_MASK: u64 = (1 << CURSOR_BITS) - 1;
/// In place of the index of the next set: the table is being wiped.
const WIPING: u64 = CURSOR_MASK;
/// Number of sets that a request sweeps.
const STEP: u64 = 16;

/// Progress of the sweep: the generation, and the index of the next set. After the last set, the
/// index is the number of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sweep(pub(super) u64);

/// The work that a request must do before the look-up of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SweepWork {
    /// There is no work.
    None,
    /// The clock is behind the table; use this tick instead of the time of the clock.
    Behind { now: u64 },
    /// Replace the state by `then`; the thread that succeeds clears expired words in these sets.
    Sweep { from: usize, to: usize, then: Sweep },
    /// Another thread is wiping the table.
    Wait,
    /// Replace the state by `wiping`; the thread that succeeds wipes the table and then sets
    /// `then`.
    Wipe { wiping: Sweep, then: Sweep },
}

impl Sweep {
    /// The state before the first request.
    pub(super) const NEW: Self = Self(u64::MAX);

    /// The state in which a request at `now` has no work.
    #[inline]
    pub(super) const fn idle(now: u64, sets: usize) -> Self {
        Self::at(now >> GENERATION_BITS, sets as u64)
    }

    #[inline]
    const fn at(generation: u64, cursor: u64) -> Self {
        Self(generation << CURSOR_BITS | cursor)
    }

    #[cold]
    #[expect(clippy::cast_possible_truncation, reason = "a number of sets")]
    pub(super) fn work(self, now: u64, sets: usize) -> SweepWork {
        let generation = now >> GENERATION_BITS;
        let (seen, cursor) = (self.0 >> CURSOR_BITS, self.0 & CURSOR_MASK);
        let idle = Self::at(generation, sets as u64);
        if self == Self::NEW {
            return SweepWork::Sweep { from: 0, to: 0, then: idle };
        }
        if cursor == WIPING {
            return SweepWork::Wait;
        }
        match generation.checked_sub(seen) {
            None => SweepWork::Behind { now: seen << GENERATION_BITS },
            Some(0) if cursor >= sets as u64 => SweepWork::None,
            Some(0) => {
                let to = (cursor + STEP).min(sets as u64);
                SweepWork::Sweep { from: cursor as usize, to: to as usize, then: Self::at(generation, to) }
            }
            Some(1) => SweepWork::Sweep { from: cursor as usize, to: sets, then: Self::at(generation, 0) },
            Some(_) => SweepWork::Wipe { wiping: Self::at(generation, WIPING), then: idle },
        }
    }
}
