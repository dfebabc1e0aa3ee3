//! Datagrams to a handler, without a socket.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::num::NonZeroU16;

use crate::datagram::{DatagramHandler, DatagramReply, DatagramRequest};
use crate::time::{Clock as _, OsClock};

/// What the client of a datagram gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatagramOutcome {
    /// A reply.
    Reply(Vec<u8>),
    /// Nothing: the handler did not reply.
    Silent,
    /// Nothing: the reply is longer than permitted for this request.
    TooLong,
}

/// Passes a datagram to `handler`, with the default settings of a listener.
///
/// ```
/// use doorbell::datagram::{DatagramReply, DatagramRequest};
/// use doorbell::testing::{DatagramOutcome, ask_datagram};
///
/// let greet = |request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>| {
///     if request.payload().starts_with(b"hi") {
///         reply.send("hello");
///     }
/// };
/// assert_eq!(ask_datagram(&greet, "hi there"), DatagramOutcome::Reply(b"hello".to_vec()));
/// assert_eq!(ask_datagram(&greet, "hi"), DatagramOutcome::TooLong);
/// assert_eq!(ask_datagram(&greet, "bye"), DatagramOutcome::Silent);
/// ```
pub fn ask_datagram<H: DatagramHandler + ?Sized>(handler: &H, payload: impl AsRef<[u8]>) -> DatagramOutcome {
    TestDatagrams::to(handler).send(payload)
}

/// A client of a datagram handler. As on a server, the handler must not block; a panic of the
/// handler reaches the test.
pub struct TestDatagrams<'h, H: ?Sized> {
    handler: &'h H,
    peer: SocketAddr,
    local: IpAddr,
    listener: String,
    amplification: NonZeroU16,
}

impl<'h, H: DatagramHandler + ?Sized> TestDatagrams<'h, H> {
    /// Creates a client at `127.0.0.1:50000` that sends to the address `127.0.0.1` of a listener
    /// with the name `test`.
    pub fn to(handler: &'h H) -> Self {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let listener = "test".to_owned();
        Self { handler, peer: (local, 50_000).into(), local, listener, amplification: NonZeroU16::MIN }
    }

    /// Sets the address of the client.
    #[must_use]
    pub const fn peer(mut self, peer: SocketAddr) -> Self {
        self.peer = peer;
        self
    }

    /// Sets the address to which the client sends.
    #[must_use]
    pub const fn local(mut self, local: IpAddr) -> Self {
        self.local = local;
        self
    }

    /// Sets the name of the listener.
    #[must_use]
    pub fn listener(mut self, name: &str) -> Self {
        name.clone_into(&mut self.listener);
        self
    }

    /// Sets the maximum length of a reply as a multiple of the length of its request. Default 1.
    #[must_use]
    pub const fn amplification(mut self, factor: NonZeroU16) -> Self {
        self.amplification = factor;
        self
    }

    /// Sends a datagram.
    pub fn send(&self, payload: impl AsRef<[u8]>) -> DatagramOutcome {
        let payload = payload.as_ref();
        let mut room = vec![0; payload.len() * usize::from(self.amplification.get())];
        let request = DatagramRequest {
            payload,
            peer: self.peer,
            local: Some(self.local),
            listener: &self.listener,
            now: OsClock.now(),
        };
        let mut reply = DatagramReply::new(&mut room);
        self.handler.handle(&request, &mut reply);
        match reply.finish() {
            Ok(Some(len)) => {
                room.truncate(len);
                DatagramOutcome::Reply(room)
            }
            Ok(None) => DatagramOutcome::Silent,
            Err(_) => DatagramOutcome::TooLong,
        }
    }
}

impl<H: ?Sized> fmt::Debug for TestDatagrams<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestDatagrams").field("peer", &self.peer).finish_non_exhaustive()
    }
}
