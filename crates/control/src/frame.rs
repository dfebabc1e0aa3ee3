//! The layout of the stream: a greeting of each side, then frames with a length prefix.
//!
//! A greeting consists of `doorbell`, the version of the protocol and two zero bytes. A frame
//! consists of a length in four bytes, least significant first, and a bitcode message of that
//! length. A length above the limit is refused before the message is read or memory is allocated.

use bitcode::{DecodeOwned, Encode};
use thiserror::Error;

/// Version of the types of this crate. Must be incremented whenever a type changes; a test
/// enforces it.
pub const VERSION: u16 = 11;

/// Size of a greeting.
pub const HELLO_LEN: usize = 12;

/// Size of a length prefix.
pub const PREFIX_LEN: usize = 4;

/// Maximum size of a request.
pub const REQUEST_LEN_MAX: usize = 16 << 10;

/// Maximum size of a response: 10,000 checks take 2 MiB.
pub const RESPONSE_LEN_MAX: usize = 8 << 20;

const MAGIC: [u8; 8] = *b"doorbell";

/// Why the stream is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame cannot be decoded.
    #[error("invalid frame")]
    Garbled,
    /// The peer's greeting is not that of doorbell.
    #[error("the peer is not doorbell")]
    NotDoorbell,
    /// The frame is too long.
    #[error("frame of {len} bytes, the maximum is {max}")]
    TooLong {
        /// Length of the frame.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The peer uses another version.
    #[error("version {theirs} of the control protocol, this program uses version {VERSION}")]
    Version {
        /// Version of the peer.
        theirs: u16,
    },
}

/// The greeting of this program.
#[must_use]
pub const fn hello() -> [u8; HELLO_LEN] {
    let [m0, m1, m2, m3, m4, m5, m6, m7] = MAGIC;
    let [low, high] = VERSION.to_le_bytes();
    [m0, m1, m2, m3, m4, m5, m6, m7, low, high, 0, 0]
}

/// Checks the peer's greeting.
///
/// # Errors
/// If the peer is not doorbell, or has another version.
pub fn check_hello(hello: [u8; HELLO_LEN]) -> Result<(), FrameError> {
    let [magic @ .., low, high, _, _] = hello;
    let theirs = u16::from_le_bytes([low, high]);
    match (magic == MAGIC, theirs == VERSION) {
        (false, _) => Err(FrameError::NotDoorbell),
        (true, false) => Err(FrameError::Version { theirs }),
        (true, true) => Ok(()),
    }
}

/// Encodes a frame with its length prefix.
///
/// # Errors
/// If the frame is longer than `max`.
pub fn frame(value: &impl Encode, max: usize) -> Result<Vec<u8>, FrameError> {
    let bytes = bitcode::encode(value);
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len as usize <= max);
    let Some(len) = len else { return Err(FrameError::TooLong { len: bytes.len(), max }) };
    Ok([len.to_le_bytes().as_slice(), bytes.as_slice()].concat())
}

/// Decodes the length prefix of a frame.
///
/// # Errors
/// If the length is more than `max`.
pub fn frame_len(prefix: [u8; PREFIX_LEN], max: usize) -> Result<usize, FrameError> {
    let len = usize::try_from(u32::from_le_bytes(prefix)).unwrap_or(usize::MAX);
    if len > max { Err(FrameError::TooLong { len, max }) } else { Ok(len) }
}

/// Decodes a frame.
///
/// # Errors
/// If the bytes do not encode this type.
pub fn decode<T: DecodeOwned>(bytes: &[u8]) -> Result<T, FrameError> {
    bitcode::decode(bytes).map_err(|_| FrameError::Garbled)
}
