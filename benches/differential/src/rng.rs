//! Random numbers that are the same on every machine for the same seed.

/// A stream of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// Creates the stream of one item in a run. An item can be reproduced without the items before
    /// it.
    pub(crate) const fn new(seed: u64, item: u64) -> Self {
        // The seed is mixed, because streams of neighbouring states overlap.
        Self { state: mix(mix(seed.wrapping_add(STEP)) ^ item) }
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `end`. `end` must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        debug_assert!(end > 0 && u32::try_from(end).is_ok());
        usize::try_from(((self.next() >> 32) * end as u64) >> 32).expect("below `end`")
    }

    /// Returns true once in `count` calls on average.
    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Returns one of the items.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}

const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
