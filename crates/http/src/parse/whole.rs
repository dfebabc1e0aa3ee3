//! The fast path through a head: complete lines in the usual form.
//!
//! Any line that is not in the usual form is left to the steps of `line` and `field`, which
//! continue from its start. Those steps define the rules, and this path accepts a subset; tests
//! compare both paths.
//!
//! Three measures keep the cost of a head small. A line is examined sixteen bytes at a time. The
//! field names that every prober sends are compared as one or two words. All state is kept in
//! registers until the end. Words are compared as numbers, because the compiler would compare
//! arrays byte by byte.

use super::fields::is_same;
use super::{CLOSE, HEAD_BYTES_CAP, HOST, Head, PRIVATE, Span, Step, offset};
use crate::class::{self, BLOCK_LEN, Block};
use crate::{Limits, Method, RequestError};

impl Head {
    /// Parses a head from its first byte as far as possible; returns true at its end. If it returns
    /// false, either nothing was read and nothing changed, or the steps must continue with the line
    /// that begins at `at`.
    ///
    /// The head must be new or cleared ([`Self::new`], [`Self::clear`]). Members that a complete
    /// head does not use are not written.
    #[inline(always)]
    pub(super) fn read_whole(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        if buf.len() > limits.request_line_bytes_max.min(limits.head_bytes_max).min(HEAD_BYTES_CAP) {
            return self.read_cut(buf, limits);
        }
        self.read_window(buf, limits)
    }

    /// Like [`Self::read_whole`], for input that is longer than the limit of a line or head.
    #[cold]
    #[inline(never)]
    fn read_cut(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        let limit = limits.request_line_bytes_max.min(limits.head_bytes_max).min(HEAD_BYTES_CAP);
        self.read_window(buf.get(..limit).unwrap_or(buf), limits)
    }

    #[inline(always)]
    fn read_window(&mut self, window: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        let Some((line, mut rest)) = RequestLine::read(window) else {
            return not_whole();
        };
        self.target = Span::new(line.target_at, line.len - VERSION_LEN);
        self.path = Span::new(line.target_at, line.path_end);
        self.lines_at = offset(line.len);
        self.method = line.method;
        self.minor = line.minor;
        self.flags = 0;
        let mut fields = 0;
        while let Some(bytes) = rest.first_chunk() {
            match self.read_line(bytes, window, rest, fields, limits)? {
                Some(after) => rest = after,
                None if u16_at::<0>(bytes) == CRLF => {
                    return self.end(window, rest, fields, limits);
                }
                None => return self.leave(window, rest, fields, limits),
            }
            fields += 1;
        }
        // Fewer than sixteen bytes are left, which are usually at most one more line.
        if ends_here(rest) {
            self.end(window, rest, fields, limits)
        } else {
            self.read_short_line(window, rest, fields, limits)
        }
    }

    #[inline(never)]
    fn read_short_line(
        &mut self,
        window: &[u8],
        rest: &[u8],
        fields: u32,
        limits: &Limits,
    ) -> Result<bool, RequestError> {
        let after = match last_block(window, rest.len()) {
            Some(bytes) => self.read_line(&bytes, window, rest, fields, limits)?,
            None => None,
        };
        match after {
            Some(after) if ends_here(after) => self.end(window, after, fields + 1, limits),
            Some(after) => self.leave(window, after, fields + 1, limits),
            None => self.leave(window, rest, fields, limits),
        }
    }

    /// Ends the head at the empty line at the start of `rest`.
    #[inline(always)]
    fn end(
        &mut self,
        window: &[u8],
        rest: &[u8],
        fields: u32,
        limits: &Limits,
    ) -> Result<bool, RequestError> {
        self.fields = fields;
        self.at = offset(window.len() - rest.len() + 2);
        self.step = Step::Ended;
        // All lines up to here are valid, so an excess of lines is the first error.
        if fields > limits.fields_max { Err(RequestError::HeadTooLarge) } else { Ok(true) }
    }

    /// Lets the steps continue with the line at the start of `rest`.
    #[inline(never)]
    fn leave(
        &mut self,
        window: &[u8],
        rest: &[u8],
        fields: u32,
        limits: &Limits,
    ) -> Result<bool, RequestError> {
        self.fields = fields;
        self.at = offset(window.len() - rest.len());
        self.step = Step::FieldStart;
        if fields > limits.fields_max { Err(RequestError::HeadTooLarge) } else { Ok(false) }
    }

