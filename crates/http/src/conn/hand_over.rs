//! Giving a connection away: what is left of its input stays whole, and what cannot be read here may be for somebody else.
//!
//! Does not know about: who takes it.

use super::{Conn, Io, Next, Phase, Verdict};
use crate::reply::{Persist, put_refusal};
use crate::{ApiMisuse, Begun, RequestError, Service, Time};

/// What a client sends first that knows the server to speak HTTP/2 (RFC 9113 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The type of a TLS handshake record, and the major version every record carries (RFC 8446 5.1).
const TLS_HANDSHAKE: &[u8] = &[22, 3];

impl Conn {
    /// The service leaves the request that begins with `head` to somebody else, with everything after it.
    #[cold]
    #[inline(never)]
    pub(super) fn leave(&mut self, head: &[u8], after: &[u8], io: &mut Io<'_>) -> Next {
        // It was counted when the service was asked.
        self.requests = self.requests.wrapping_sub(u32::from(self.head.is_empty()));
        io.carry.extend_from_slice(head);
        io.carry.extend_from_slice(after);
        self.left()
    }

    /// A message that cannot be read here: `carry` holds its beginning and `unread` what follows that.
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
        let begun = match error {
            RequestError::VersionUnsupported if is_first && begins(io.carry, unread, HTTP2_PREFACE) => {
                Begun::Http2
            }
            RequestError::Version | RequestError::VersionUnsupported
                if is_first && self.head.method().is_none() =>
            {
                Begun::NotHttp1
            }
            RequestError::Method if is_first && begins(io.carry, unread, TLS_HANDSHAKE) => Begun::Tls,
            RequestError::Expectation
            | RequestError::MethodUnknown
            | RequestError::TransferEncodingUnknown
                if !self.is_past_head() =>
            {
                Begun::Unknown(error)
            }
            _ => return self.fail(error, io),
        };
        io.out.begin_any_reply();
        if !service.hands_over(begun) {
            return self.fail(error, io);
        }
        if matches!(begun, Begun::Http2 | Begun::NotHttp1) {
            self.verdict = Verdict::Http2;
        }
        io.carry.extend_from_slice(unread);
        self.left()
    }

    /// The body is gone, so nobody else can answer.
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

/// Whether the first bytes are those of `start`, as far as they have come.
fn begins(carried: &[u8], unread: &[u8], start: &[u8]) -> bool {
    carried.iter().chain(unread).zip(start).all(|(byte, expected)| byte == expected)
}
