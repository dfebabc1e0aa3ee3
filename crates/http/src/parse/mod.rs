//! The request head: an incremental parser that can pause at any byte.
//!
//! Entry point: [`Head::parse`].
//!
//! The result depends on the bytes alone: it is determined by the first byte that cannot be part of
//! an acceptable head, however the input is split, and every limit applies at one exact byte. Only
//! offsets are stored. Field lines, except `Host` and `Authorization`, are searched on demand in
//! the validated bytes; a probe needs no such search.
//!
//! # Tolerated deviations
//!
//! RFC 3986 allows neither `"<>^{|}` nor a backtick in a target, and requires two hexadecimal
//! digits after each `%`. Clients violate both rules. Such targets are accepted unchanged, and are
//! percent-encoded in a `Location`. Also accepted are:
//!
//! - a backslash and `%00` in a query (in a path both get a 400),
//! - up to two empty lines before the request line,
//! - a target in absolute form whose authority equals `Host`, or differs only in that one of the
//!   two contains the default port of the scheme,
//! - the versions 1.2 to 1.9,
//! - bytes from 0x80 on in a field value,
//! - chunk extensions within their limits.
//!
//! # Decision: two paths through a head
//!
//! *Context.* A probe arrives in one piece and in the usual form; most rules concern other input.
//! *Choice.* `whole` reads lines in the usual form, sixteen bytes at a time and with all state in
//! registers. It stops without any change at a line that is unusual, invalid or incomplete. The
//! steps of `line` and `field` continue with that line; they can pause at any byte, and they report
//! errors of syntax. A request line or field line is therefore read at most twice. *Measured* with
//! callgrind: 385 instructions instead of 1,699 for the head of a kubelet's probe. The tables, the
//! split points and the fuzz corpus compare both paths, because byte-by-byte input uses only the
//! steps. *What would change it:* a head that only `whole` accepts.
//!
//! # Decision: a separate parser instead of httparse
//!
//! *Context.* The rules here are stricter than those of httparse (bare LF, `Host`, framing fields,
//! target bytes, versions 1.2 to 1.9 and 505, exact limits), so httparse would need a second pass
//! over every head. It also starts again from the first byte whenever more bytes arrive. *Measured*
//! with criterion on a shared two-core virtual machine (`cargo bench -p doorbell-benches --bench
//! parse`; median). The machine was not idle, so compare columns, not rows:
//!
//! | head | this parser | httparse 1.10 and a strict pass |
//! |---|---|---|
//! | kubelet probe, 108 bytes | 22 ns | 187 ns |
//! | browser GET, 702 bytes | 184 ns | 708 ns |
//! | POST, 173 bytes | 69 ns | 249 ns |
//!
//! *Choice.* This parser is used in production; httparse with the strict pass is the oracle of the
//! fuzz target `differential`. *What would change it:* a version of httparse that resumes where it
//! stopped and is faster even with the strict pass.

mod authority;
mod field;
mod fields;
mod line;
mod seen;
mod whole;

pub use fields::{Fields, FieldsIter};
pub use seen::Seen;

use crate::prober::Requester;
use crate::{Limits, Method, RequestError};
pub(crate) use authority::is_host;
pub use authority::is_same_authority;
use std::fmt;

/// Length of the body (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The body is chunked.
    Chunked,
    /// The body has this many bytes.
    Length(u64),
    /// There is no body.
    None,
}

