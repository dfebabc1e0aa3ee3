//! Random numbers that are identical everywhere for the same seed.
//!
//! Does not know about: their use.

/// A stream of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// The stream of one item of a run: any item can be reproduced without those before it.
    pub(crate) const fn new(seed: u64, item: u64) -> Self {
        // Mixed, because the stream of a neighbouring state is the same one a step later.
        Self { state: mix(mix(seed.wrapping_add(STEP)) ^ item) }
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        debug_assert!(end > 0 && u32::try_from(end).is_ok());
        usize::try_from(((self.next() >> 32) * end as u64) >> 32).expect("below `end`")
    }

    /// True once in `count`, on average.
    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// One of these.
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
