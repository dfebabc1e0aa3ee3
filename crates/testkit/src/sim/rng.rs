//! The simulation's random numbers: small, seeded, identical on every machine.

use core::ops::Range;

/// xorshift64*, with its state derived from the seed by splitmix64, so that neighbouring seeds are
/// unrelated.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Creates the generator of `seed`; every seed is valid, even 0.
    pub const fn new(seed: u64) -> Self {
        let mixed = splitmix(seed);
        Self { state: if mixed == 0 { 1 } else { mixed } }
    }

    /// Creates an independent generator for a part of the simulation whose draws must not affect
    /// other parts.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    /// Returns 64 random bits.
    pub const fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number in `range`, which must not be empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "an empty range has no number");
        range.start + self.next() % (range.end - range.start)
    }

    /// Returns an index below `len`; `len` must not be 0.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.range(0..len as u64)).expect("below a usize")
    }

    /// Returns true in `millionths` of 1,000,000 cases. Draws no number for 0.
    pub fn hits(&mut self, millionths: u32) -> bool {
        millionths > 0 && self.range(0..1_000_000) < u64::from(millionths)
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// Returns an index of `weights`, in proportion to them; their sum must not be 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.range(0..weights.iter().copied().map(u64::from).sum());
        for (index, weight) in weights.iter().copied().map(u64::from).enumerate() {
            if left < weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Splits `bytes` at up to `cuts_max` random positions; no piece is empty.
    pub fn split(&mut self, bytes: &[u8], cuts_max: usize) -> Vec<Vec<u8>> {
        let cuts = if bytes.len() > 1 { self.index(cuts_max + 1) } else { 0 };
        let mut places = vec![0, bytes.len()];
        places.extend((0..cuts).map(|_| 1 + self.index(bytes.len() - 1)));
        places.sort_unstable();
        places.dedup();
        places.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
    }
}

/// One step of splitmix64: a bijection of `u64` that looks random.
pub const fn splitmix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_neighbours_give_others() {
        let numbers = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_ne!(numbers(0), [0; 3]);
    }

    #[test]
    fn weights_are_kept_and_zero_is_never_drawn() {
        let mut rng = Rng::new(1);
        let mut drawn = [0u32; 3];
        (0..10_000).for_each(|_| drawn[rng.weighted(&[1, 0, 3])] += 1);
        assert_eq!(drawn[1], 0);
        assert!((2_300..2_700).contains(&drawn[0]), "{drawn:?}");
    }

    #[test]
    fn pieces_join_to_the_whole() {
        let mut rng = Rng::new(2);
        for len in [0, 1, 2, 50] {
            let bytes: Vec<u8> = (0..len).collect();
            for _ in 0..100 {
                let pieces = rng.split(&bytes, 5);
                assert!(pieces.iter().all(|piece| !piece.is_empty()));
                assert_eq!(pieces.concat(), bytes);
            }
        }
    }
}