    /// Reads the field line at the start of `rest`; `bytes` is its beginning. Returns the bytes
    /// after the line.
    #[inline(always)]
    fn read_line<'a>(
        &mut self,
        bytes: &[u8; BLOCK_LEN],
        window: &[u8],
        rest: &'a [u8],
        fields: u32,
        limits: &Limits,
    ) -> Result<Option<&'a [u8]>, RequestError> {
        // Setting this bit converts letters to lower case. No other byte becomes a letter.
        let start = u32_at::<0>(bytes) | 0x2020_2020;
        if start == u32::from_le_bytes(*b"host") {
            if let Some((len, after)) = plain_host(bytes, rest)
                && !self.has(HOST)
            {
                let at = window.len() - rest.len() + NAME_HOST_LEN;
                self.host = Span::new(at, at + len);
                self.flags |= HOST;
                return Ok(Some(after));
            }
        } else if start == u32::from_le_bytes(*b"conn") {
            if let Some((line, after)) = rest.split_first_chunk::<19>()
                && line.last_chunk() == Some(b"nection: close\r\n")
            {
                self.flags |= CLOSE;
                return Ok(Some(after));
            }
        } else if (start == u32::from_le_bytes(*b"acce")
            && u32_at::<4>(bytes) == u32::from_le_bytes(*b"pt: "))
            || (start == u32::from_le_bytes(*b"user") && is_user_agent(bytes))
        {
            return Ok(after_line(rest, bytes));
        } else if u16_at::<0>(bytes) == CRLF {
            return Ok(None);
        }
        self.read_other_line(bytes, window, rest, fields, limits)
    }

    /// Like [`Self::read_line`], for less common lines. Not inlined: with a single call for all
    /// such lines, the loop over lines can keep its values in registers.
    #[inline(never)]
    fn read_other_line<'a>(
        &mut self,
        bytes: &[u8; BLOCK_LEN],
        window: &[u8],
        rest: &'a [u8],
        fields: u32,
        limits: &Limits,
    ) -> Result<Option<&'a [u8]>, RequestError> {
        if u32_at::<0>(bytes) | 0x2020_2020 == u32::from_le_bytes(*b"auth") {
            self.read_authorization(bytes, window, rest, fields, limits)
        } else {
            self.read_any_line(bytes, window, rest, fields, limits)
        }
    }

    /// Like [`Self::read_line`], for `Authorization: ` and a value without surrounding white space.
    #[inline(never)]
    fn read_authorization<'a>(
        &mut self,
        bytes: &[u8; BLOCK_LEN],
        window: &[u8],
        rest: &'a [u8],
        fields: u32,
        limits: &Limits,
    ) -> Result<Option<&'a [u8]>, RequestError> {
        match authorization_line(bytes, rest) {
            Some((len, after)) => {
                self.on_authorization(window.len() - rest.len() + NAME_AUTHORIZATION_LEN, len);
                self.flags |= PRIVATE;
                Ok(Some(after))
            }
            None => self.read_any_line(bytes, window, rest, fields, limits),
        }
    }

    /// Like [`Self::read_line`], for a line with any name.
    #[inline(never)]
    fn read_any_line<'a>(
        &mut self,
        bytes: &[u8; BLOCK_LEN],
        window: &[u8],
        rest: &'a [u8],
        fields: u32,
        limits: &Limits,
    ) -> Result<Option<&'a [u8]>, RequestError> {
        if begins_with(bytes, b"accept-encoding") && bytes.last() == Some(&b':') {
            return Ok(after_value(rest, BLOCK_LEN));
        }
        let Some((name_len, after)) = any_line(rest, bytes) else {
            return Ok(None);
        };
        if !matches!(name_len, 4 | 6 | 10 | 15) || !is_open(bytes, name_len) {
            self.flags |= PRIVATE;
        }
        if may_matter(bytes, name_len) {
            if fields >= limits.fields_max {
                return Ok(None);
            }
            let from = window.len() - rest.len();
            self.on_whole_field(window, from, name_len, window.len() - after.len() - 2)?;
        }
        Ok(Some(after))
    }
}

#[cold]
#[inline(never)]
const fn not_whole() -> Result<bool, RequestError> {
    Ok(false)
}

/// The request line `METHOD /path[?query] HTTP/1.x` and CRLF.
struct RequestLine {
    method: Method,
    target_at: usize,
    path_end: usize,
    /// Length of the line, including CRLF.
    len: usize,
    minor: u8,
}

impl RequestLine {
    /// Reads the line at the start of `window`; returns it and the bytes after it.
    #[inline(always)]
    fn read(window: &[u8]) -> Option<(Self, &[u8])> {
        let bytes = window.first_chunk::<BLOCK_LEN>()?;
        if u32_at::<0>(bytes) == u32::from_le_bytes(*b"GET ") {
            return Self::read_from(window, Method::Get, 4);
        }
        Self::read_other(window)
    }

