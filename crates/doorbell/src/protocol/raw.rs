//! The raw protocol: a handler gets the bytes of a client and writes replies. The server may also
//! send first.
//!
//! The protocol suits line protocols, for example HAProxy's agent check and PING/PONG checks.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::stream::{AnyStream, Context, Stream, StreamHandler, Wait};
use crate::time::Time;

/// The handler of a raw listener.
pub trait RawHandler: Send + Sync {
    /// Whether the server sends first: then the listener does not defer accept, and each connection
    /// begins with [`greet`](Self::greet). Called once, by [`Raw::new`]. Default: false.
    fn speaks_first(&self) -> bool {
        false
    }

    /// Writes a greeting, which the server sends before it reads any input. Default: no greeting.
    fn greet(&self, now: Time, reply: &mut Vec<u8>) -> RawNext {
        let _ = (now, reply);
        RawNext::Continue
    }

    /// Handles all unprocessed bytes received so far on this connection and appends its reply to
    /// `reply`. `now` is the time of their arrival.
    fn handle(&self, now: Time, received: &[u8], reply: &mut Vec<u8>) -> RawNext;

    /// Writes a reply to a client that sent nothing within [`Raw::silence`] or [`Raw::timeout`].
    /// Returns true if there is such a reply; the connection closes in both cases. Default: no
    /// reply.
    fn answer_silent(&self, now: Time, reply: &mut Vec<u8>) -> bool {
        let _ = (now, reply);
        false
    }
}

/// The step after a call of a [`RawHandler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RawNext {
    /// Send the reply and close.
    Close,
    /// Send the reply, if any, and wait for new bytes. The bytes of this call are not passed again.
    Continue,
    /// Send the reply, if any, then hand the connection over, with the bytes of this call as its
    /// first input.
    HandOver,
    /// Wait for more bytes, then call the handler again with the bytes of this call and the new
    /// ones.
    NeedMore,
}

impl<F> RawHandler for F
where
    F: Fn(&[u8], &mut Vec<u8>) -> RawNext + Send + Sync,
{
    fn handle(&self, _now: Time, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        self(received, reply)
    }
}

/// The raw protocol, with a handler.
#[derive(Clone)]
pub struct Raw {
    handler: Arc<dyn RawHandler>,
    bytes_max: usize,
    timeout: Duration,
    silence: Option<Duration>,
    speaks_first: bool,
    hands_over_silent: bool,
}

impl Raw {
    /// Creates a raw protocol with default settings: requests of at most 4 KiB within 10 s.
    pub fn new(handler: impl RawHandler + 'static) -> Self {
        let speaks_first = handler.speaks_first();
        Self {
            handler: Arc::new(handler),
            bytes_max: 4096,
            timeout: Duration::from_secs(10),
            silence: None,
            speaks_first,
            hands_over_silent: false,
        }
    }

    /// Sets the length from which an incomplete request closes its connection. Default 4 KiB.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Sets the timeout of three waits: from the start of the connection to the end of its first
    /// request, from a reply to the first byte of the next request, and from that byte to the end
    /// of the request. Single bytes do not extend the timeout. Default 10 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum time until the first byte, if shorter than the timeout. Default: no
    /// separate limit. Use it with [`RawHandler::answer_silent`] for protocols in which a client
    /// may send nothing. The listener of such a protocol should not defer accept, because the
    /// deferral adds to this time.
    #[must_use]
    pub const fn silence(mut self, time: Duration) -> Self {
        self.silence = Some(time);
        self
    }

    /// Hands over connections whose client sent nothing within [`silence`](Self::silence) or the
    /// timeout, instead of closing them: for protocols in which the server sends first. Default
    /// false.
    #[must_use]
    pub const fn hand_over_silent(mut self, on: bool) -> Self {
        self.hands_over_silent = on;
        self
    }

    /// Wraps this protocol in TLS.
    #[cfg(feature = "tls")]
    pub fn tls(self, acceptor: crate::tls::Acceptor) -> super::Tls<AnyStream> {
        super::Tls::new(self.into(), acceptor)
    }
}

impl From<Raw> for AnyStream {
    fn from(raw: Raw) -> Self {
        let Raw { bytes_max, timeout, silence, .. } = raw;
        Stream::new(raw)
            .first_timeout(silence.unwrap_or(timeout).min(timeout))
            .frame_timeout(timeout)
            .idle_timeout(timeout)
            .frame_bytes_max(bytes_max)
            .into()
    }
}

/// State of a raw connection: the deadline of its first request, until that request is complete.
type FirstDue = Option<Time>;

impl StreamHandler for Raw {
    type Conn = FirstDue;
    type Message = ();

    fn open(&self, cx: &mut Context<'_, Self>) -> FirstDue {
        if self.speaks_first {
            let now = cx.now();
            match self.handler.greet(now, cx.out()) {
                RawNext::Close => cx.close(),
                RawNext::HandOver => cx.hand_over(),
                RawNext::Continue | RawNext::NeedMore => {}
            }
        }
        Some(cx.opened().after(self.timeout))
    }

