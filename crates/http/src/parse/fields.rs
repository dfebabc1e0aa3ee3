//! The field lines of a validated head.
//!
//! # Decision: search for a name in all lines at once
//!
//! *Context.* A guard needs one field of a head. The parser does not store the positions of fields
//! (except `Authorization`), only the range of all field lines. *Choice.* In valid lines LF occurs
//! only before a name. A name of n bytes can therefore only start where LF precedes it and a colon
//! follows after n bytes. Two comparisons of sixteen bytes together test sixteen positions for
//! this, without a search for line ends. *Measured* with callgrind: `absent` in
//! `benches/benches/instructions/edge.rs`. *What would change it:* a service that looks up many
//! names in one head, which would make it worth storing positions.

use crate::class::{BLOCK_LEN, Block};

/// Field lines, found by searching the head; their positions are not stored.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    lines: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Creates an instance. `lines` contains zero or more valid field lines, each with its CRLF.
    pub(super) const fn new(lines: &'a [u8]) -> Self {
        Self { lines }
    }

    /// The value of the first field with this name, ignoring case.
    pub fn find(&self, name: &str) -> Option<&'a [u8]> {
        let at = find_line(self.lines, name.as_bytes())?;
        Some(value_of(self.lines, at + name.len()).0)
    }

    /// Iterates over names as received and values without surrounding white space, in order.
    pub const fn iter(&self) -> FieldsIter<'a> {
        FieldsIter { rest: self.lines }
    }
}

impl<'a> IntoIterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = FieldsIter<'a>;

    fn into_iter(self) -> FieldsIter<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name.escape_ascii(), value.escape_ascii())))
            .finish()
    }
}

/// Iterator over field lines.
#[derive(Clone, Debug)]
pub struct FieldsIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for FieldsIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let line = self.rest;
        let colon = colon_of(line)?;
        let (value, end) = value_of(line, colon);
        self.rest = line.get(end + 2..).unwrap_or_default();
        Some((line.get(..colon)?, value))
    }
}

/// The start of the first line with this name in `lines`.
#[inline(always)]
fn find_line(lines: &[u8], name: &[u8]) -> Option<usize> {
    if begins_with(lines, name) { Some(0) } else { next_line(lines, name) }
}

/// The start of the first line with this name that follows an LF in `lines`.
#[inline(always)]
fn next_line(lines: &[u8], name: &[u8]) -> Option<usize> {
    // A window contains sixteen candidate positions of an LF and, for each of them, the position of
    // the colon after a name of this length.
    let window_len = BLOCK_LEN + name.len() + 1;
    let mut rest = lines;
    while let Some((window, _)) = rest.split_at_checked(window_len) {
        let found = among(rest, name, places(window));
        if let Some(line) = found {
            return Some(lines.len() - line.len());
        }
        rest = rest.get(BLOCK_LEN..)?;
    }
    let Some(last_at) = lines.len().checked_sub(window_len) else {
        // All lines together are shorter than a window.
        return if lines.len() > name.len() { in_few(lines, name) } else { None };
    };
    // Positions inside the previous window contain no match, because that window was searched.
    let last = lines.get(last_at..)?;
    Some(lines.len() - among(last, name, places(last))?.len())
}

/// The first line with this name among the lines that begin after the LFs marked by `places`.
#[inline(always)]
fn among<'a>(lines: &'a [u8], name: &[u8], mut places: u32) -> Option<&'a [u8]> {
    while places != 0 {
        let line = lines.get(places.trailing_zeros() as usize + 1..)?;
        if begins_with(line, name) {
            return Some(line);
        }
        places &= places - 1;
    }
    None
}

/// Like [`next_line`], for fewer bytes than a window.
#[inline(never)]
fn in_few(lines: &[u8], name: &[u8]) -> Option<usize> {
    let mut ends = lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    ends.find(|at| begins_with(lines.get(*at..).unwrap_or_default(), name))
}

