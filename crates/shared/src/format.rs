//! Format of values in the store: a version byte, then bitcode.

use bitcode::{DecodeOwned, Encode};

pub(crate) fn encode(version: u8, value: &impl Encode) -> Vec<u8> {
    let mut bytes = vec![version];
    bytes.extend_from_slice(&bitcode::encode(value));
    bytes
}

/// Decodes a value of this version and up to this size; `None` if it is invalid.
pub(crate) fn decode<T: DecodeOwned>(version: u8, len_max: usize, bytes: &[u8]) -> Option<T> {
    let (found, rest) = bytes.split_first()?;
    (*found == version && rest.len() < len_max).then(|| bitcode::decode(rest).ok()).flatten()
}

/// Truncates a text to at most this many bytes, at a character boundary.
pub(crate) fn at_most(text: &str, len_max: usize) -> &str {
    &text[..text.floor_char_boundary(len_max)]
}

#[cfg(test)]
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
