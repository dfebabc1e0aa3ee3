//! Blocks as two 64-bit words with integer arithmetic, for targets without a vector implementation.
//!
//! Each operation is exact for every byte, without carries between bytes.

/// Sixteen bytes.
#[derive(Clone, Copy)]
pub(crate) struct Block([u64; 2]);

/// The result of a comparison; the highest bit of a byte is set if the comparison is true for
/// this byte.
#[derive(Clone, Copy)]
pub(crate) struct Mask([u64; 2]);

impl Block {
    #[inline(always)]
    pub(crate) fn load(bytes: &[u8; super::LEN]) -> Self {
        let both = u128::from_le_bytes(*bytes);
        #[expect(clippy::cast_possible_truncation, reason = "each half has 64 bits")]
        Self([both as u64, (both >> 64) as u64])
    }

    /// Sets bit 0x20 of every byte. This converts ASCII letters to lower case; no other byte
    /// becomes a letter.
    #[inline(always)]
    pub(crate) fn fold(self) -> Self {
        Self(self.0.map(|word| word | splat(0x20)))
    }

    #[inline(always)]
    pub(crate) fn equals(self, byte: u8) -> Mask {
        Mask(self.0.map(|word| {
            let diff = word ^ splat(byte);
            !(at_least(diff, 1) | diff) & HIGH
        }))
    }

    /// Marks bytes below `low` or above `high`, which must both be below 0x80.
    #[inline(always)]
    pub(crate) fn outside(self, low: u8, high: u8) -> Mask {
        Mask(self.0.map(|word| (!at_least(word, low) | at_least(word, high + 1) | word) & HIGH))
    }
}

impl Mask {
    #[inline(always)]
    pub(crate) fn or(self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    #[inline(always)]
    pub(crate) fn and(self, other: Self) -> Self {
        Self([self.0[0] & other.0[0], self.0[1] & other.0[1]])
    }

    #[inline(always)]
    pub(crate) fn and_not(self, other: Self) -> Self {
        Self([self.0[0] & !other.0[0], self.0[1] & !other.0[1]])
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> u32 {
        // The multiplication moves the lowest bit of each byte into the highest byte, each bit to a
        // different position.
        let [low, high] = self.0.map(|word| (word >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56);
        #[expect(clippy::cast_possible_truncation, reason = "each half has eight bits")]
        let bits = (low | high << 8) as u32;
        bits
    }
}

/// Sets the highest bit of each byte whose seven low bits are at least `limit`, which must be 1 to
/// 0x80. The other bits of the result are undefined.
#[inline(always)]
fn at_least(word: u64, limit: u8) -> u64 {
    (word & !HIGH) + splat(0x80 - limit)
}

#[inline(always)]
const fn splat(byte: u8) -> u64 {
    0x0101_0101_0101_0101 * byte as u64
}

const HIGH: u64 = 0x8080_8080_8080_8080;
