//! Checks the bytes that a peer received: its replies in order and complete, or a prefix of its
//! replies and a visible error.

use super::service::{ID_FIELD, SHARED_ID, SHARED_LEN, pattern};

/// A reply that a peer expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// `100 Continue`.
    Continue,
    /// An error reply with one of these statuses and without content; then the server closes.
    Error(&'static [u16]),
    /// A pattern, or a 503 of the compute lane. The connection stays open if the queue was full,
    /// and closes if the job was late.
    Job { id: u64, len: usize, is_head: bool, may_be_late: bool },
    /// 200 with the pattern of an id; without content for HEAD.
    Pattern { id: u64, len: usize, is_head: bool },
    /// Bytes without a head.
    Raw(Vec<u8>),
    /// The reply that all connections share.
    Shared,
}

/// Error statuses that may end a connection after a fault.
const ANY_ERROR: &[u16] = &[400, 408, 413, 431, 500, 503];

/// Result of comparing a peer's bytes with its expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Number of expected replies that arrived completely.
    pub(super) replies: usize,
    /// True if another reply arrived incompletely.
    pub(super) partial: bool,
    /// The status of an unexpected error reply, which is the last reply.
    pub(super) error: Option<u16>,
}

/// Compares received bytes with the expected replies.
pub(super) fn compare(received: &[u8], expected: &[Reply]) -> Result<Comparison, String> {
    let mut rest = received;
    let mut comparison = Comparison { replies: 0, partial: false, error: None };
    while !rest.is_empty() {
        let right = match expected.get(comparison.replies) {
            Some(reply) => strip(rest, reply),
            None => Err("nothing more is expected".to_owned()),
        };
        match right {
            Ok(Some(after)) => {
                comparison.replies += 1;
                rest = after;
            }
            Ok(None) => {
                comparison.partial = true;
                return Ok(comparison);
            }
            Err(why) => {
                let place =
                    format!("reply {} of {}: {why}; {}", comparison.replies, expected.len(), excerpt(rest));
                return unexpected_error(rest, comparison).map_err(|no_error| format!("{place}; {no_error}"));
            }
        }
    }
    Ok(comparison)
}

/// Parses an unexpected error reply, which reports a fault: complete with nothing after it, or only
/// its beginning.
fn unexpected_error(bytes: &[u8], mut comparison: Comparison) -> Result<Comparison, String> {
    if head_of(bytes, ANY_ERROR)?.is_none() {
        comparison.partial = true;
        return Ok(comparison);
    }
    let (status, after) = strip_error(bytes, ANY_ERROR)?;
    if !after.is_empty() {
        return Err(format!("after an error reply: {}", excerpt(after)));
    }
    comparison.error = Some(status);
    Ok(comparison)
}

/// Returns the number of complete replies in `received`, for peers that wait for a reply. Returns
/// `usize::MAX` for wrong bytes, so that a peer does not wait forever.
pub(super) fn count_whole(received: &[u8], expected: &[Reply]) -> usize {
    compare(received, expected)
        .map_or(usize::MAX, |comparison| comparison.replies + usize::from(comparison.error.is_some()))
}

/// Returns the bytes after an expected reply; `None` if the reply is incomplete but correct so far.
fn strip<'a>(bytes: &'a [u8], reply: &Reply) -> Result<Option<&'a [u8]>, String> {
    match reply {
        Reply::Continue => strip_exact(bytes, b"HTTP/1.1 100 Continue\r\n\r\n"),
        Reply::Raw(raw) => strip_exact(bytes, raw),
        Reply::Error(statuses) => match head_of(bytes, statuses)? {
            None => Ok(None),
            Some(_) => strip_error(bytes, statuses).map(|(_, rest)| Some(rest)),
        },
        Reply::Job { id, len, is_head, may_be_late } => {
            if let Ok(Some(head)) = head_of(bytes, &[503])
                && (!head.closes || *may_be_late)
            {
                let right = head.id.is_none() && head.content_len == Some(0);
                return if right {
                    Ok(Some(&bytes[head.len..]))
                } else {
                    Err(format!("no refusal: {head:?}"))
                };
            }
            strip(bytes, &Reply::Pattern { id: *id, len: *len, is_head: *is_head })
        }
        Reply::Pattern { id, len, is_head } => {
            let body = if *is_head { Vec::new() } else { pattern(*id, *len) };
            strip_ok(bytes, Some(*id), *len, &body)
        }
        Reply::Shared => strip_ok(bytes, None, SHARED_LEN, &pattern(SHARED_ID, SHARED_LEN)),
    }
}

fn strip_exact<'a>(bytes: &'a [u8], whole: &[u8]) -> Result<Option<&'a [u8]>, String> {
    match bytes.strip_prefix(whole) {
        Some(rest) => Ok(Some(rest)),
        None if whole.starts_with(bytes) => Ok(None),
        None => Err(format!("not {}", excerpt(whole))),
    }
}

