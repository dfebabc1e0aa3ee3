//! Owns the inputs and outputs of the ring: targets, payloads, events.

use std::os::fd::{BorrowedFd, OwnedFd};

use bytes::Bytes;

use crate::{Errno, RecvBuf, Token};

/// The socket an operation acts on.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An ordinary descriptor. The push duplicates it, so it may be closed at once.
    Fd(BorrowedFd<'a>),
    /// An index in the ring's table of direct descriptors.
    Fixed(u32),
}

/// Bytes to send.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Bytes built for one connection. The event returns the vector, so that its capacity can be
    /// reused.
    Owned(Vec<u8>),
    /// A reply shared by many connections.
    Shared(Bytes),
}

impl Payload {
    /// The whole payload, sent bytes included.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether the length is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A payload and the offset of its unsent part.
#[derive(Clone, Debug)]
pub struct SendBuf {
    /// The bytes.
    pub payload: Payload,
    /// Bytes before this offset have been sent.
    pub from: usize,
}

impl SendBuf {
    /// Creates a buffer of which nothing has been sent.
    #[must_use]
    pub const fn new(payload: Payload) -> Self {
        Self { payload, from: 0 }
    }

    /// The unsent part; empty if `from` is past the end.
    #[must_use]
    pub fn remaining(&self) -> &[u8] {
        self.payload.as_slice().get(self.from..).unwrap_or_default()
    }
}

impl From<Bytes> for SendBuf {
    fn from(bytes: Bytes) -> Self {
        Self::new(Payload::Shared(bytes))
    }
}

impl From<Vec<u8>> for SendBuf {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(Payload::Owned(bytes))
    }
}

/// One completion.
#[derive(Debug)]
pub struct Event {
    /// The token of the push.
    pub token: Token,
    /// The kind of operation and its result.
    pub kind: EventKind,
    /// True while the operation stays armed and more events of it will follow
    /// (`IORING_CQE_F_MORE`).
    pub more: bool,
}

/// The result of an operation.
#[derive(Debug)]
pub enum EventKind {
    /// Result of `accept`.
    Accepted(Result<Accepted, Errno>),
    /// Result of `close_fixed`.
    Closed(Result<(), Errno>),
    /// Result of `recv_datagrams`: a buffer to read with `Ring::datagram`. `ENOBUFS`: the pool was
    /// empty; recycle the buffers, then receive again.
    Datagram(Result<RecvBuf, Errno>),
    /// Result of `install_fixed`: a second descriptor of the same connection.
    Installed(Result<OwnedFd, Errno>),
    /// Result of `poll_conn`: bytes or the end of the stream arrived.
    Ready(Result<Ready, Errno>),
    /// Result of `poll_readable`.
    Readable(Result<(), Errno>),
    /// Result of `recv`. `ENOBUFS`: the pool was empty; recycle a buffer, then receive again.
    Received(Result<Received, Errno>),
    /// Result of `send`: the number of bytes that the socket accepted (a short send is possible),
    /// and the buffer of the push.
    Sent {
        /// Number of bytes that the socket accepted.
        result: Result<u32, Errno>,
        /// The buffer of the push, with its offset [`SendBuf::from`] unchanged.
        buf: SendBuf,
    },
    /// Result of `shutdown_fixed`.
    ShutDown(Result<(), Errno>),
}

/// The result of a poll of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The peer closed its sending side, or the connection is closed. Bytes may still be unread:
    /// receive until the end of the stream.
    pub hung_up: bool,
}

/// An event of a frequent kind, as returned by [`Ring::next_quick`](crate::Ring::next_quick).
///
/// The operation stays armed.
#[derive(Debug)]
pub enum Quick {
    /// Result of a multishot `accept`: an ordinary descriptor.
    Accepted(OwnedFd),
    /// Result of `poll_conn`.
    Ready(Ready),
}

/// A new connection.
#[derive(Debug)]
pub enum Accepted {
    /// An ordinary descriptor: close-on-exec, blocking.
    Fd(OwnedFd),
    /// An index of the table of direct descriptors.
    Fixed(u32),
}

/// The result of a receive.
#[derive(Debug)]
pub struct Received {
    /// The bytes; `None` is the end of the stream.
    pub buf: Option<RecvBuf>,
    /// Whether more bytes were in the socket at the time of the completion
    /// (`IORING_CQE_F_SOCK_NONEMPTY`).
    pub more_queued: bool,
}

const _: () = assert!(size_of::<Event>() <= 64, "an event is one cache line");
const _: () = assert!(size_of::<SendBuf>() <= 40);
