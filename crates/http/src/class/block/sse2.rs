//! Blocks with the vector instructions that every x86-64 has.
//!
//! Does not know about: other targets; see `portable`.

use safe_arch::{
    add_i8_m128i, bitand_m128i, bitandnot_m128i, bitor_m128i, cmp_eq_mask_i8_m128i, cmp_gt_mask_i8_m128i,
    load_unaligned_m128i, m128i, move_mask_i8_m128i, set_splat_i8_m128i,
};

/// Sixteen bytes.
#[derive(Clone, Copy)]
pub(crate) struct Block(m128i);

/// The result of a comparison for each byte.
#[derive(Clone, Copy)]
pub(crate) struct Mask(m128i);

impl Block {
    #[inline(always)]
    pub(crate) fn load(bytes: &[u8; super::LEN]) -> Self {
        Self(load_unaligned_m128i(bytes))
    }

    /// Converts ASCII letters to lower case; other bytes of the columns 4 to 7 may change within
    /// them.
    #[inline(always)]
    pub(crate) fn fold(self) -> Self {
        Self(bitor_m128i(self.0, splat(0x20)))
    }

    #[inline(always)]
    pub(crate) fn equals(self, byte: u8) -> Mask {
        Mask(cmp_eq_mask_i8_m128i(self.0, splat(byte)))
    }

    /// Bytes below `low` or above `high`.
    #[inline(always)]
    pub(crate) fn outside(self, low: u8, high: u8) -> Mask {
        // Only a signed comparison exists: `low` is shifted to the minimum, and everything below it
        // wraps around to above `high`.
        let moved = add_i8_m128i(self.0, splat(0x80_u8.wrapping_sub(low)));
        Mask(cmp_gt_mask_i8_m128i(moved, splat((high - low) ^ 0x80)))
    }
}

impl Mask {
    #[inline(always)]
    pub(crate) fn or(self, other: Self) -> Self {
        Self(bitor_m128i(self.0, other.0))
    }

    #[inline(always)]
    pub(crate) fn and(self, other: Self) -> Self {
        Self(bitand_m128i(self.0, other.0))
    }

    #[inline(always)]
    pub(crate) fn and_not(self, other: Self) -> Self {
        Self(bitandnot_m128i(other.0, self.0))
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> u32 {
        move_mask_i8_m128i(self.0).cast_unsigned()
    }
}

#[inline(always)]
fn splat(byte: u8) -> m128i {
    set_splat_i8_m128i(byte.cast_signed())
}
