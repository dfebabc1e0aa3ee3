//! Wire format: a greeting from each side, then frames with a length prefix.
//!
//! A greeting consists of `doorlink` and the lowest and highest supported version, each as two
//! little-endian bytes. Both sides use the highest version that both support. A frame consists of a
//! length as four little-endian bytes, and a [bitcode](https://docs.rs/bitcode) message of that
//! length. A length above [`FRAME_LEN_MAX`] is refused before memory is allocated.

#[cfg(test)]
mod tests;
mod v1;

use crate::ended::Ended;
use std::ops::RangeInclusive;
pub(crate) use v1::{Frame, NAME_LEN_MAX, Opening, Payload, REASON_LEN_MAX};
pub use v1::{Measured, Outcome, State, Statement, Subject, SubjectKind};

/// Versions that this program supports.
pub const VERSIONS: RangeInclusive<u16> = 1..=1;

/// Size of a greeting.
pub(crate) const GREETING_LEN: usize = 12;

/// Maximum size of a frame without its length prefix.
pub const FRAME_LEN_MAX: usize = 16 << 10;

/// Size of a length prefix.
pub(crate) const PREFIX_LEN: usize = 4;

const MAGIC: [u8; 8] = *b"doorlink";

/// Returns the greeting of a program that supports these versions.
pub(crate) fn greeting(versions: &RangeInclusive<u16>) -> [u8; GREETING_LEN] {
    let mut greeting = [0; GREETING_LEN];
    greeting[..8].copy_from_slice(&MAGIC);
    greeting[8..10].copy_from_slice(&versions.start().to_le_bytes());
    greeting[10..].copy_from_slice(&versions.end().to_le_bytes());
    greeting
}

/// Reads the greeting of the peer and returns the version to use.
pub(crate) fn version_of(greeting: [u8; GREETING_LEN], versions: &RangeInclusive<u16>) -> Result<u16, Ended> {
    let [magic @ .., min_low, min_high, max_low, max_high] = greeting;
    if magic != MAGIC {
        return Err(Ended::NotLink);
    }
    let min = u16::from_le_bytes([min_low, min_high]);
    let max = u16::from_le_bytes([max_low, max_high]);
    let version = max.min(*versions.end());
    if version < min.max(*versions.start()) {
        return Err(Ended::Version { min, max });
    }
    Ok(version)
}

/// Appends a frame with its length prefix, and returns the size of both together.
pub(crate) fn write(frame: &Frame, to: &mut Vec<u8>) -> u32 {
    let bytes = bitcode::encode(frame);
    debug_assert!(bytes.len() <= FRAME_LEN_MAX, "texts and batches are bounded");
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&len.to_le_bytes());
    to.extend_from_slice(&bytes);
    len.saturating_add(4)
}

/// Decodes the first frame of `input`, and returns it with its size including the prefix. `None` if
/// the frame is incomplete.
pub(crate) fn read(input: &[u8]) -> Result<Option<(Frame, usize)>, Ended> {
    let Some((prefix, rest)) = input.split_first_chunk::<PREFIX_LEN>() else { return Ok(None) };
    let len = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
    if len > FRAME_LEN_MAX {
        return Err(Ended::TooLong { len });
    }
    let Some(bytes) = rest.get(..len) else { return Ok(None) };
    let frame = bitcode::decode(bytes).map_err(|_| Ended::Garbled)?;
    Ok(Some((frame, PREFIX_LEN + len)))
}
