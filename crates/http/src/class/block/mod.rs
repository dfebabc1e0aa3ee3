//! Classification of sixteen bytes at a time.
//!
//! [`Block`] compares bytes, [`Mask`] combines the results, and bit n of [`Mask::bits`] belongs to
//! byte n.
//!
//! # Decision: `safe_arch` for the vector instructions
//!
//! *Context.* The head of a probe has about a hundred bytes in five lines, and most of the work on
//! it is finding the end of a run of bytes. SSE2, which every x86-64 processor has, does this for
//! sixteen bytes in five instructions. But the functions of `core::arch` are safe to call only in
//! functions marked with the target feature, and these can be called only from an `unsafe` block.
//! This crate forbids `unsafe`, and the auto-vectoriser does not find the essential instruction (a
//! bit for each byte).
//!
//! *Choice.* `safe_arch`, which wraps exactly these instructions for targets that have them, and
//! has no dependencies. For all other targets, the same interface is implemented in plain integer
//! arithmetic. Tests compare both with a loop over bytes. *What would change it:* functions of
//! `core::arch` that are safe to call on targets with the feature.

#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) mod portable;
#[cfg(target_arch = "x86_64")]
pub(super) mod sse2;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::{Block, Mask};
#[cfg(target_arch = "x86_64")]
pub(crate) use sse2::{Block, Mask};

/// Number of bytes in a block.
pub(super) const LEN: usize = 16;
