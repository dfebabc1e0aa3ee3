//! When words are cleared whose time is over, so that none grows old enough to be taken for a TAT in the future.
//!
//! Does not know about: words.
//!
//! Time is cut into generations of 2^28 ticks, one sixteenth of the circle. In each, requests sweep the table on their way, a few
//! sets at a time; the first request of the next generation finishes what is left. After a pause in which a whole
//! generation went by unseen, everything in the table is over, and it is wiped.

/// Ticks in a generation, as a power of two.
const GENERATION_BITS: u32 = 28;
/// Bits for the number of the next set to sweep; the rest is the generation.
const CURSOR_BITS: u32 = 28;
const CURSOR_MASK: u64 = (1 << CURSOR_BITS) - 1;
/// While the table is wiped.
const WIPING: u64 = CURSOR_MASK;
/// Sets that a request sweeps on its way.
const STEP: u64 = 16;

/// How far the sweep is: generation and next set. `sets` when there is nothing left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sweep(pub(super) u64);

/// What a request has to do before it looks for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Nothing.
    None,
    /// The clock is behind the table: take this tick instead.
    Behind { now: u64 },
    /// Whoever puts `then` in place of the sweep clears what is over in these sets.
    Sweep { from: usize, to: usize, then: Sweep },
    /// Somebody is wiping the table.
    Wait,
    /// Whoever puts `wiping` in place of the sweep wipes the table, and then puts `then` there.
    Wipe { wiping: Sweep, then: Sweep },
}

impl Sweep {
    /// Before the first request.
    pub(super) const NEW: Self = Self(u64::MAX);

    /// The state in which a request at `now` has nothing to do.
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
    pub(super) fn duty(self, now: u64, sets: usize) -> Duty {
        let generation = now >> GENERATION_BITS;
        let (seen, cursor) = (self.0 >> CURSOR_BITS, self.0 & CURSOR_MASK);
        let idle = Self::at(generation, sets as u64);
        if self == Self::NEW {
            return Duty::Sweep { from: 0, to: 0, then: idle };
        }
        if cursor == WIPING {
            return Duty::Wait;
        }
        match generation.checked_sub(seen) {
            None => Duty::Behind { now: seen << GENERATION_BITS },
            Some(0) if cursor >= sets as u64 => Duty::None,
            Some(0) => {
                let to = (cursor + STEP).min(sets as u64);
                Duty::Sweep { from: cursor as usize, to: to as usize, then: Self::at(generation, to) }
            }
            Some(1) => Duty::Sweep { from: cursor as usize, to: sets, then: Self::at(generation, 0) },
            Some(_) => Duty::Wipe { wiping: Self::at(generation, WIPING), then: idle },
        }
    }
}