/// A bit mask of the positions of LF after which a colon follows at the end of a name of the
/// searched length.
#[inline(always)]
fn places(window: &[u8]) -> u32 {
    match (window.first_chunk(), window.last_chunk()) {
        (Some(ends), Some(colons)) => {
            Block::load(ends).equals(b'\n').and(Block::load(colons).equals(b':')).bits()
        }
        _ => 0,
    }
}

/// Whether the first line has this name.
#[inline(always)]
fn begins_with(lines: &[u8], name: &[u8]) -> bool {
    match lines.split_at_checked(name.len()) {
        Some((found, [b':', ..])) => is_same(found, name),
        _ => false,
    }
}

/// Whether two names of the same length are equal, ignoring case.
#[inline(always)]
pub(super) fn is_same(found: &[u8], name: &[u8]) -> bool {
    match (found.last_chunk(), name.last_chunk()) {
        (Some(found_end), Some(name_end)) => {
            let mut words = found.as_chunks().0.iter().zip(name.as_chunks().0);
            is_same_word(*found_end, *name_end) && words.all(|(found, name)| is_same_word(*found, *name))
        }
        _ => found.eq_ignore_ascii_case(name) && !name.contains(&b':'),
    }
}

/// Whether eight bytes of two names are equal, ignoring case. A colon is never equal, because no
/// name contains one.
#[inline(always)]
const fn is_same_word(found: [u8; 8], name: [u8; 8]) -> bool {
    let (found, name) = (u64::from_le_bytes(found), u64::from_le_bytes(name));
    // The highest bit of each byte of `name` that is an ASCII letter.
    let lower = (name | splat(0x20)) & !HIGH;
    let letters = (lower + splat(0x80 - b'a')) & !(lower + splat(0x7f - b'z')) & !name & HIGH;
    let no_colon = name ^ splat(b':');
    let colons = no_colon.wrapping_sub(splat(1)) & !no_colon & HIGH;
    (found ^ name) & !(letters >> 2) | colons == 0
}

#[inline(always)]
const fn splat(byte: u8) -> u64 {
    0x0101_0101_0101_0101 * byte as u64
}

const HIGH: u64 = splat(0x80);

/// The position of the colon after the first name.
#[inline(always)]
fn colon_of(line: &[u8]) -> Option<usize> {
    let bits = line.first_chunk().map_or(0, |bytes| Block::load(bytes).equals(b':').bits());
    if bits == 0 { memchr::memchr(b':', line) } else { Some(bits.trailing_zeros() as usize) }
}

/// The value after the colon, and the position of its line's CRLF.
#[inline(always)]
fn value_of(lines: &[u8], colon: usize) -> (&[u8], usize) {
    let end = line_end(lines, colon + 1);
    (trim(lines.get(colon + 1..end).unwrap_or_default()), end)
}

/// The position of the first CR from `from` on.
#[inline(always)]
fn line_end(lines: &[u8], from: usize) -> usize {
    let mut rest = lines.get(from..).unwrap_or_default();
    while let Some((block, after)) = rest.split_first_chunk() {
        let bits = Block::load(block).equals(b'\r').bits();
        if bits != 0 {
            return lines.len() - rest.len() + bits.trailing_zeros() as usize;
        }
        rest = after;
    }
    // The last block overlaps bytes that were already examined.
    let bits = lines.last_chunk().map_or(0, |block| Block::load(block).equals(b'\r').bits());
    let unseen = bits >> (BLOCK_LEN - rest.len());
    if unseen != 0 {
        return lines.len() - rest.len() + unseen.trailing_zeros() as usize;
    }
    lines.len() - rest.len() + rest.iter().position(|&byte| byte == b'\r').unwrap_or(rest.len())
}

