//! The last reply after a fault of the server.

use super::{Conn, Io, Next, Phase, Verdict};
use crate::reply::{Persist, put_failure, put_failure_with};
use crate::{Status, Time};

/// The output of an HTTP/2 server without capacity: empty SETTINGS, then GOAWAY with NO_ERROR and
/// stream 0. It informs the client that no request was processed, so that all requests may be
/// retried elsewhere (RFC 9113 3.4 and 6.8).
pub const HTTP2_NO_ROOM: [u8; 26] =
    [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

impl Conn {
    /// Handles a panic of the service inside the last call: the unfinished reply becomes a 500,
    /// earlier replies are still sent, and the connection ends.
    pub fn handle_panic(&mut self, io: Io<'_>) -> Next {
        io.out.drop_unfinished();
        io.out.begin_reply();
        put_failure(Status::INTERNAL_SERVER_ERROR, io.out, io.date, Persist::Close);
        self.end(io)
    }

    /// Handles a lack of capacity for this connection: writes a 503 with `Retry-After`, or GOAWAY
    /// if the connection was to be handed over as HTTP/2, and ends the connection. Input is
    /// dropped. If a large body is still to be sent, it remains the last output.
    pub fn handle_overload(&mut self, io: Io<'_>) -> Next {
        // While a large body is still to be sent, no further head can be written; the connection
        // ends without a reply.
        if self.verdict == Verdict::Http2 {
            io.out.begin_reply();
            io.out.head.extend_from_slice(&HTTP2_NO_ROOM);
        } else if io.out.body.is_empty() {
            io.out.begin_reply();
            let status = Status::SERVICE_UNAVAILABLE;
            put_failure_with(b"Retry-After: 1\r\n", status, io.out, io.date, Persist::Close);
        }
        self.end(io)
    }

    fn end(&mut self, io: Io<'_>) -> Next {
        io.carry.clear();
        // A deferred request no longer needs its work: the last reply is already written.
        let _answered = io.out.take_later();
        self.phase = Phase::Closing;
        self.deadline = Time::MAX;
        Next::CloseLinger
    }
}

#[cfg(test)]
mod tests {
    use crate::{Client, Conn, Date, Io, Limits, Next, Out, Phase, Time};

    fn with_conn(f: impl FnOnce(&mut Conn, Io<'_>) -> Next) -> (Next, Phase, String) {
        let (limits, date) = (Limits::default(), Date::new(784_111_777));
        let (mut carry, mut out) = (b"GET /half".to_vec(), Out::new());
        let mut conn = Conn::new(Time::ZERO, &limits);
        let io = Io {
            now: Time::ZERO,
            date: &date,
            limits: &limits,
            carry: &mut carry,
            out: &mut out,
            closing: false,
            client: &Client::UNKNOWN,
        };
        let next = f(&mut conn, io);
        assert!(carry.is_empty(), "input is dropped");
        (next, conn.phase(), String::from_utf8(out.head).unwrap())
    }

    #[test]
    fn a_panic_is_a_500_that_closes() {
        let (next, phase, head) = with_conn(Conn::handle_panic);
        assert_eq!((next, phase), (Next::CloseLinger, Phase::Closing));
        assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
        assert!(head.contains("Connection: close\r\n"), "{head}");
    }

    #[test]
    fn an_overload_is_a_503_that_says_when_to_come_back() {
        let (next, phase, head) = with_conn(Conn::handle_overload);
        assert_eq!((next, phase), (Next::CloseLinger, Phase::Closing));
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        assert!(head.contains("Retry-After: 1\r\n"), "{head}");
    }
    #[test]
    fn an_overload_behind_a_waiting_body_adds_nothing_to_it() {
        let (_, _, head) = with_conn(|conn, io| {
            io.out.body = bytes::Bytes::from_static(b"large");
            conn.handle_overload(io)
        });
        assert_eq!(head, "");
    }
}
