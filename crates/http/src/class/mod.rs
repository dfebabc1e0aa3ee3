//! Byte classes of the grammar and the scanners over them.
//!
//! Does not know about: messages. Each scanner returns the index of the first byte outside its class.
//!
//! The scanners skip eight bytes at a time with plain integer arithmetic, which every target has, and leave the
//! rest to the table. Longer vectors were not worth their set-up for the lengths that occur in a request.

/// `tchar` of RFC 9110 5.6.2.
pub(crate) const TCHAR: u8 = 1;
/// What we accept in a request target: visible ASCII without `#`.
pub(crate) const TARGET: u8 = 2;
/// A field value byte: HTAB, SP, visible ASCII, 0x80-0xFF.
pub(crate) const VALUE: u8 = 4;
/// A hexadecimal digit.
pub(crate) const HEX: u8 = 8;
/// A byte of a registered name in `Host`: unreserved, `%`, and sub-delims without the comma.
pub(crate) const HOST: u8 = 16;
/// `qdtext` of RFC 9110 5.6.4.
pub(crate) const QDTEXT: u8 = 32;

/// Whether `byte` belongs to any of `classes`.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "a u8 cannot leave a table of 256")]
pub(crate) const fn is(byte: u8, classes: u8) -> bool {
    CLASSES[byte as usize] & classes != 0
}

/// End of the run of `tchar` that starts at `from`.
#[inline(always)]
pub(crate) fn token_end(buf: &[u8], from: usize) -> usize {
    table_end(buf, from, TCHAR)
}

/// End of the run of target bytes that starts at `from`.
#[inline(always)]
pub(crate) fn target_end(buf: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = word(buf, at) {
        let bad = below(word, 0x21) | equal(word, 0x7f) | equal(word, b'#') | (word & HIGH);
        if bad != 0 {
            // The lowest set bit is exact: carries of the arithmetic only travel upwards.
            return at + (bad.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    table_end(buf, at, TARGET)
}

/// End of the run of field value bytes that starts at `from`.
#[inline(always)]
pub(crate) fn value_end(buf: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = word(buf, at) {
        let bad = below(word, 0x20) | equal(word, 0x7f);
        if bad != 0 {
            let end = at + (bad.trailing_zeros() / 8) as usize;
            // HTAB is allowed but rare: step over it and look on from there.
            if buf.get(end) != Some(&b'\t') {
                return end;
            }
            at = end + 1;
            continue;
        }
        at += 8;
    }
    table_end(buf, at, VALUE)
}

#[inline(always)]
fn table_end(buf: &[u8], from: usize, classes: u8) -> usize {
    let mut at = from;
    while let Some(&byte) = buf.get(at) {
        if !is(byte, classes) {
            break;
        }
        at += 1;
    }
    at
}

#[inline(always)]
fn word(buf: &[u8], at: usize) -> Option<u64> {
    buf.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// High bit set in each byte below `limit` (at most 0x80); bytes from 0x80 on are never marked.
#[inline(always)]
const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(LOW * limit as u64) & !word & HIGH
}

/// High bit set in each byte equal to `byte`.
#[inline(always)]
const fn equal(word: u64, byte: u8) -> u64 {
    let diff = word ^ (LOW * byte as u64);
    diff.wrapping_sub(LOW) & !diff & HIGH
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

static CLASSES: [u8; 256] = classes();

#[expect(clippy::indexing_slicing, reason = "the index runs over the table itself, at compile time")]
#[expect(clippy::cast_possible_truncation, reason = "the index is below 256")]
const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        let alphanumeric = byte.is_ascii_alphanumeric();
        let mut classes = 0;
        if alphanumeric
            || matches!(
                byte,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            )
        {
            classes |= TCHAR;
        }
        if byte.is_ascii_graphic() && byte != b'#' {
            classes |= TARGET;
        }
        if byte == b'\t' || (byte >= 0x20 && byte != 0x7f) {
            classes |= VALUE;
        }
        if byte.is_ascii_hexdigit() {
            classes |= HEX;
        }
        if alphanumeric
            || matches!(
                byte,
                b'-' | b'.'
                    | b'_'
                    | b'~'
                    | b'%'
                    | b'!'
                    | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b';'
                    | b'='
            )
        {
            classes |= HOST;
        }
        if classes & VALUE != 0 && byte != b'"' && byte != b'\\' {
            classes |= QDTEXT;
        }
        table[index] = classes;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests;