    /// Reads a line with a method other than GET that probers and browsers send.
    #[inline(never)]
    fn read_other(window: &[u8]) -> Option<(Self, &[u8])> {
        [(Method::Head, "HEAD "), (Method::Options, "OPTIONS "), (Method::Post, "POST ")]
            .into_iter()
            .find(|(_, start)| window.starts_with(start.as_bytes()))
            .and_then(|(method, start)| Self::read_from(window, method, start.len()))
    }

    #[inline(always)]
    fn read_from(window: &[u8], method: Method, target_at: usize) -> Option<(Self, &[u8])> {
        let target = window.get(target_at..)?;
        if target.first() != Some(&b'/') {
            return None;
        }
        let stops = class::path_stops(target.first_chunk()?);
        let path_len = if stops == 0 { long_path_len(target) } else { stops.trailing_zeros() as usize };
        let (mut version, mut rest) = target.get(path_len..)?.split_first_chunk::<VERSION_LEN>()?;
        if version.first() == Some(&b'?') {
            (version, rest) = after_query(target.get(path_len..)?)?;
        }
        if u64::from_le_bytes(*version.first_chunk()?) != u64::from_le_bytes(*b" HTTP/1.") {
            return None;
        }
        let digit = u32::from_le_bytes(*version.last_chunk()?);
        let minor = if digit == u32::from_le_bytes(*b".1\r\n") {
            1
        } else if digit == u32::from_le_bytes(*b".0\r\n") {
            0
        } else {
            return None;
        };
        Some((
            Self { method, target_at, path_end: target_at + path_len, len: window.len() - rest.len(), minor },
            rest,
        ))
    }
}

#[inline(always)]
fn ends_here(rest: &[u8]) -> bool {
    rest.first_chunk().is_some_and(|end| u16::from_le_bytes(*end) == CRLF)
}

#[inline(never)]
fn long_path_len(target: &[u8]) -> usize {
    class::path_end(target, 0)
}

#[inline(never)]
fn after_query(target: &[u8]) -> Option<(&[u8; VERSION_LEN], &[u8])> {
    target.get(class::target_end(target, 0)..)?.split_first_chunk()
}

/// Reads `Host: ` with a name of common characters or an IPv4 address, and an optional port.
/// Returns the length of the value and the bytes after the line.
#[inline(always)]
fn plain_host<'a>(bytes: &[u8; BLOCK_LEN], line: &'a [u8]) -> Option<(usize, &'a [u8])> {
    if u16_at::<4>(bytes) != u16::from_le_bytes(*b": ") {
        return None;
    }
    let value = line.get(NAME_HOST_LEN..)?;
    let stops = class::plain_host_stops(value.first_chunk()?);
    let host_len = if stops == 0 { long_host_len(value) } else { stops.trailing_zeros() as usize };
    let rest = value.get(host_len..)?;
    let (after, _) = rest.split_first_chunk::<{ BLOCK_LEN + 1 }>()?;
    if host_len == 0 {
        return None;
    }
    let port_len = match after {
        [b':', port @ ..] => match Block::load(port).outside(b'0', b'9').bits().trailing_zeros() {
            len @ 1..=4 => 1 + len as usize,
            // For texts of five digits, the byte order is the numeric order.
            5 if port.first_chunk::<5>()? <= b"65535" => 6,
            _ => return None,
        },
        _ => 0,
    };
    let (end, after) = rest.get(port_len..)?.split_first_chunk()?;
    (u16::from_le_bytes(*end) == CRLF).then_some((host_len + port_len, after))
}

#[inline(never)]
fn long_host_len(value: &[u8]) -> usize {
    class::plain_host_end(value, 0)
}

/// Whether a line that starts with `User` continues with `-Agent: `.
#[inline(always)]
fn is_user_agent(line: &[u8; BLOCK_LEN]) -> bool {
    let middle = u32_at::<4>(line);
    (middle == u32::from_le_bytes(*b"-Age") || middle == u32::from_le_bytes(*b"-age"))
        && u32_at::<8>(line) == u32::from_le_bytes(*b"nt: ")
}

/// The bytes after a line that begins with `bytes`, whose name and colon are valid.
#[inline(always)]
fn after_line<'a>(line: &'a [u8], bytes: &[u8; BLOCK_LEN]) -> Option<&'a [u8]> {
    let mut stops = class::value_stops(bytes);
    let mut rest = line;
    if stops == 0 {
        rest = line.get(BLOCK_LEN..)?;
        stops = rest.first_chunk().map_or(0, class::value_stops);
        if stops == 0 {
            return after_value(line, BLOCK_LEN);
        }
    }
    // The scanner also stops at bytes that do not end the line, such as HTAB.
    let (end, after) = rest.get(stops.trailing_zeros() as usize..)?.split_first_chunk()?;
    if u16::from_le_bytes(*end) == CRLF { Some(after) } else { after_value(line, 0) }
}

