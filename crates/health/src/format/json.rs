//! The pieces of JSON (RFC 8259) that bodies contain.

use std::time::Duration;

use super::body::decimal;

/// Writes a string in quotes.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

/// Writes the content of a string, with quotes, backslashes and control characters escaped (RFC
/// 8259, section 7).
pub(super) fn escaped(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
}

/// Writes a duration in milliseconds, with three decimals if they are not zero.
pub(super) fn millis(out: &mut Vec<u8>, duration: Duration) {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    decimal(out, micros / 1000);
    let rest = micros % 1000;
    if rest > 0 {
        // 12 microseconds are written as 1012: the leading 1 preserves the zero after it, and is
        // then replaced by the decimal point.
        let start = out.len();
        decimal(out, 1000 + rest);
        out[start] = b'.';
    }
}
