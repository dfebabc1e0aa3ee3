//! Byte classes of the grammar, and scanners for them.
//!
//! Each scanner returns the index of the first byte that is not in its class.
//!
//! Most scanners process sixteen bytes at a time, and pad a shorter buffer; [`token_end`] looks up
//! each byte in a table.

mod block;

pub(crate) use block::Block;
use block::Mask;

/// `tchar` of RFC 9110 5.6.2.
pub(crate) const TCHAR: u8 = 1;
/// Accepted bytes of a request target: visible ASCII without `#`.
pub(crate) const TARGET: u8 = 2;
/// A field value byte: HTAB, SP, visible ASCII, 0x80-0xFF.
pub(crate) const VALUE: u8 = 4;
/// A hexadecimal digit.
pub(crate) const HEX: u8 = 8;
/// A byte of a registered name in `Host`: unreserved, `%`, or a sub-delim other than the comma.
pub(crate) const HOST: u8 = 16;
/// `qdtext` of RFC 9110 5.6.4.
pub(crate) const QDTEXT: u8 = 32;

/// Number of bytes in a block.
pub(crate) const BLOCK_LEN: usize = block::LEN;

/// Whether `byte` belongs to any of `classes`.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "a u8 is below the table length of 256")]
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
    stop(buf, from, |block| block.outside(0x21, 0x7e).or(block.equals(b'#')))
}

/// End of the run of plain path bytes that starts at `from`. These are the target bytes except `?`,
/// backslash and percent sign, which need further handling, and except `!`, `"` and `$`, whose
/// exclusion saves a comparison.
#[inline(always)]
pub(crate) fn path_end(buf: &[u8], from: usize) -> usize {
    stop(buf, from, no_path)
}

/// A bit mask of the bytes at which [`path_end`] stops.
#[inline(always)]
pub(crate) fn path_stops(bytes: &[u8; BLOCK_LEN]) -> u32 {
    no_path(Block::load(bytes)).bits()
}

#[inline(always)]
fn no_path(block: Block) -> Mask {
    block.outside(b'&', 0x7e).or(block.equals(b'?')).or(block.equals(b'\\'))
}

/// End of the path segment that starts at `from`: the next `/`, or the end.
#[inline(always)]
pub(crate) fn segment_end(path: &[u8], from: usize) -> usize {
    if path.len() >= BLOCK_LEN {
        return stop(path, from, |block| block.equals(b'/'));
    }
    // For a short path, building a block costs more than examining the bytes.
    let rest = path.get(from..).unwrap_or_default();
    rest.iter().position(|&byte| byte == b'/').map_or(path.len(), |len| from + len)
}

/// End of the run of field value bytes that starts at `from`.
#[inline(always)]
pub(crate) fn value_end(buf: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = stop(buf, at, |block| block.outside(0x20, 0x7e));
        // HTAB and bytes outside ASCII are valid but rare, so they are skipped one by one.
        match buf.get(at) {
            Some(&byte) if is(byte, VALUE) => at += 1,
            _ => return at,
        }
    }
}

/// A bit mask of the bytes that are not printable ASCII.
#[inline(always)]
pub(crate) fn value_stops(bytes: &[u8; BLOCK_LEN]) -> u32 {
    Block::load(bytes).outside(0x20, 0x7e).bits()
}

/// End of the run of common host bytes that starts at `from`: letters, digits, `-` and `.`.
#[inline(always)]
pub(crate) fn plain_host_end(buf: &[u8], from: usize) -> usize {
    stop(buf, from, no_plain_host)
}

/// A bit mask of the bytes at which [`plain_host_end`] stops.
#[inline(always)]
pub(crate) fn plain_host_stops(bytes: &[u8; BLOCK_LEN]) -> u32 {
    no_plain_host(Block::load(bytes)).bits()
}

#[inline(always)]
fn no_plain_host(block: Block) -> Mask {
    let other = block.outside(b'-', b'9').or(block.equals(b'/'));
    block.fold().outside(b'a', b'z').and(other)
}

/// Number of leading bytes that are letters or `-`, as in most field names.
#[inline(always)]
pub(crate) fn plain_name_len(bytes: &[u8; BLOCK_LEN]) -> usize {
    let block = Block::load(bytes);
    let stops = block.fold().outside(b'a', b'z').and_not(block.equals(b'-')).bits();
    (stops | 1 << BLOCK_LEN).trailing_zeros() as usize
}

/// The index of the first byte marked by `stops`, or the length of `buf`.
#[inline(always)]
fn stop(buf: &[u8], from: usize, stops: impl Fn(Block) -> Mask) -> usize {
    let mut rest = buf.get(from..).unwrap_or_default();
    while let Some((block, after)) = rest.split_first_chunk() {
        let bits = stops(Block::load(block)).bits();
        if bits != 0 {
            return buf.len() - rest.len() + bits.trailing_zeros() as usize;
        }
        rest = after;
    }
    let bits = match buf.last_chunk() {
        // The last block overlaps bytes that were already examined.
        Some(block) => stops(Block::load(block)).bits() >> (BLOCK_LEN - rest.len()),
        None => stops(Block::load(&padded(rest))).bits(),
    };
    buf.len() - rest.len() + (bits | 1 << rest.len()).trailing_zeros() as usize
}

/// Returns a partial block, padded with zero bytes.
#[cold]
#[inline(never)]
fn padded(bytes: &[u8]) -> [u8; BLOCK_LEN] {
    let mut block = [0; BLOCK_LEN];
    for (place, &byte) in block.iter_mut().zip(bytes) {
        *place = byte;
    }
    block
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

static CLASSES: [u8; 256] = classes();

#[expect(
    clippy::indexing_slicing,
    reason = "the index is below the length of the table, and this runs at compile time"
)]
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
