//! How requests and responses are laid out on a stream: a greeting of each side, then frames with their length before them.
//!
//! Does not know about: sockets; what is asked.
//!
//! Both greet with `doorbell`, the version of the protocol and two bytes that are 0. A frame is its length in four bytes, least
//! significant first, and so many bytes of bitcode. A length above its cap is refused before anything is read or allocated for it.

use bitcode::{DecodeOwned, Encode};
use thiserror::Error;

/// The version of everything in [`crate::wire`]. One more whenever a type there changes; a test compares.
pub const VERSION: u16 = 5;

/// Bytes of a greeting.
pub const HELLO_LEN: usize = 12;

/// Bytes of a length.
pub const PREFIX_LEN: usize = 4;

/// Bytes of a request.
pub const REQUEST_LEN_MAX: usize = 16 << 10;

/// Bytes of a response: 10,000 checks take 2 MiB.
pub const RESPONSE_LEN_MAX: usize = 8 << 20;

const MAGIC: [u8; 8] = *b"doorbell";

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame cannot be decoded.
    #[error("a frame that cannot be decoded")]
    Garbled,
    /// The other side does not greet as doorbell does.
    #[error("what answers there is not a doorbell")]
    NotDoorbell,
    /// The frame is longer than it may be.
    #[error("a frame of {len} bytes, of which at most {max} are allowed")]
    TooLong {
        /// Its bytes.
        len: usize,
        /// The cap.
        max: usize,
    },
    /// The other side speaks another version.
    #[error("version {theirs} of the control protocol, where this program speaks version {VERSION}")]
    Version {
        /// Theirs.
        theirs: u16,
    },
}

/// Our greeting.
#[must_use]
pub const fn hello() -> [u8; HELLO_LEN] {
    let [m0, m1, m2, m3, m4, m5, m6, m7] = MAGIC;
    let [low, high] = VERSION.to_le_bytes();
    [m0, m1, m2, m3, m4, m5, m6, m7, low, high, 0, 0]
}

/// Whether the other side can be understood.
///
/// # Errors
/// When it is not a doorbell, or one of another version.
pub fn check_hello(hello: [u8; HELLO_LEN]) -> Result<(), FrameError> {
    let [magic @ .., low, high, _, _] = hello;
    let theirs = u16::from_le_bytes([low, high]);
    match (magic == MAGIC, theirs == VERSION) {
        (false, _) => Err(FrameError::NotDoorbell),
        (true, false) => Err(FrameError::Version { theirs }),
        (true, true) => Ok(()),
    }
}

/// A frame with its length.
///
/// # Errors
/// When it is longer than `max`.
pub fn frame(value: &impl Encode, max: usize) -> Result<Vec<u8>, FrameError> {
    let bytes = bitcode::encode(value);
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len as usize <= max);
    let Some(len) = len else { return Err(FrameError::TooLong { len: bytes.len(), max }) };
    Ok([len.to_le_bytes().as_slice(), bytes.as_slice()].concat())
}

/// How many bytes of a frame follow.
///
/// # Errors
/// When they are more than `max`.
pub fn frame_len(prefix: [u8; PREFIX_LEN], max: usize) -> Result<usize, FrameError> {
    let len = usize::try_from(u32::from_le_bytes(prefix)).unwrap_or(usize::MAX);
    if len > max { Err(FrameError::TooLong { len, max }) } else { Ok(len) }
}

/// What is in a frame.
///
/// # Errors
/// When it is not of this type.
pub fn decode<T: DecodeOwned>(bytes: &[u8]) -> Result<T, FrameError> {
    bitcode::decode(bytes).map_err(|_| FrameError::Garbled)
}
