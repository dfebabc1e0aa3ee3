//! A connection to a stream protocol under test.

use core::fmt;
use core::mem;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use doorbell_http::{Client, Date, Next, Out, Peer, TlsInfo};

use super::{After, UNIX_SECS};
use crate::error::CloseReason;
use crate::id::{ConnId, Generation, ListenerIndex, SlotIndex};
use crate::protocol::stream::{Stream, StreamConn, StreamHandler};
use crate::protocol::{Io, Local, Protocol};
use crate::time::{Clock, OsClock, Time};

const ID: ConnId = ConnId { slot: SlotIndex(0), generation: Generation::new(0) };

/// A connection to a stream protocol, without a socket.
///
/// Each step returns the bytes that the peer would receive. A job runs at once, on the calling
/// thread. Time passes only with [`TestStream::wait`].
///
/// ```
/// use doorbell::stream::{Context, Stream, StreamHandler};
/// use doorbell::testing::TestStream;
///
/// struct Echo;
///
/// impl StreamHandler for Echo {
///     type Conn = ();
///     type Message = ();
///
///     fn open(&self, _cx: &mut Context<'_, Self>) {}
///
///     fn data(&self, _conn: &mut (), input: &[u8], cx: &mut Context<'_, Self>) -> usize {
///         cx.write(input);
///         input.len()
///     }
/// }
///
/// let mut conn = TestStream::open(Stream::new(Echo));
/// assert_eq!(conn.send("hello"), b"hello");
/// assert!(conn.is_open());
/// ```
pub struct TestStream<H: StreamHandler> {
    stream: Stream<H>,
    conn: StreamConn,
    local: Local,
    peer: Peer,
    tls: Option<TlsInfo>,
    draining: bool,
    now: Time,
    date: Date,
    input: Vec<u8>,
    sent: Vec<u8>,
    after: After,
}

impl<H: StreamHandler> TestStream<H> {
    /// Opens a connection.
    pub fn open(stream: Stream<H>) -> Self {
        let now = OsClock.now();
        let mut conn = Protocol::open(&stream, now);
        stream.identify(&mut conn, ID);
        let local = Local::of(vec![Some(stream.memory_of_test(ID))]);
        let mut this = Self {
            stream,
            conn,
            local,
            peer: Peer::Addr(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            tls: None,
            draining: false,
            now,
            date: Date::new(UNIX_SECS),
            input: Vec::new(),
            sent: Vec::new(),
            after: After::Open,
        };
        if this.stream.speaks_first() {
            this.run(|stream, conn, io| stream.greet(conn, io));
        }
        this
    }

    /// Sets the other end of the connection. Default `127.0.0.1`. As on a server, a handler sees
    /// the address only if it [requests it](StreamHandler::wants_client).
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

    /// Sends bytes of the client. The result also contains earlier output that was not returned
    /// yet, for example a greeting.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> Vec<u8> {
        self.step(|stream, conn, io| stream.handle_input(conn, bytes.as_ref(), io))
    }

    /// Delivers messages that were pushed.
    pub fn receive(&mut self) -> Vec<u8> {
        self.step(|_, _, _| Next::Read)
    }

    /// Ends the client's side of the connection, with a FIN.
    pub fn finish(&mut self) -> Vec<u8> {
        self.step(|stream, conn, io| stream.handle_eof(conn, io))
    }

    /// Lets time pass in which the client sends nothing, up to the next deadline if it is earlier.
    pub fn wait(&mut self, time: Duration) -> Vec<u8> {
        let until = self.now.after(time);
        let deadline = self.stream.deadline(&self.conn);
        // A deadline may be in the past.
        self.now = until.min(deadline.max(self.now));
        if deadline > until {
            return self.receive();
        }
        self.step(|stream, conn, io| stream.handle_timeout(conn, io))
    }

    /// Begins a drain of the server.
    pub fn drain(&mut self) -> Vec<u8> {
        self.draining = true;
        let is_idle = self.stream.is_idle(&self.conn);
        self.step(|stream, conn, io| if is_idle { stream.handle_drain(conn, io) } else { Next::Read })
    }

    /// Returns the state of the connection.
    pub const fn after(&self) -> &After {
        &self.after
    }

    /// Whether the connection is open.
    pub const fn is_open(&self) -> bool {
        matches!(self.after, After::Open)
    }

    /// Returns why the connection has ended, or `None` while it is open.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.after {
            After::Closed => Some(self.stream.close_reason(&self.conn)),
            After::HandedOver(_) => Some(CloseReason::HandedOver),
            After::Open => None,
        }
    }

    fn step(&mut self, call: impl FnOnce(&Stream<H>, &mut StreamConn, Io<'_>) -> Next) -> Vec<u8> {
        if self.is_open() {
            self.run(call);
        }
        mem::take(&mut self.sent)
    }

    /// Makes a call and continues until the connection needs input or is over.
    fn run(&mut self, call: impl FnOnce(&Stream<H>, &mut StreamConn, Io<'_>) -> Next) {
        let mut next = self.call(call);
        loop {
            next = match next {
                Next::Flush => self.call(|stream, conn, io| stream.handle_input(conn, &[], io)),
                Next::Read | Next::Wait if self.takes_message() => {
                    self.call(|stream, conn, io| stream.handle_message(conn, io))
                }
                Next::Read | Next::Wait => return,
                Next::HandOver => {
                    let rest = mem::take(&mut self.input);
                    return self.end(After::HandedOver(rest));
                }
                Next::Close | Next::CloseClean | Next::CloseLinger => return self.end(After::Closed),
            };
        }
    }

    fn takes_message(&mut self) -> bool {
        let Some(memory) = self.local.stream(ListenerIndex(0)) else { return false };
        memory.take_mail();
        let mut any = false;
        while memory.next_addressee().is_some() {
            any = true;
        }
        any
    }

    fn call(&mut self, call: impl FnOnce(&Stream<H>, &mut StreamConn, Io<'_>) -> Next) -> Next {
        let peer = if self.stream.wants_client() { self.peer } else { Peer::Unknown };
        let client = Client::new(peer).with_tls(self.tls.as_ref()).with_listener(0);
        let mut out = Out::new();
        let io = Io {
            now: self.now,
            date: &self.date,
            input: &mut self.input,
            out: &mut out,
            draining: self.draining,
            local: &mut self.local,
            client: &client,
        };
        let next = call(&self.stream, &mut self.conn, io);
        self.sent.extend_from_slice(&out.head);
        next
    }

    fn end(&mut self, after: After) {
        self.after = after;
        let reason = self.close_reason().unwrap_or(CloseReason::Done);
        self.stream.handle_closed(&self.conn, ListenerIndex(0), &mut self.local, reason);
    }
}

impl<H: StreamHandler> fmt::Debug for TestStream<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStream")
            .field("conn", &self.conn)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}
