//! Blocks with the vector instructions of every x86-64 processor.
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

    /// Sets bit 0x20 of every byte. This converts ASCII letters to lower case; no other byte
    /// becomes a letter.
    #[inline(always)]
    pub(crate) fn fold(self) -> Self {
        Self(bitor_m128i(self.0, splat(0x20)))
    }

    #[inline(always)]
    pub(crate) fn equals(self, byte: u8) -> Mask {
        Mask(cmp_eq_mask_i8_m128i(self.0, splat(byte)))
    }

    /// Marks bytes below `low` or above `high`.
    #[inline(always)]
    pub(crate) fn outside(self, low: u8, high: u8) -> Mask {
        // The instruction compares signed values. Shifting moves `low` to the smallest value, and
        // bytes below `low` wrap around to values above `high`.
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
