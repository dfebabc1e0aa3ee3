//! Hands over a connection: the receiver gets all input from the handed-over request on, including
//! input that cannot be parsed here.

use super::{Conn, Io, Next, Phase, Verdict};
use crate::reply::{Persist, put_refusal};
use crate::{ApiMisuse, MessageStart, RequestError, Service, Time};

/// The first bytes of a client that already knows that the server supports HTTP/2 (RFC 9113 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The type of a TLS handshake record, and the major version in every record (RFC 8446 5.1).
const TLS_HANDSHAKE: &[u8] = &[22, 3];

/// The first bytes of PROXY headers, up to the byte that is invalid HTTP. A PROXY header reaches
/// this parser only if the peer is not trusted to send one.
const PROXY_HEADERS: [&[u8]; 3] = [b"PROXY TCP", b"PROXY UNKNOWN", b"\r\n\r\n\0"];

impl Conn {
    /// Hands over the request that begins with `head`, with all input after it, as the service
    /// requested.
    #[cold]
    #[inline(never)]
    pub(super) fn leave(&mut self, head: &[u8], after: &[u8], io: &mut Io<'_>) -> Next {
        // The request was counted before the service was called, but it gets no reply here.
        self.requests = self.requests.wrapping_sub(u32::from(self.head.is_empty()));
        io.carry.extend_from_slice(head);
        io.carry.extend_from_slice(after);
        self.left()
    }

    /// Handles a message that cannot be parsed here: the service may hand it over, otherwise it is
    /// refused. `carry` contains the beginning of the message and `unread` the bytes after that.
    #[cold]
    #[inline(never)]
    pub(super) fn fail_or_leave<S: Service + ?Sized>(
        &mut self,
        error: RequestError,
        unread: &[u8],
        io: &mut Io<'_>,
        service: &S,
    ) -> Next {
        let is_first = self.requests == 0 && !self.is_past_head();
        let is_proxy_header = is_first && begins_with_proxy_header(io.carry, unread);
        let cause = if is_proxy_header { RequestError::ProxyHeader } else { error };
        let begun = match error {
            RequestError::VersionUnsupported if is_first && begins(io.carry, unread, HTTP2_PREFACE) => {
                MessageStart::Http2
            }
            RequestError::Version | RequestError::VersionUnsupported
                if is_first && self.head.method().is_none() =>
            {
                MessageStart::NotHttp1
            }
            RequestError::Method if is_first && begins(io.carry, unread, TLS_HANDSHAKE) => MessageStart::Tls,
            RequestError::Expectation
            | RequestError::MethodUnknown
            | RequestError::TransferEncodingUnknown
                if !self.is_past_head() =>
            {
                MessageStart::Unknown(error)
            }
            _ => return self.fail(cause, io),
        };
        io.out.begin_any_reply();
        if !service.hands_over(begun) {
            return self.fail(cause, io);
        }
        if matches!(begun, MessageStart::Http2 | MessageStart::NotHttp1) {
            self.verdict = Verdict::Http2;
        }
        io.carry.extend_from_slice(unread);
        self.left()
    }

    /// Refuses a hand-over that comes too late, because the body is no longer available.
    #[cold]
    pub(super) fn refuse_late(&mut self, io: &mut Io<'_>) {
        put_refusal(ApiMisuse::HandOverTooLate, io.out, io.date, Persist::Close);
        self.phase = Phase::Closing;
    }

    const fn is_past_head(&self) -> bool {
        matches!(self.phase, Phase::Body)
    }

    const fn left(&mut self) -> Next {
        self.phase = Phase::Closing;
        self.held_back = false;
        self.deadline = Time::MAX;
        Next::HandOver
    }
}

/// Whether the bytes received so far begin with a PROXY header of either version.
fn begins_with_proxy_header(carried: &[u8], unread: &[u8]) -> bool {
    let len = carried.len() + unread.len();
    PROXY_HEADERS.iter().any(|start| len >= start.len() && begins(carried, unread, start))
}

/// Whether the bytes received so far match the beginning of `start`.
fn begins(carried: &[u8], unread: &[u8], start: &[u8]) -> bool {
    carried.iter().chain(unread).zip(start).all(|(byte, expected)| byte == expected)
}
