//! The head of a reply (RFC 9112): its status, the length of the body, and whether the connection
//! ends after the reply.

use std::ops::Range;

use crate::stats::FailureKind;

/// The parsed contents of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// How the body ends.
    pub framing: Framing,
    /// Whether the server closes the connection after this reply.
    pub close: bool,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The body ends after this many bytes.
    Length(u64),
    /// The body ends with the connection.
    ToEnd,
}

/// Length of the head at the start of `bytes`, including its empty line. An earlier call has
/// already searched the first `seen` bytes.
#[must_use]
pub fn head_len(bytes: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(3);
    memchr::memmem::find(&bytes[from..], b"\r\n\r\n").map(|at| from + at + 4)
}

/// Parses a complete head. `no_body` means that the request was `HEAD`, so no body follows.
///
/// # Errors
/// `Malformed` or `Unsupported`.
pub fn parse(head: &[u8], no_body: bool) -> Result<Head, FailureKind> {
    let mut lines = lines(head);
    let (version_minor, status) = status_line(lines.next().unwrap_or_default())?;
    let mut length = None;
    let (mut close, mut keep_alive) = (false, false);
    for line in lines {
        let colon = memchr::memchr(b':', line).filter(|at| *at > 0).ok_or(FailureKind::Malformed)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let value = number(value)?;
            if length.is_some_and(|before| before != value) {
                return Err(FailureKind::Malformed);
            }
            length = Some(value);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Err(FailureKind::Unsupported);
        } else if name.eq_ignore_ascii_case(b"connection") {
            let mut options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            close |= options.clone().any(|option| option.eq_ignore_ascii_case(b"close"));
            keep_alive |= options.any(|option| option.eq_ignore_ascii_case(b"keep-alive"));
        }
    }
    let framing = match (status, length) {
        (101, _) => return Err(FailureKind::Unsupported),
        (100..=199 | 204 | 304, _) => Framing::Length(0),
        _ if no_body => Framing::Length(0),
        (_, Some(length)) => Framing::Length(length),
        (_, None) => Framing::ToEnd,
    };
    close |= (version_minor == 0 && !keep_alive) || framing == Framing::ToEnd;
    Ok(Head { status, framing, close })
}

/// Position of the value of `Date`, which changes every second.
#[must_use]
pub fn date_value(head: &[u8]) -> Option<Range<usize>> {
    let mut at = 0;
    for line in lines(head) {
        if line.len() > 5 && line[..5].eq_ignore_ascii_case(b"date:") {
            return Some(at + 5..at + line.len());
        }
        at += line.len() + 2;
    }
    None
}

/// The lines of a head without their line ends, and without the final empty line.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = head;
    std::iter::from_fn(move || {
        let end = memchr::memmem::find(rest, b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        (!line.is_empty()).then_some(line)
    })
}

/// Parses `HTTP/1.x NNN`, with or without a reason; returns the minor version and the status.
fn status_line(line: &[u8]) -> Result<(u8, u16), FailureKind> {
    let rest = line.strip_prefix(b"HTTP/1.").ok_or(FailureKind::Malformed)?;
    let [
        minor @ b'0'..=b'9',
        b' ',
        hundreds @ b'1'..=b'9',
        tens @ b'0'..=b'9',
        ones @ b'0'..=b'9',
        reason @ ..,
    ] = rest
    else {
        return Err(FailureKind::Malformed);
    };
    if !reason.is_empty() && reason[0] != b' ' {
        return Err(FailureKind::Malformed);
    }
    let digit = |byte: &u8| u16::from(byte - b'0');
    Ok((minor - b'0', digit(hundreds) * 100 + digit(tens) * 10 + digit(ones)))
}

fn number(digits: &[u8]) -> Result<u64, FailureKind> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(FailureKind::Malformed);
    }
    digits
        .iter()
        .try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(FailureKind::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Framing::{Length, ToEnd};

    #[test]
    fn heads() {
        let good = |status, framing, close| Ok(Head { status, framing, close });
        let table: [(&str, Result<Head, FailureKind>); 21] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", good(200, Length(3), false)),
            ("HTTP/1.1 200\r\ncontent-length:0\r\n", good(200, Length(0), false)),
            ("HTTP/1.1 200 OK\r\n", good(200, ToEnd, true)),
            ("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n", good(200, Length(3), true)),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n",
                good(200, Length(3), false),
            ),
            ("HTTP/1.1 503 No\r\nContent-Length: 3\r\nConnection: x, Close\r\n", good(503, Length(3), true)),
            ("HTTP/1.1 204 None\r\n", good(204, Length(0), false)),
            ("HTTP/1.1 304 Same\r\nContent-Length: 9\r\n", good(304, Length(0), false)),
            ("HTTP/1.1 100 Continue\r\n", good(100, Length(0), false)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n", good(200, Length(3), false)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n", Err(FailureKind::Malformed)),
            ("HTTP/1.1 200 OK\r\nContent-Length: +3\r\n", Err(FailureKind::Malformed)),
            ("HTTP/1.1 200 OK\r\nContent-Length:\r\n", Err(FailureKind::Malformed)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n", Err(FailureKind::Malformed)),
            ("HTTP/1.1 200 OK\r\nno colon\r\n", Err(FailureKind::Malformed)),
            ("HTTP/1.1 20 OK\r\n", Err(FailureKind::Malformed)),
            ("HTTP/1.1 2000\r\n", Err(FailureKind::Malformed)),
            ("HTTP/2 200 OK\r\n", Err(FailureKind::Malformed)),
            ("", Err(FailureKind::Malformed)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", Err(FailureKind::Unsupported)),
            ("HTTP/1.1 101 Switching\r\n", Err(FailureKind::Unsupported)),
        ];
        for (text, want) in table {
            assert_eq!(parse(format!("{text}\r\n").as_bytes(), false), want, "{text:?}");
        }
    }

    #[test]
    fn a_head_request_has_no_body() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(parse(head, true), Ok(Head { status: 200, framing: Length(0), close: false }));
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\n\r\n", true).map(|head| head.framing), Ok(Length(0)));
    }

    #[test]
    fn the_end_of_a_head_is_found_at_every_split_point() {
        let bytes = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n\r\n\r\nx";
        for seen in 0..25 {
            assert_eq!(head_len(&bytes[..seen], 0), None);
            assert_eq!(head_len(bytes, seen), Some(25));
        }
    }

    #[test]
    fn the_date_is_found() {
        let head = b"HTTP/1.1 200 OK\r\nServer: x\r\ndate: Mon, 01\r\nA: b\r\n\r\n";
        assert_eq!(&head[date_value(head).unwrap()], b" Mon, 01");
        assert_eq!(date_value(b"HTTP/1.1 200 OK\r\nUpdate: 1\r\n\r\n"), None);
    }
}