/// The bytes after a line that is valid before `from`.
#[inline(never)]
fn after_value(line: &[u8], from: usize) -> Option<&[u8]> {
    let (end, after) = line.get(class::value_end(line, from)..)?.split_first_chunk()?;
    (u16::from_le_bytes(*end) == CRLF).then_some(after)
}

/// The length of the name of any valid line that begins with `bytes`, and the bytes after the line.
#[inline(always)]
fn any_line<'a>(line: &'a [u8], bytes: &[u8; BLOCK_LEN]) -> Option<(usize, &'a [u8])> {
    let mut name_len = class::plain_name_len(bytes);
    if bytes.get(name_len) != Some(&b':') {
        name_len = class::token_end(line, name_len);
        if line.get(name_len) != Some(&b':') {
            return None;
        }
    }
    if name_len == 0 {
        return None;
    }
    let end = class::value_end(line, name_len + 1);
    let (end, after) = line.get(end..)?.split_first_chunk()?;
    (u16::from_le_bytes(*end) == CRLF).then_some((name_len, after))
}

/// The length of the value of `Authorization: ` and the bytes after the line.
#[inline(always)]
fn authorization_line<'a>(bytes: &[u8; BLOCK_LEN], line: &'a [u8]) -> Option<(usize, &'a [u8])> {
    let is_named = begins_with(bytes, b"authorization") && u16_at::<13>(bytes) == u16::from_le_bytes(*b": ");
    if !is_named || bytes.last()? <= &b' ' {
        return None;
    }
    if line.len() < BLOCK_LEN {
        return None;
    }
    let (line, rest) = line.split_at_checked(class::value_end(line, NAME_AUTHORIZATION_LEN))?;
    let (end, after) = rest.split_first_chunk()?;
    let is_plain = u16::from_le_bytes(*end) == CRLF && line.last()? > &b' ';
    is_plain.then_some((line.len() - NAME_AUTHORIZATION_LEN, after))
}

/// Whether a name with this length and beginning can be that of a field that the parser uses.
#[inline(always)]
fn may_matter(bytes: &[u8; BLOCK_LEN], name_len: usize) -> bool {
    matches!(name_len, 4 | 6 | 10 | 13 | 14 | 17)
        && matches!(bytes[0] | 0x20, b'a' | b'h' | b'e' | b'c' | b't')
}

/// Whether a field whose name has this length and beginning contains no secret. The names that
/// [`Head::read_line`] handles directly are included.
#[inline(never)]
fn is_open(bytes: &[u8; BLOCK_LEN], name_len: usize) -> bool {
    match name_len {
        4 => begins_with(bytes, b"host"),
        6 => begins_with(bytes, b"accept"),
        10 => begins_with(bytes, b"connection") || begins_with(bytes, b"user-agent"),
        15 => begins_with(bytes, b"accept-encoding"),
        _ => false,
    }
}

/// Whether `bytes` start with `name`, ignoring case.
#[inline(always)]
fn begins_with<const LEN: usize>(bytes: &[u8; BLOCK_LEN], name: &[u8; LEN]) -> bool {
    bytes.first_chunk::<LEN>().is_some_and(|found| is_same(found, name))
}

/// The last `len` bytes, fewer than a block, padded with zero bytes, which occur in no valid line.
#[inline(always)]
fn last_block(window: &[u8], len: usize) -> Option<[u8; BLOCK_LEN]> {
    let bytes = u128::from_le_bytes(*window.last_chunk()?);
    Some((bytes >> ((BLOCK_LEN - len) % BLOCK_LEN * 8)).to_le_bytes()).filter(|_| len > 0)
}

#[inline(always)]
fn u32_at<const AT: usize>(bytes: &[u8; BLOCK_LEN]) -> u32 {
    let Some(word) = bytes.get(AT..).and_then(<[u8]>::first_chunk) else {
        return 0;
    };
    u32::from_le_bytes(*word)
}

#[inline(always)]
fn u16_at<const AT: usize>(bytes: &[u8; BLOCK_LEN]) -> u16 {
    let Some(word) = bytes.get(AT..).and_then(<[u8]>::first_chunk) else {
        return 0;
    };
    u16::from_le_bytes(*word)
}

const CRLF: u16 = u16::from_le_bytes(*b"\r\n");
/// Length of ` HTTP/1.1` and CRLF.
const VERSION_LEN: usize = 11;
/// Length of `Host: `.
const NAME_HOST_LEN: usize = 6;
/// Length of `Authorization: `.
const NAME_AUTHORIZATION_LEN: usize = 15;
