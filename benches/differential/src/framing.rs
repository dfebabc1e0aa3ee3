//! A server's interpretation of a stream of bytes: the requests that it accepted, and the end.

/// How a server split a stream of bytes into requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framing {
    /// The complete requests, including bodies, in order.
    pub requests: Vec<Seen>,
    /// The result for the bytes after these requests.
    pub end: End,
}

/// A complete request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The method as received.
    pub method: Vec<u8>,
    /// Path and query.
    pub target: Vec<u8>,
    /// The authority of an absolute target, otherwise the value of `Host`, otherwise empty.
    pub host: Vec<u8>,
    /// The decoded body.
    pub body: Vec<u8>,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Between requests. No bytes are left, or the rest is ignored because the connection closes.
    Between,
    /// Inside a request that more bytes could complete.
    Inside,
    /// With an error. The status is 0 if the server sent no reply.
    Refused(u16),
}

/// Path and query of a target in any form. The path of an absolute target without a path is `/`.
pub fn path_and_query(target: &[u8]) -> Vec<u8> {
    let colon = target.windows(3).position(|window| window == b"://");
    let Some(colon) = colon.filter(|_| target.first() != Some(&b'/')) else { return target.to_vec() };
    let rest = &target[colon + 3..];
    let at = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    match &rest[at..] {
        rest @ [b'/', ..] => rest.to_vec(),
        rest => [b"/", rest].concat(),
    }
}

/// The status of the last reply, if that is an error.
pub fn error_status(replies: &[u8]) -> Option<u16> {
    let starts = replies.windows(10).enumerate().filter(|(_, window)| window.starts_with(b"HTTP/1."));
    starts
        .filter(|(_, window)| matches!(window[9], b'4' | b'5'))
        .filter_map(|(at, _)| std::str::from_utf8(replies.get(at + 9..at + 12)?).ok()?.parse().ok())
        .next_back()
}