/// State of one head: the progress of parsing and the results so far.
///
/// Offsets are relative to the first byte passed in.
#[derive(Clone)]
pub struct Head {
    content_length: u64,
    target: Span,
    path: Span,
    authority: Span,
    host: Span,
    /// Start of the request line. Once that line is read: start of the field lines.
    lines_at: u32,
    /// The next byte to read. After the end of the head: the length of the head.
    at: u32,
    /// Start of the current token.
    mark: u32,
    name_end: u32,
    value_at: u32,
    fields: u32,
    /// Number of empty lines skipped before the request line; [`u16::MAX`] stands for this and any
    /// larger number.
    empty_lines: u16,
    /// Position of the value of the first `Authorization`.
    authorization_at: u32,
    /// Length of the value of the first `Authorization`; `u16::MAX` stands for this and any larger
    /// length.
    authorization_len: u16,
    flags: u16,
    method: Method,
    major: u8,
    minor: u8,
    step: Step,
    /// The sender; set only for a head that [`Seen`] has cached.
    requester: Option<Requester>,
}

impl Head {
    /// Creates the state before the first byte.
    pub const fn new() -> Self {
        Self {
            content_length: 0,
            target: Span::EMPTY,
            path: Span::EMPTY,
            authority: Span::EMPTY,
            host: Span::EMPTY,
            lines_at: 0,
            at: 0,
            mark: 0,
            name_end: 0,
            value_at: 0,
            fields: 0,
            empty_lines: 0,
            authorization_at: 0,
            authorization_len: 0,
            flags: 0,
            method: Method::Get,
            major: 0,
            minor: 0,
            step: Step::Start,
            requester: None,
        }
    }

    /// Continues to parse. `buf` contains all bytes from the first one of this head on; the bytes
    /// of earlier calls are a prefix of it.
    ///
    /// `Some(len)` means that the head is complete and has `len` bytes. `None` means that it needs
    /// more bytes, and is shorter than `head_bytes_max`. Must not be called again after an error.
    pub fn parse(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, RequestError> {
        debug_assert!(self.at as usize <= buf.len(), "the input contains the bytes of earlier calls");
        if self.step == Step::Ended || self.parse_whole_apart(buf, limits)? || self.read_steps(buf, limits)? {
            return Ok(Some(self.at as usize));
        }
        Ok(None)
    }

    /// Parses a complete head in the usual form. Returns false for other input; [`Self::parse`]
    /// then continues from the reached position.
    #[inline(always)]
    pub(crate) fn parse_whole(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        if self.at > 0 || !self.read_whole(buf, limits)? {
            return Ok(false);
        }
        if self.flags & (HOST | ENCODED | EXPECT_OTHER | ABSOLUTE | UNKNOWN) != HOST {
            self.finish(buf)?;
        }
        Ok(true)
    }

    /// Like [`Self::parse_whole`], not inlined.
    #[inline(never)]
    pub(crate) fn parse_whole_apart(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        self.parse_whole(buf, limits)
    }

    /// Like [`Self::parse_whole`], for a head that is not in `seen`. `seen` may cache the head.
    #[inline(always)]
    pub(crate) fn parse_unseen(
        &mut self,
        buf: &[u8],
        limits: &Limits,
        seen: &mut Seen,
    ) -> Result<bool, RequestError> {
        let ended = self.parse_whole(buf, limits)?;
        if ended && self.is_open() {
            seen.learn(self, buf);
        }
        Ok(ended)
    }

    /// Whether a head read by [`Self::parse_whole`] contains no secret and has no body. Such a head
    /// has no query, and no fields other than `Host`, `Connection`, `Accept`, `Accept-Encoding` and
    /// `User-Agent`.
    #[inline(always)]
    const fn is_open(&self) -> bool {
        self.flags & !(CLOSE | HOST | KEEP_ALIVE) == 0 && self.path.end == self.target.end
    }

    /// Continues step by step from any position; returns true at the end of the head.
    #[inline(never)]
    fn read_steps(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        if self.at == 0 {
            *self = Self::new();
        }
        let ended = (self.step > Step::Start || self.leading_lines(buf, limits)?)
            && (self.step > Step::Version || self.request_line(buf, limits)?)
            && self.field_lines(buf, limits)?;
        if ended {
            self.step = Step::Ended;
            self.finish(buf)?;
        }
        Ok(ended)
    }

    /// Resets the head. Members that are not reset are overwritten when the next head begins.
    #[inline]
    pub(crate) const fn clear(&mut self) {
        self.at = 0;
        self.step = Step::Start;
    }

    /// Whether a byte of the request itself has been read; preceding empty lines do not count.
    pub const fn is_begun(&self) -> bool {
        self.step as u8 > Step::Start as u8
    }

    /// The method; a complete head always has one.
    #[inline]
    pub const fn method(&self) -> Option<Method> {
        if self.is_begun() && !self.has(UNKNOWN) { Some(self.method) } else { None }
    }

    /// The method of a complete head.
    #[inline]
    pub(crate) const fn known_method(&self) -> Method {
        self.method
    }

    /// Minor version: 0 for HTTP/1.0, at least 1 otherwise.
    pub const fn minor(&self) -> u8 {
        self.minor
    }

    /// Length of a complete head.
    pub const fn len(&self) -> usize {
        self.at as usize
    }

    /// Whether no byte has been read.
    pub const fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Whether a body follows.
    #[inline]
    pub(crate) const fn has_body(&self) -> bool {
        self.has(CHUNKED | LENGTH) && !matches!(self.framing(), Framing::None)
    }

    /// The framing of the body.
    #[inline]
    pub const fn framing(&self) -> Framing {
        if self.has(CHUNKED) {
            Framing::Chunked
        } else if self.has(LENGTH) && self.content_length > 0 {
            Framing::Length(self.content_length)
        } else {
            Framing::None
        }
    }

    /// Whether the client wants a persistent connection (RFC 9112 9.3).
    #[inline]
    pub const fn keeps_alive(&self) -> bool {
        !self.has(CLOSE) && (self.minor > 0 || self.has(KEEP_ALIVE))
    }

    /// The sender of this head, if it was already identified.
    #[inline(always)]
    pub(crate) const fn requester(&self) -> Option<Requester> {
        self.requester
    }

    /// Whether the client waits for `100 Continue`, which is never the case in HTTP/1.0 (RFC 9110
    /// 10.1.1).
    pub const fn expects_continue(&self) -> bool {
        self.has(EXPECT_CONTINUE) && self.minor > 0
    }

    /// The target as received.
    pub fn target<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        self.target.of(head)
    }