fn strip_ok<'a>(
    bytes: &'a [u8],
    id: Option<u64>,
    len: usize,
    body: &[u8],
) -> Result<Option<&'a [u8]>, String> {
    let Some(head) = head_of(bytes, &[200])? else { return Ok(None) };
    if head.id != id || head.content_len != Some(len) {
        return Err(format!("the head of another reply: {head:?}, expected id {id:?} and {len} bytes"));
    }
    strip_exact(&bytes[head.len..], body).map_err(|_| format!("foreign bytes in the body of {id:?}"))
}

/// Parses an error reply: no id, no content.
fn strip_error<'a>(bytes: &'a [u8], statuses: &[u16]) -> Result<(u16, &'a [u8]), String> {
    let head = head_of(bytes, statuses)?.ok_or("an error reply that is not whole")?;
    if head.id.is_some() || head.content_len != Some(0) || !head.closes {
        return Err(format!("not an error reply: {head:?}"));
    }
    Ok((head.status, &bytes[head.len..]))
}

#[derive(Debug)]
struct Head {
    len: usize,
    status: u16,
    id: Option<u64>,
    content_len: Option<usize>,
    closes: bool,
}

/// Parses the head at the start of `bytes`; `None` if it is incomplete. A field that the server
/// does not send is an error.
fn head_of(bytes: &[u8], statuses: &[u16]) -> Result<Option<Head>, String> {
    let starts: Vec<String> = statuses.iter().map(|status| format!("HTTP/1.1 {status} ")).collect();
    let right = |start: &String| bytes.starts_with(start.as_bytes()) || start.as_bytes().starts_with(bytes);
    if !starts.iter().any(right) {
        return Err(format!("the status is none of {statuses:?}"));
    }
    let Some(len) = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4) else {
        return if bytes.len() < 1_000 { Ok(None) } else { Err("a head without an end".to_owned()) };
    };
    let text = core::str::from_utf8(&bytes[..len - 4]).map_err(|_| "a head that is not ASCII")?;
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let status = line[9..12].parse().map_err(|_| "no status")?;
    let mut head = Head { len, status, id: None, content_len: None, closes: false };
    for field in lines {
        let (name, value) = field.split_once(": ").ok_or_else(|| format!("not a field: {field:?}"))?;
        match name {
            ID_FIELD => head.id = Some(value.parse().map_err(|_| format!("id {value:?}"))?),
            "Connection" => {
                head.closes = value == "close";
                if !["close", "keep-alive"].contains(&value) {
                    return Err(format!("Connection: {value:?}"));
                }
            }
            "Content-Length" if head.content_len.is_none() => {
                head.content_len = Some(value.parse().map_err(|_| format!("Content-Length: {value:?}"))?);
            }
            "Date" if value.len() == 29 && value.ends_with(" GMT") => {}
            "Allow" | "Content-Type" | "Retry-After" => {}
            _ => return Err(format!("a field that the server does not send: {field:?}")),
        }
    }
    Ok(Some(head))
}

fn excerpt(bytes: &[u8]) -> String {
    format!("{} bytes: \"{}\"", bytes.len(), bytes[..bytes.len().min(160)].escape_ascii())
}

mod tests {
    use super::*;

    const HEAD: &str =
        "HTTP/1.1 200 OK\r\nX-Id: 7\r\nContent-Length: 40\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n";

    fn reply() -> Vec<u8> {
        [HEAD.as_bytes(), &pattern(7, 40)].concat()
    }

    #[test]
    fn a_whole_reply_and_every_prefix_of_it_are_right() {
        let expected = [Reply::Pattern { id: 7, len: 40, is_head: false }];
        let whole = reply();
        for len in 1..whole.len() {
            let comparison = compare(&whole[..len], &expected).expect("a prefix");
            assert_eq!(comparison, Comparison { replies: 0, partial: true, error: None }, "at {len}");
        }
        assert_eq!(compare(&whole, &expected), Ok(Comparison { replies: 1, partial: false, error: None }));
    }

    #[test]
    fn one_foreign_byte_anywhere_in_a_body_or_id_is_found() {
        let expected = [Reply::Pattern { id: 7, len: 40, is_head: false }];
        let whole = reply();
        for at in HEAD.len()..whole.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 1;
            assert!(compare(&wrong, &expected).is_err(), "at {at}");
        }
        assert!(compare(&whole, &[Reply::Pattern { id: 8, len: 40, is_head: false }]).is_err());
        assert!(compare(&whole, &[Reply::Shared]).is_err());
        assert!(compare(&[whole.clone(), whole].concat(), &expected).is_err(), "one reply too many");
    }

    #[test]
    fn an_error_reply_may_end_a_connection_and_nothing_follows_it() {
        let error = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        assert_eq!(compare(error, &[]), Ok(Comparison { replies: 0, partial: false, error: Some(408) }));
        assert_eq!(
            compare(error, &[Reply::Error(&[408])]),
            Ok(Comparison { replies: 1, partial: false, error: None })
        );
        assert!(compare(&[error.as_slice(), b"x"].concat(), &[]).is_err());
    }
}
