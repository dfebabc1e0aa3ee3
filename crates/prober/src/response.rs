//! Parses an HTTP/1 response as a prober does: status, location, and end of the content.

use hyper::Version;

/// Maximum size of a head.
const HEAD_LEN_MAX: usize = 32 << 10;

/// Parse result of the bytes received so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// The head is incomplete.
    Incomplete,
    /// Not a valid response.
    Invalid(&'static str),
    Head(Head),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) version: Version,
    pub(super) location: Option<Vec<u8>>,
    pub(super) last_modified: Option<String>,
    pub(super) content: Content,
    /// Length of the head and of interim responses before it; the content follows.
    pub(super) len: usize,
}

/// How the end of the content is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Chunked,
    Length(usize),
    UntilClose,
}

impl Response {
    /// Parses all received bytes. Interim responses are skipped.
    pub(super) fn parse(bytes: &[u8], is_head_request: bool) -> Self {
        let mut start = 0;
        loop {
            let rest = &bytes[start..];
            let known = rest.len().min(5);
            if rest[..known] != b"HTTP/"[..known] {
                return Self::Invalid("the response is not HTTP/1");
            }
            let Some(len) = head_len(rest) else {
                let is_long = rest.len() > HEAD_LEN_MAX;
                return if is_long {
                    Self::Invalid("the head of the response is too long")
                } else {
                    Self::Incomplete
                };
            };
            let Some(mut head) = parse_head(&rest[..len], is_head_request) else {
                return Self::Invalid("the head of the response is not HTTP/1");
            };
            if (100..=199).contains(&head.status) {
                start += len;
                continue;
            }
            head.len = start + len;
            return Self::Head(head);
        }
    }
}

impl Head {
    /// Whether `bytes` contains all of the content, or at least `content_len_max` bytes of it.
    pub(super) fn is_complete(&self, bytes: &[u8], content_len_max: usize) -> bool {
        let content = &bytes[self.len.min(bytes.len())..];
        content.len() >= content_len_max
            || match self.content {
                Content::Chunked => chunks_end(content),
                Content::Length(len) => content.len() >= len,
                Content::UntilClose => false,
            }
    }
}

/// Length of the head, including the empty line at its end. Go, curl and HAProxy also accept lines
/// that end without CR (RFC 9112 2.2).
fn head_len(bytes: &[u8]) -> Option<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    ends.map(|end| (end, &bytes[end..])).find_map(|(end, rest)| match rest {
        [b'\n', ..] => Some(end + 1),
        [b'\r', b'\n', ..] => Some(end + 2),
        _ => None,
    })
}

fn parse_head(head: &[u8], is_head_request: bool) -> Option<Head> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = lines.next()?;
    let versions = [(b"HTTP/1.0 ", Version::HTTP_10), (b"HTTP/1.1 ", Version::HTTP_11)];
    let (rest, version) =
        versions.into_iter().find_map(|(begin, version)| Some((line.strip_prefix(begin)?, version)))?;
    let digits = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let is_alone = rest.len() == 3 || rest.get(3) == Some(&b' ');
    let status = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u16>().ok());
    let status = status.filter(|status| is_alone && *status >= 100)?;
    let mut content = Content::UntilClose;
    let (mut location, mut last_modified) = (None, None);
    for field in lines.take_while(|line| !line.is_empty()) {
        let colon = field.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&field[..colon], field[colon + 1..].trim_ascii());
        let text = String::from_utf8_lossy(value);
        if name.eq_ignore_ascii_case(b"content-length") {
            let len = text.parse().ok()?;
            // Transfer-Encoding overrides Content-Length, in any order (RFC 9112 §6.3).
            if !matches!(content, Content::Chunked) {
                content = Content::Length(len);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") && text.eq_ignore_ascii_case("chunked") {
            content = Content::Chunked;
        } else if name.eq_ignore_ascii_case(b"location") {
            location = Some(value.to_owned());
        } else if name.eq_ignore_ascii_case(b"last-modified") {
            last_modified = Some(text.into_owned());
        }
    }
    if is_head_request || matches!(status, 204 | 304) {
        content = Content::Length(0);
    }
    Some(Head { status, version, location, last_modified, content, len: 0 })
}

/// Whether the last chunk and the trailers have arrived.
fn chunks_end(mut content: &[u8]) -> bool {
    loop {
        let Some(end) = content.windows(2).position(|window| window == b"\r\n") else { return false };
        let size = content[..end].split(|byte| *byte == b';').next().unwrap_or_default();
        let size =
            std::str::from_utf8(size).ok().and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        match size {
            Some(0) => {
                let trailers = &content[end..];
                return trailers.windows(4).any(|window| window == b"\r\n\r\n");
            }
            Some(size) => match content.get(end + 2..).and_then(|rest| rest.get(size..)?.get(2..)) {
                Some(rest) => content = rest,
                None => return false,
            },
            // An invalid chunk ends the content.
            None => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_override_the_stated_length() {
        for fields in [
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 1",
        ] {
            let response = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n2\r\nab\r\n");
            let Response::Head(head) = Response::parse(response.as_bytes(), false) else {
                panic!("{fields:?}")
            };
            assert!(!head.is_complete(response.as_bytes(), 1_000), "{fields:?}");
        }
    }

    #[test]
    fn chunked_content_ends_after_its_last_chunk_or_an_invalid_one() {
        for (content, is_complete) in [
            ("", false),
            ("2\r\nab\r\n", false),
            ("2;x=y\r\nab\r\n0\r\n\r\n", true),
            ("0\r\n", false),
            ("0\r\nA: b\r\n\r\n", true),
            ("2\r\na", false),
            ("x\r\n", true),
            ("ffffffffffffffff\r\nab\r\n0\r\n\r\n", false),
            ("fffffffffffffffff\r\nab\r\n", true),
        ] {
            let response = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{content}");
            let Response::Head(head) = Response::parse(response.as_bytes(), false) else {
                panic!("{content:?}")
            };
            assert_eq!(head.is_complete(response.as_bytes(), 1_000), is_complete, "{content:?}");
        }
    }
}
