//! The request head: a single pass over the bytes that can stop anywhere and go on later.
//!
//! Does not know about: bodies, replies, time. Entry point: [`Head::parse`].
//!
//! The verdict is a function of the bytes alone: the first byte that cannot be part of an acceptable head decides,
//! however the bytes were cut into pieces, and every limit is met at one exact byte. Nothing is stored but offsets; field lines,
//! `Host` and `Authorization` aside, are found again in the (then known to be valid) bytes when somebody asks for them, which a probe
//! does not.
//!
//! # What is accepted although it need not be
//!
//! RFC 3986 allows neither `"<>^{|}` nor a backtick in a target, and wants two hexadecimal digits behind each `%`; clients send both.
//! They are passed on as they are, and percent-encoded in a `Location`. Also accepted: a backslash and `%00` in a query (in a
//! path both are 400), up to two empty lines before the request line, a target in absolute form with the same authority as `Host`
//! or the port of its scheme written in one of the two only, the versions 1.2 to 1.9, bytes from 0x80 on in a field value, and
//! chunk extensions within their limits.
//!
//! # Decision: two ways through a head
//!
//! *Context.* A probe arrives whole and is written as all probes are; the rules are about everything else. *Choice.* `whole` reads what
//! is plainly good, sixteen bytes at a time and with everything in registers, and changes nothing where it stops: at a line that is
//! unusual, wrong or not there yet. The steps of `line` and `field` begin with that line, can pause at any byte, and are the only ones
//! that say what is wrong. A request line or field line may so be looked at twice, never more. *Measured* with callgrind: 385 instructions
//! instead of 1,699 for the head of a kubelet's probe. The tables, the split points and the fuzz corpus hold both ways against each other, since
//! input byte by byte goes the second way only. *What would change it:* a head that the first way takes and the second does not.
//!
//! # Decision: our own parser, not httparse
//!
//! *Context.* The rules we keep are stricter than those of httparse (bare LF, `Host`, framing fields, target bytes,
//! versions 1.2 to 1.9 and 505, exact limits), so it needs a second pass over every head, and it starts again from
//! the first byte whenever more bytes arrive. *Measured* with criterion on a shared two-core virtual machine
//! (`cargo bench -p doorbell-benches --bench parse`; median; other work was running, so compare columns, not rows):
//!
//! | head | this parser | httparse 1.10 and a strict pass |
//! |---|---|---|
//! | kubelet probe, 108 bytes | 22 ns | 187 ns |
//! | browser GET, 702 bytes | 184 ns | 708 ns |
//! | POST, 173 bytes | 69 ns | 249 ns |
//!
//! *Choice.* This parser serves; httparse with the strict pass is the oracle of the fuzz target `differential`.
//! *What would change it:* httparse resuming where it stopped, and being faster with the strict pass included.

mod authority;
mod field;
mod fields;
mod line;
mod seen;
mod whole;

pub use fields::{Fields, FieldsIter};
pub use seen::Seen;

use crate::prober::Asker;
use crate::{Limits, Method, RequestError};
pub(crate) use authority::is_host;
pub use authority::is_same_authority;
use std::fmt;

/// How long the body is (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// In chunks until the last one.
    Chunked,
    /// This many bytes.
    Length(u64),
    /// No body.
    None,
}

/// The state of one head: how far it is read, and what it said so far. Offsets count from the first byte given.
#[derive(Clone)]
pub struct Head {
    content_length: u64,
    target: Span,
    path: Span,
    authority: Span,
    host: Span,
    /// Start of the request line, later of the field lines.
    lines_at: u32,
    /// Next byte to look at; after the end, the length of the head.
    at: u32,
    /// Start of the token being read.
    mark: u32,
    name_end: u32,
    value_at: u32,
    fields: u32,
    /// At most as many as a limit allows, and that is taken as [`u16::MAX`] where it is more.
    empty_lines: u16,
    /// Of the value of the first `Authorization`.
    authorization_at: u32,
    /// `u16::MAX` when it is that long or longer.
    authorization_len: u16,
    flags: u16,
    method: Method,
    major: u8,
    minor: u8,
    step: Step,
    /// Only of a head that [`Seen`] remembers.
    asker: Option<Asker>,
}