    /// The path. It is `/` for an absolute target without a path, and `*` for a request about the
    /// server itself.
    #[inline]
    pub fn path<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        match self.path.of(head) {
            [] if self.method == Method::Options && self.path.end == self.target.end => b"*",
            [] => b"/",
            path => path,
        }
    }

    /// The part after the first `?` of the target.
    #[inline]
    pub fn query<'a>(&self, head: &'a [u8]) -> Option<&'a [u8]> {
        head.get(self.path.end as usize..self.target.end as usize)?.split_first().map(|(_, query)| query)
    }

    /// The authority of an absolute target, or else `Host`.
    #[inline]
    pub fn host<'a>(&self, head: &'a [u8]) -> Option<&'a [u8]> {
        if self.has(ABSOLUTE) {
            Some(self.authority.of(head))
        } else {
            self.has(HOST).then(|| self.host.of(head))
        }
    }

    /// The value of the first `Authorization`, and whether it is the only one.
    #[inline]
    pub(crate) fn authorization<'a>(&self, head: &'a [u8]) -> Option<(&'a [u8], bool)> {
        if !self.has(AUTHORIZATION) {
            return None;
        }
        let value = if self.authorization_len < u16::MAX {
            let at = self.authorization_at as usize;
            head.get(at..at + usize::from(self.authorization_len))?
        } else {
            self.fields(head).find("authorization")?
        };
        Some((value, !self.has(AUTHORIZATIONS)))
    }

    /// The field lines.
    pub fn fields<'a>(&self, head: &'a [u8]) -> Fields<'a> {
        let end = self.len().saturating_sub(2);
        Fields::new(head.get(self.lines_at as usize..end).unwrap_or_default())
    }

    const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Performs the checks that need the whole head. An error for malformed input has priority over
    /// an error for an unsupported feature.
    #[inline(never)]
    fn finish(&self, buf: &[u8]) -> Result<(), RequestError> {
        if self.has(ENCODED) && self.has(LENGTH) {
            return Err(RequestError::TransferEncoding);
        }
        if self.minor > 0 && !self.has(HOST) {
            return Err(RequestError::Host);
        }
        // According to RFC 9112 3.2.2 the authority has priority over `Host`. Here a difference is
        // refused, because two different hosts in a request are used to evade filters.
        if self.has(ABSOLUTE) && self.has(HOST) {
            let is_https = self.target.of(buf).get(4).is_some_and(|byte| byte.eq_ignore_ascii_case(&b's'));
            if !is_same_authority(self.authority.of(buf), self.host.of(buf), is_https) {
                return Err(RequestError::Host);
            }
        }
        if self.has(UNKNOWN) || self.method == Method::Connect {
            return Err(RequestError::MethodUnknown);
        }
        if self.has(ENCODED) && !self.has(CHUNKED) {
            return Err(RequestError::TransferEncodingUnknown);
        }
        if self.has(EXPECT_OTHER) && self.minor > 0 {
            return Err(RequestError::Expectation);
        }
        Ok(())
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the results and the progress, without the positions inside a line.
impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head")
            .field("method", &self.method())
            .field("target", &self.target)
            .field("path", &self.path)
            .field("authority", &self.has(ABSOLUTE).then_some(self.authority))
            .field("minor", &self.minor)
            .field("host", &self.has(HOST).then_some(self.host))
            .field("content_length", &self.has(LENGTH).then_some(self.content_length))
            .field("authorization", &self.has(AUTHORIZATION).then_some(self.authorization_at))
            .field("flags", &(self.flags & !PRIVATE))
            .field("lines_at", &self.lines_at)
            .field("fields", &self.fields)
            .field("at", &self.at)
            .field("step", &self.step)
            .finish()
    }
}

