//! Sixteen bytes classified at once.
//!
//! Does not know about: classes of the grammar. [`Block`] compares bytes, [`Mask`] combines
//! results, and [`Mask::bits`] has bit n set for byte n.
//!
//! # Decision: `safe_arch` for the vector instructions
//!
//! *Context.* The head of a probe is a hundred bytes in five lines, and most of the work on it is
//! finding the end of a run of bytes. SSE2, which every x86-64 has, does that for sixteen bytes in
//! five instructions, but the functions of `core::arch` are safe to call only inside functions that
//! are themselves marked with the target feature, and those only from an `unsafe` block. This crate
//! forbids `unsafe`, and the auto-vectoriser does not find the essential instruction (a bit for
//! each byte).
//!
//! *Choice.* `safe_arch`, which wraps exactly these instructions where the target has them, and has
//! no dependencies. Every other target gets the same interface in plain integer arithmetic; tests
//! compare both with a byte loop. *What would change it:* functions of `core::arch` that are safe
//! to call on targets with the feature.

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