impl Head {
    /// Nothing read yet.
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
            asker: None,
        }
    }

    /// Reads on. `buf` holds all bytes since the first one of this head; earlier calls saw a prefix of it.
    ///
    /// `Some(len)`: the head is complete and took `len` bytes. `None`: it needs more bytes, and is shorter than
    /// `head_bytes_max`. After an error this must not be called again.
    pub fn parse(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, RequestError> {
        debug_assert!(self.at as usize <= buf.len(), "the bytes already seen are still there");
        if self.step == Step::Ended || self.parse_whole_apart(buf, limits)? || self.read_steps(buf, limits)? {
            return Ok(Some(self.at as usize));
        }
        Ok(None)
    }

    /// Reads a head that is there as a whole and is as nearly all are. If not, [`Self::parse`] goes on from here.
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

    /// The same, not inlined.
    #[inline(never)]
    pub(crate) fn parse_whole_apart(&mut self, buf: &[u8], limits: &Limits) -> Result<bool, RequestError> {
        self.parse_whole(buf, limits)
    }

    /// The same for a head that `seen` did not know; it may learn it.
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

    /// Whether nothing in a head that [`Self::parse_whole`] has read can be a secret, and no body follows: no query, and only
    /// `Host`, `Connection`, `Accept`, `Accept-Encoding` and `User-Agent`.
    #[inline(always)]
    const fn is_open(&self) -> bool {
        self.flags & !(CLOSE | HOST | KEEP_ALIVE) == 0 && self.path.end == self.target.end
    }

    /// Reads on from any place, step by step; true at the end.
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

    /// Forgets the head. The rest is written when the next one begins.
    #[inline]
    pub(crate) const fn clear(&mut self) {
        self.at = 0;
        self.step = Step::Start;
    }

    /// Whether any byte of the request itself was seen, empty lines before it aside.
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

    /// Minor version: 0 for HTTP/1.0, else at least 1.
    pub const fn minor(&self) -> u8 {
        self.minor
    }

    /// Length of a complete head.
    pub const fn len(&self) -> usize {
        self.at as usize
    }

    /// Whether nothing was read.
    pub const fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Whether a body follows.
    #[inline]
    pub(crate) const fn has_body(&self) -> bool {
        self.has(CHUNKED | LENGTH) && !matches!(self.framing(), Framing::None)
    }

    /// How long the body is.
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

    /// Whether the client wants the connection to live on (RFC 9112 9.3).
    #[inline]
    pub const fn keeps_alive(&self) -> bool {
        !self.has(CLOSE) && (self.minor > 0 || self.has(KEEP_ALIVE))
    }

    /// Who sends this head, if that was found out before.
    #[inline(always)]
    pub(crate) const fn asker(&self) -> Option<Asker> {
        self.asker
    }

    /// Whether the client waits for `100 Continue`; never in HTTP/1.0 (RFC 9110 10.1.1).
    pub const fn expects_continue(&self) -> bool {
        self.has(EXPECT_CONTINUE) && self.minor > 0
    }

    /// The target as sent.
    pub fn target<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        self.target.of(head)
    }

    /// The path: `/` where an absolute target has none, `*` for a request about the server.
    #[inline]
    pub fn path<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        match self.path.of(head) {
            [] if self.method == Method::Options && self.path.end == self.target.end => b"*",
            [] => b"/",
            path => path,
        }
    }

    /// What follows the first `?` of the target.
    #[inline]
    pub fn query<'a>(&self, head: &'a [u8]) -> Option<&'a [u8]> {
        head.get(self.path.end as usize..self.target.end as usize)?.split_first().map(|(_, query)| query)
    }

    /// The authority of an absolute target, else `Host`.
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

    /// What only the whole head can tell. Malformed comes before not implemented.
    #[inline(never)]
    fn finish(&self, buf: &[u8]) -> Result<(), RequestError> {
        if self.has(ENCODED) && self.has(LENGTH) {
            return Err(RequestError::TransferEncoding);
        }
        if self.minor > 0 && !self.has(HOST) {
            return Err(RequestError::Host);
        }
        // RFC 9112 3.2.2 lets the authority win; two different answers to "which host" are how filters are fooled.
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

/// What the head says and how far it is read, not the places that only the steps inside a line use.
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

/// Offsets fit: no head is longer than [`HEAD_BYTES_CAP`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "windows are cut at HEAD_BYTES_CAP")]
const fn offset(at: usize) -> u32 {
    at as u32
}

/// What comes next, in the order of the bytes.
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

/// However large the configured limits, a head is never longer than this.
const HEAD_BYTES_CAP: usize = 1 << 30;

const HOST: u16 = 1;
const LENGTH: u16 = 1 << 1;
/// There is a `Transfer-Encoding`.
const ENCODED: u16 = 1 << 2;
/// It is exactly `chunked`.
const CHUNKED: u16 = 1 << 3;
const CLOSE: u16 = 1 << 4;
const KEEP_ALIVE: u16 = 1 << 5;
const EXPECT_CONTINUE: u16 = 1 << 6;
const EXPECT_OTHER: u16 = 1 << 7;
/// The target is absolute.
const ABSOLUTE: u16 = 1 << 8;
/// A method that we do not know.
const UNKNOWN: u16 = 1 << 9;
/// There is an `Authorization`.
const AUTHORIZATION: u16 = 1 << 10;
/// There is more than one.
const AUTHORIZATIONS: u16 = 1 << 11;
/// There is a field in which somebody may keep a secret. Only the short way notes it.
const PRIVATE: u16 = 1 << 12;

#[cfg(test)]
mod tests;