    fn data(&self, first_due: &mut FirstDue, input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        let now = cx.now();
        match self.handler.handle(now, input, cx.out()) {
            RawNext::Close => cx.close(),
            RawNext::Continue => {}
            RawNext::HandOver => {
                cx.hand_over();
                return 0;
            }
            RawNext::NeedMore => {
                if let Some(first_due) = *first_due {
                    cx.set_deadline(first_due);
                }
                return 0;
            }
        }
        *first_due = None;
        input.len()
    }

    fn timeout(&self, _first_due: &mut FirstDue, wait: Wait, cx: &mut Context<'_, Self>) {
        let now = cx.now();
        if wait == Wait::First && self.hands_over_silent {
            return cx.hand_over();
        }
        if wait == Wait::First {
            let _has_reply = self.handler.answer_silent(now, cx.out());
        }
        cx.close();
    }

    fn speaks_first(&self) -> bool {
        self.speaks_first
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw")
            .field("bytes_max", &self.bytes_max)
            .field("timeout", &self.timeout)
            .field("silence", &self.silence)
            .field("speaks_first", &self.speaks_first)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Io, Local, Notify, Protocol as _};
    use super::*;
    use crate::id::{ConnId, Generation, SlotIndex};
    use doorbell_http::{Client, Date, Next, Out};

    const TIMEOUT: Duration = Duration::from_secs(10);

    /// Opens a connection at second 0 and passes it these bytes at these seconds. Returns the
    /// deadline after each input.
    fn deadlines(raw: &Raw, bytes: &[(u64, &[u8])]) -> Vec<u64> {
        let raw = AnyStream::from(raw.clone());
        let (mut conn, date, mut input) = (raw.open(Time::ZERO), Date::new(0), Vec::new());
        let mut local = Local::of(vec![raw.memory(1, &(Arc::new(|| ()) as Notify))]);
        raw.identify(&mut conn, ConnId { slot: SlotIndex(0), generation: Generation::new(0) });
        let mut deadlines = vec![raw.deadline(&conn).since(Time::ZERO).as_secs()];
        for &(second, fresh) in bytes {
            let mut out = Out::new();
            let io = Io {
                now: Time::ZERO.after(Duration::from_secs(second)),
                date: &date,
                input: &mut input,
                out: &mut out,
                draining: false,
                local: &mut local,
                client: &Client::UNKNOWN.with_listener(0),
            };
            assert_eq!(raw.handle_input(&mut conn, fresh, io), Next::Read);
            deadlines.push(raw.deadline(&conn).since(Time::ZERO).as_secs());
        }
        deadlines
    }

    #[test]
    fn single_bytes_do_not_extend_the_time_of_a_request() {
        let lines = |received: &[u8], _: &mut Vec<u8>| match received.ends_with(b"\n") {
            true => RawNext::Continue,
            false => RawNext::NeedMore,
        };
        let raw = Raw::new(lines).timeout(TIMEOUT);
        let drip: [(u64, &[u8]); 6] = [(3, b"a"), (6, b"b"), (9, b"\n"), (12, b"c"), (15, b"d"), (20, b"\n")];
        assert_eq!(deadlines(&raw, &drip), [10, 10, 10, 19, 22, 22, 30]);
        let raw = raw.silence(Duration::from_secs(4));
        assert_eq!(
            deadlines(&raw, &drip),
            [4, 10, 10, 19, 22, 22, 30],
            "the silence ends with the first byte"
        );
    }

    /// Greets with the number of seconds since [`Time::ZERO`].
    struct Clock;

    impl RawHandler for Clock {
        fn speaks_first(&self) -> bool {
            true
        }

        fn greet(&self, now: Time, reply: &mut Vec<u8>) -> RawNext {
            reply.push(u8::try_from(now.since(Time::ZERO).as_secs()).unwrap());
            RawNext::Continue
        }

        fn handle(&self, _now: Time, _received: &[u8], _reply: &mut Vec<u8>) -> RawNext {
            RawNext::Continue
        }
    }

    /// A PROXY header or a TLS handshake may precede the greeting.
    #[test]
    fn a_greeting_gets_the_time_at_which_it_is_written() {
        let raw = AnyStream::from(Raw::new(Clock).timeout(TIMEOUT));
        let (mut conn, mut out) = (raw.open(Time::ZERO), Out::new());
        let mut local = Local::of(vec![raw.memory(1, &(Arc::new(|| ()) as Notify))]);
        raw.identify(&mut conn, ConnId { slot: SlotIndex(0), generation: Generation::new(0) });
        let io = Io {
            now: Time::ZERO.after(Duration::from_secs(3)),
            date: &Date::new(0),
            input: &mut Vec::new(),
            out: &mut out,
            draining: false,
            local: &mut local,
            client: &Client::UNKNOWN.with_listener(0),
        };
        assert_eq!((raw.greet(&mut conn, io), out.head), (Next::Read, vec![3]));
    }
}
