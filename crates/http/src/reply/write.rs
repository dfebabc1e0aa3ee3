//! Writers for the parts of a reply head.

use super::DefaultField;
use crate::{ApiMisuse, Date, Status, class};
use std::ops::Range;

/// The connection option of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persist {
    /// `Connection: close`.
    Close,
    /// Persistent, which is the default in HTTP/1.1: no field.
    Implied,
    /// `Connection: keep-alive`, for HTTP/1.0.
    Stated,
}

/// Maximum size of content that is copied next to its head, so that one send of one buffer
/// suffices.
pub(super) const COPIED_BYTES_MAX: usize = 16 * 1024;

/// The type of text.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// Writes the status line (RFC 9112 4).
pub(super) fn put_status(head: &mut Vec<u8>, status: Status) {
    if let Some(line) = status.line() {
        head.extend_from_slice(line.as_bytes());
    } else {
        head.extend_from_slice(b"HTTP/1.1 ");
        put_decimal(head, u64::from(status.code()));
        // The space is required even without a reason phrase.
        head.extend_from_slice(b" \r\n");
    }
}

/// Writes `Content-Length` if the status allows this field.
pub(super) fn put_length(head: &mut Vec<u8>, status: Status, len: usize) {
    if status.allows_length() {
        head.extend_from_slice(b"Content-Length: ");
        put_decimal(head, if status.allows_content() { len as u64 } else { 0 });
        head.extend_from_slice(b"\r\n");
    }
}

/// Writes a field line of a handler into a reply that begins at `from`.
pub(super) fn put_field(head: &mut Vec<u8>, from: usize, name: &[u8], value: &[u8]) -> Result<(), ApiMisuse> {
    if name.is_empty() || class::token_end(name, 0) != name.len() {
        return Err(ApiMisuse::HeaderName);
    }
    if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
        return Err(ApiMisuse::HeaderReserved);
    }
    if class::value_end(value, 0) != value.len() {
        return Err(ApiMisuse::HeaderValue);
    }
    // A reply has only one content type (RFC 9110 8.3): if there are two, recipients differ in
    // which one they use.
    if name.eq_ignore_ascii_case(CONTENT_TYPE) {
        remove_field(head, from, CONTENT_TYPE);
    }
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
    Ok(())
}

pub(super) const CONTENT_TYPE: &[u8] = b"content-type";

/// Finds the first field line with this name at or after the line that begins at `from`, up to the
/// end of the head.
pub(super) fn find_field(head: &[u8], from: usize, name: &[u8]) -> Option<Range<usize>> {
    let mut at = from;
    loop {
        let rest = head.get(at..)?;
        let line = rest.get(..=memchr::memchr(b'\n', rest)?)?;
        let (start, after) = line.split_at_checked(name.len()).unwrap_or_default();
        if start.eq_ignore_ascii_case(name) && after.starts_with(b":") {
            return Some(at..at + line.len());
        }
        if line == b"\r\n" {
            // The head ends here; the content follows.
            return None;
        }
        at += line.len();
    }
}

/// Removes the first field line with this name.
pub(super) fn remove_field(head: &mut Vec<u8>, from: usize, name: &[u8]) {
    if let Some(line) = find_field(head, from, name) {
        head.drain(line);
    }
}

impl DefaultField {
    /// Creates a field, to which the rules for fields of handlers apply.
    pub fn new(name: &str, value: impl AsRef<[u8]>) -> Result<Self, ApiMisuse> {
        let mut line = Vec::new();
        put_field(&mut line, 0, name.as_bytes(), value.as_ref())?;
        Ok(Self::of(line, name.len()))
    }
}

/// Writes date, connection option and the empty line.
#[inline]
pub(super) fn put_end(head: &mut Vec<u8>, date: &Date, persist: Persist) {
    head.extend_from_slice(date.line());
    head.extend_from_slice(match persist {
        Persist::Close => b"Connection: close\r\n\r\n",
        Persist::Implied => b"\r\n",
        Persist::Stated => b"Connection: keep-alive\r\n\r\n",
    });
}

/// Maximum number of bytes that [`put_end`] writes.
pub(super) const END_BYTES_MAX: usize = 37 + 26;

fn put_decimal(head: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut len = 0;
    for place in digits.iter_mut().rev() {
        *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        len += 1;
        if number == 0 {
            break;
        }
    }
    head.extend_from_slice(digits.get(digits.len() - len..).unwrap_or_default());
}

/// Fields that control the message or the connection.
const RESERVED: [&[u8]; 9] = [
    b"connection",
    b"content-length",
    b"date",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];