/// A range of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    const EMPTY: Self = Self { start: 0, end: 0 };

    fn new(start: usize, end: usize) -> Self {
        Self { start: offset(start), end: offset(end) }
    }

    #[inline]
    fn of(self, buf: &[u8]) -> &[u8] {
        buf.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// Converts an offset. All offsets fit, because no head is longer than [`HEAD_BYTES_CAP`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a window has at most HEAD_BYTES_CAP bytes")]
const fn offset(at: usize) -> u32 {
    at as u32
}

/// The element to be read next, in the order of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    StartLf,
    Start,
    Method,
    Target,
    Version,
    FieldStart,
    Name,
    Gap,
    Value,
    FieldLf,
    EndLf,
    Ended,
}

/// Maximum length of a head, independent of the configured limits.
const HEAD_BYTES_CAP: usize = 1 << 30;

const HOST: u16 = 1;
const LENGTH: u16 = 1 << 1;
/// The head has a `Transfer-Encoding`.
const ENCODED: u16 = 1 << 2;
/// `Transfer-Encoding` is exactly `chunked`.
const CHUNKED: u16 = 1 << 3;
const CLOSE: u16 = 1 << 4;
const KEEP_ALIVE: u16 = 1 << 5;
const EXPECT_CONTINUE: u16 = 1 << 6;
const EXPECT_OTHER: u16 = 1 << 7;
/// The target has the absolute form.
const ABSOLUTE: u16 = 1 << 8;
/// The method is unknown.
const UNKNOWN: u16 = 1 << 9;
/// The head has an `Authorization`.
const AUTHORIZATION: u16 = 1 << 10;
/// The head has more than one `Authorization`.
const AUTHORIZATIONS: u16 = 1 << 11;
/// The head has a field that may contain a secret. Set only by the fast path.
const PRIVATE: u16 = 1 << 12;

#[cfg(test)]
mod tests;
