//! One difference with all data that a reason may examine. The bytes are searched here without the
//! code under test.

use crate::compare::{Difference, Kind, Peer};
use crate::framing::{End, Framing};
use crate::ours::PlacedFraming;
use doorbell_http::RequestError;

/// A difference between two framings, with its context.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The other server.
    pub peer: Peer,
    /// The kind of difference.
    pub kind: Kind,
    /// The end seen by the other server.
    pub their_end: End,
    /// The error of doorbell's refusal, if doorbell refused.
    pub error: Option<RequestError>,
    /// The stream from the first byte of the differing request. It ends with the request if
    /// doorbell accepted it.
    pub request: &'a [u8],
    /// The request before the differing one.
    previous: &'a [u8],
    /// Position of the byte at which doorbell refused the request.
    at: usize,
}

impl<'a> Case<'a> {
    /// Creates a case from doorbell's `places` in a stream, the framing `theirs`, and a difference.
    pub fn new(
        stream: &'a [u8],
        places: &PlacedFraming,
        peer: Peer,
        theirs: &Framing,
        found: Difference,
    ) -> Self {
        let end_of = |request: usize| request.checked_sub(1).map_or(0, |request| places.ends[request]);
        let (before, start) = (end_of(found.request.saturating_sub(1)), end_of(found.request));
        let end = places.ends.get(found.request).copied().unwrap_or(stream.len());
        let refuses = matches!(found.kind, Kind::WeRefuse);
        Self {
            peer,
            kind: found.kind,
            their_end: theirs.end,
            error: places.error.filter(|_| refuses),
            request: &stream[start..end],
            previous: &stream[before..start],
            at: places.refused_at.map_or(0, |at| at - start.min(at)),
        }
    }

    /// Whether doorbell refuses with `error` and the other server accepts.
    pub fn is(&self, error: RequestError) -> bool {
        self.error == Some(error)
    }

    /// The refused byte.
    pub fn byte(&self) -> u8 {
        self.request.get(self.at).copied().unwrap_or(0)
    }

    /// The byte before the refused byte.
    pub fn before(&self) -> u8 {
        self.at.checked_sub(1).map_or(0, |at| self.request[at])
    }

    /// The line up to the refused byte, exclusive.
    pub fn line(&self) -> &'a [u8] {
        let seen = &self.request[..self.at.min(self.request.len())];
        &seen[seen.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)..]
    }

    /// The bytes read up to the refusal, inclusive. Without a refusal, the whole request.
    fn read(&self) -> &'a [u8] {
        if self.error.is_some() { &self.request[..=self.at] } else { self.request }
    }

    /// Method, target and version, split at single spaces.
    pub fn start_line(&self) -> Vec<&'a [u8]> {
        lines(self.read()).next().unwrap_or_default().split(|&byte| byte == b' ').collect()
    }

    /// The method of the differing request.
    pub fn method(&self) -> &'a [u8] {
        self.start_line().first().copied().unwrap_or_default()
    }

    /// The part of the target that was read.
    pub fn target(&self) -> &'a [u8] {
        self.start_line().get(1).copied().unwrap_or_default()
    }

    /// Whether the request has this version.
    pub fn has_version(&self, version: &str) -> bool {
        self.start_line().last().is_some_and(|&last| last == version.as_bytes())
    }

    /// The values of the fields with this name in the head.
    pub fn values(&self, name: &str) -> Vec<&'a [u8]> {
        values(self.read(), name)
    }

    /// Number of field lines in the head.
    pub fn fields(&self) -> usize {
        field_lines(self.read()).count()
    }

    /// Whether the previous request has this version and at least this many `Connection` fields.
    pub fn comes_behind(&self, version: &str, connection_fields: usize) -> bool {
        let line = lines(self.previous).next().unwrap_or_default();
        line.ends_with(version.as_bytes()) && self.connection_before().len() >= connection_fields
    }

    /// The values of `Connection` in the previous request.
    pub fn connection_before(&self) -> Vec<&'a [u8]> {
        values(self.previous, "connection")
    }

    /// Whether the refused byte ended a line.
    pub fn is_line_end(&self) -> bool {
        self.byte() == b'\n' && self.before() == b'\r'
    }

    /// Whether the refused byte ended the head.
    pub fn is_end_of_head(&self) -> bool {
        self.request[..=self.at].ends_with(b"\r\n\r\n")
    }

    /// Whether the head ended before the refused byte.
    pub fn is_in_body(&self) -> bool {
        self.request[..self.at].windows(4).any(|window| window == b"\r\n\r\n")
    }
}

fn lines(request: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = request.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.skip_while(|line| line.is_empty())
}

fn field_lines(request: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines(request).skip(1).take_while(|line| !line.is_empty())
}

fn values<'a>(request: &'a [u8], name: &str) -> Vec<&'a [u8]> {
    let value = |line: &'a [u8]| {
        let (found, value) = line.split_at_checked(name.len())?;
        (found.eq_ignore_ascii_case(name.as_bytes())).then_some(value.strip_prefix(b":")?.trim_ascii())
    };
    field_lines(request).filter_map(value).collect()
}

/// Whether a byte is allowed in a token (RFC 9110 5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a value is one number without leading zeros.
pub(super) fn is_number(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit) && (value == b"0" || value[0] != b'0')
}

/// Whether a value is an undisputed host: letters, digits, `-`, `.`, and an optional port.
pub(super) fn is_plain_host(value: &[u8]) -> bool {
    let (name, port) = match value.iter().position(|&byte| byte == b':') {
        Some(colon) => (&value[..colon], &value[colon + 1..]),
        None => (value, &b"80"[..]),
    };
    let port_ok = (1..=4).contains(&port.len()) && port.iter().all(u8::is_ascii_digit);
    let name_ok = name.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    !name.is_empty() && name_ok && port_ok
}

/// Whether `value` contains a connection option, but not as an element of the list.
pub(super) fn has_hidden_word(value: &[u8]) -> bool {
    let has = |word: &str, separators: &[u8]| {
        let mut parts = value.split(|byte| separators.contains(byte));
        parts.any(|part| part.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
    };
    ["close", "keep-alive"].iter().any(|word| has(word, b", \t") && !has(word, b","))
}
