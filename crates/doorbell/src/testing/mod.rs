//! Tests of handlers without sockets, threads or waiting.
//!
//! [`ask`] passes bytes to a handler as the input of one connection and returns what the client
//! would receive. A [`TestConn`] does the same step by step.
//!
//! ```
//! use doorbell::testing::ask;
//! use doorbell::{Status, service_fn};
//!
//! let service = service_fn(|request, reply| match request.path() {
//!     "/livez" => reply.status(Status::OK).text("ok\n"),
//!     _ => reply.status(Status::NOT_FOUND).empty(),
//! });
//!
//! let got = ask(&service, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
//! assert_eq!((got.reply().status(), got.reply().text()), (Status::OK, "ok\n"));
//! assert!(got.is_open());
//! ```
//!
//! The handler runs in the state machine of the server, with the same limits. The differences:
//!
//! - A job ([`Offload`](crate::Offload)) runs at once on the calling thread. The queue, the threads
//!   and the timeout of its [`Offload`](crate::Offload) are not used.
//! - A panic of the handler reaches the test. A panic of a job gets a 500, as on a server.
//! - The `Date` field is always `Sun, 06 Nov 1994 08:49:37 GMT`. Time passes only with
//!   [`TestConn::wait`].
//! - The client has the address `127.0.0.1`, unless the test sets another one. As on a server, a
//!   handler sees the address only if it [requests it](crate::Handler::wants_client).
//!
//! A [`TestStream`] does the same for a [stream protocol](crate::stream), and [`ask_datagram`] for
//! a handler of [datagrams](crate::datagram).

mod datagram;
mod exchange;
mod stream;

use core::fmt;
use core::mem;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use doorbell_http::{Client, Conn, Date, Io, Limits, Next, Out, Peer, TlsInfo};

pub use datagram::{DatagramOutcome, TestDatagrams, ask_datagram};
pub use exchange::{After, Exchange, SentReply};
pub use stream::TestStream;

use crate::Handler;
use crate::offload::{Job, Outcome};
use crate::protocol::{JobResult, handle_answer};
use crate::time::{Clock, OsClock, Time};

/// Seconds since 1970 of the `Date` field in every reply: the example of RFC 9110 5.6.7.
const UNIX_SECS: i64 = 784_111_777;

/// Opens a connection to `handler`, sends `bytes` and returns the result.
///
/// `bytes` may contain several requests, parts of a request, or no HTTP at all.
pub fn ask<H: Handler + ?Sized>(handler: &H, bytes: impl AsRef<[u8]>) -> Exchange {
    TestConn::open(handler).send(bytes)
}

/// A connection to a handler, without a socket.
///
/// ```
/// use doorbell::testing::{After, TestConn};
/// use doorbell::{Status, service_fn};
///
/// let echo = service_fn(|request, reply| reply.status(Status::OK).text(request.body())).with_body();
/// let mut conn = TestConn::open(&echo);
/// let got = conn.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
/// assert!(got.replies().is_empty() && got.is_open());
/// assert_eq!(conn.send("lo").reply().text(), "hello");
/// assert_eq!(conn.finish().after(), &After::Closed);
/// ```
pub struct TestConn<'h, H: ?Sized> {
    handler: &'h H,
    limits: Limits,
    peer: Peer,
    tls: Option<TlsInfo>,
    draining: bool,
    now: Time,
    date: Date,
    /// `None` until the first input, so that limits can be set before it.
    machine: Option<Conn>,
    carry: Vec<u8>,
    out: Out,
}

impl<'h, H: Handler + ?Sized> TestConn<'h, H> {
    /// Opens a connection with default limits.
    pub fn open(handler: &'h H) -> Self {
        Self {
            handler,
            limits: Limits::default(),
            peer: Peer::Addr(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            tls: None,
            draining: false,
            now: OsClock.now(),
            date: Date::new(UNIX_SECS),
            machine: None,
            carry: Vec::new(),
            out: Out::new(),
        }
    }

    /// Sets the limits of the connection. Default [`HttpLimits::default`](crate::HttpLimits). Call
    /// it before the first input.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the other end of the connection. Default `127.0.0.1`.
    #[must_use]
    pub const fn peer(mut self, peer: Peer) -> Self {
        self.peer = peer;
        self
    }

    /// Sets the TLS session of the connection. Default: none.
    #[must_use]
    pub fn tls(mut self, tls: TlsInfo) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Begins a drain of the server: every further reply closes the connection.
    pub const fn drain(&mut self) {
        self.draining = true;
    }

    /// Sends bytes of the client.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> Exchange {
        self.run(|machine, io, handler| machine.handle_input(bytes.as_ref(), io, handler))
    }

    /// Ends the client's side of the connection, with a FIN.
    pub fn finish(&mut self) -> Exchange {
        self.run(|machine, io, _| machine.handle_eof(io))
    }

    /// Lets time pass in which the client sends nothing.
    pub fn wait(&mut self, time: Duration) -> Exchange {
        self.now = self.now.after(time);
        self.run(|machine, io, _| machine.handle_timeout(io))
    }

    /// Makes a call and continues until the connection needs input or is over.
    fn run(&mut self, call: impl FnOnce(&mut Conn, Io<'_>, &H) -> Next) -> Exchange {
        let mut exchange = Exchange::new();
        let mut next = self.call(call);
        loop {
            // The request of a job is taken before the output is cleared, because the output
            // contains it.
            let later = self.out.take_later();
            exchange.add(&mut self.out);
            next = match (next, later) {
                (Next::Flush, _) => self.call(|machine, io, handler| machine.handle_input(&[], io, handler)),
                (Next::Wait, Some(mut later)) => {
                    let job = later.take_work().and_then(Job::from_work);
                    let outcome = job.map_or(Outcome::Panicked, Job::run_here);
                    self.call(|machine, io, _| handle_answer(machine, JobResult { later, outcome }, io))
                }
                (Next::HandOver, _) => return exchange.ended(After::HandedOver(mem::take(&mut self.carry))),
                (Next::Close | Next::CloseClean | Next::CloseLinger, _) => {
                    return exchange.ended(After::Closed);
                }
                (Next::Read | Next::Wait, _) => return exchange,
            };
        }
    }

    fn call(&mut self, call: impl FnOnce(&mut Conn, Io<'_>, &H) -> Next) -> Next {
        // The limit allows one final reply per call, so that replies need not be separated by their
        // length.
        let limits = Limits { output_bytes_max: 1, ..self.limits.clone() };
        let peer = if self.handler.wants_client() { self.peer } else { Peer::Unknown };
        let client = Client::new(peer).with_tls(self.tls.as_ref());
        let io = Io {
            now: self.now,
            date: &self.date,
            limits: &limits,
            carry: &mut self.carry,
            out: &mut self.out,
            closing: self.draining,
            client: &client,
        };
        let machine = self.machine.get_or_insert_with(|| Conn::new(self.now, &limits));
        call(machine, io, self.handler)
    }
}

impl<H: ?Sized> fmt::Debug for TestConn<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestConn")
            .field("peer", &self.peer)
            .field("draining", &self.draining)
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}