/// Removes surrounding spaces and tabs.
#[inline(always)]
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads the field lines byte by byte.
    fn plainly(lines: &[u8]) -> Vec<(&[u8], &[u8])> {
        let lines = lines.split_inclusive(|&byte| byte == b'\n');
        lines
            .map(|line| {
                let colon = line.iter().position(|&byte| byte == b':').unwrap();
                (&line[..colon], line[colon + 1..].trim_ascii())
            })
            .collect()
    }

    fn agree(lines: &[u8], name: &str) {
        let (fields, plainly) = (Fields::new(lines), plainly(lines));
        assert!(fields.iter().eq(plainly.iter().copied()), "{}", lines.escape_ascii());
        let named = plainly.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()));
        let values: Vec<&[u8]> = named.map(|(_, value)| *value).collect();
        assert_eq!(fields.find(name), values.first().copied(), "{name} in {}", lines.escape_ascii());
    }

    /// Names from a small set, so that many have the same length or are repeated. Some differ in
    /// bytes that merely resemble a change of case.
    fn names() -> impl Strategy<Value = String> {
        let known = proptest::sample::select(vec![
            "authorization",
            "Authorization",
            "AUTHORIZATION",
            "authorizatioN",
            "cache-control",
            "aUthorizatio\u{4e}",
            "host",
            "a",
            "x-api-key",
            "X-Api-Key",
            "x^api~key",
            "X~API^KEY",
            "x-api-keY",
            "authorization2",
            "a-name-of-more-than-sixteen-bytes",
            "A-NAME-OF-MORE-THAN-SIXTEEN-BYTES",
            "a-name-of-more-than-sixteen-bytez",
        ]);
        prop_oneof![4 => known.prop_map(str::to_owned), 1 => "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}"]
    }

    fn values() -> impl Strategy<Value = Vec<u8>> {
        let any = proptest::collection::vec(prop_oneof![0x20..0x7fu8, 0x80..=0xffu8, Just(b'\t')], 0..40);
        prop_oneof![any, Just(b" host: a".to_vec()), Just(b"authorization:".to_vec()), Just(b" \t ".to_vec())]
    }

    proptest! {
        #[test]
        fn as_line_by_line(fields in proptest::collection::vec((names(), values()), 0..6), name in names()) {
            let mut lines = Vec::new();
            for (name, value) in &fields {
                lines.extend_from_slice(&[name.as_bytes(), b":", value, b"\r\n"].concat());
            }
            agree(&lines, &name);
            for (name, value) in &fields {
                agree(&lines, name);
                // A text that is not a valid name never matches.
                let longer = [name.as_bytes(), b":", value].concat();
                if let Ok(longer) = String::from_utf8(longer) {
                    agree(&lines, &longer);
                }
            }
        }

        /// For invalid lines only termination is guaranteed.
        #[test]
        fn whatever_the_bytes(lines: Vec<u8>, name: String) {
            let fields = Fields::new(&lines);
            let _ = (fields.find(&name), fields.iter().count());
        }
    }

    #[test]
    fn what_is_no_name_is_not_found() {
        let lines = b"Host: 127.0.0.1:8080\r\nAccept: */*\r\nAuthorization: Bearer a:b\r\n";
        for name in [
            "",
            ":",
            "Host: 127.0.0.1",
            "*/*\r\nAuthorization",
            "Accept: */*\r\nAuthorization",
            "Authorization: Bearer a",
        ] {
            agree(lines, name);
            assert_eq!(Fields::new(lines).find(name), None);
        }
    }

    #[test]
    fn every_byte_pair_in_a_name() {
        for found in 0..=u8::MAX {
            for name in 0..=u8::MAX {
                let (mut one, mut other) = (*b"x-api-ke", *b"X-API-KE");
                (one[3], other[3]) = (found, name);
                let expected = found.eq_ignore_ascii_case(&name) && found != b':';
                assert_eq!(is_same_word(one, other), expected, "{found:#x} {name:#x}");
            }
        }
    }
}
