//! Owns the inputs and outputs of the ring: targets, payloads, events.
//! Does not know about: queues, the kernel's structures.

use std::os::fd::{BorrowedFd, OwnedFd};

use bytes::Bytes;

use crate::{Errno, RecvBuf, Token};

/// The socket an operation acts on.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An ordinary descriptor. It must stay open until the next `enter`.
    Fd(BorrowedFd<'a>),
    /// An index in the ring's table of direct descriptors.
    Fixed(u32),
}

/// Bytes to send.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Built for this connection; returned with the event, so that its capacity can be reused.
    Owned(Vec<u8>),
    /// A reply shared by many connections.
    Shared(Bytes),
}

impl Payload {
    /// All the bytes.
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
    /// All of `payload`.
    #[must_use]
    pub const fn new(payload: Payload) -> Self {
        Self { payload, from: 0 }
    }

    /// The unsent part; empty when `from` is past the end.
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
    /// Result of `install_fixed`: another descriptor of the same connection.
    Installed(Result<OwnedFd, Errno>),
    /// Result of `poll_conn`: what the next calls will find.
    Ready(Result<Ready, Errno>),
    /// Result of `poll_readable`.
    Readable(Result<(), Errno>),
    /// Result of `recv`. `ENOBUFS`: the pool was empty; recycle a buffer, then receive again.
    Received(Result<Received, Errno>),
    /// Result of `send`: bytes the socket accepted (a short send is possible), and the buffer that
    /// was passed in.
    Sent {
        /// Bytes accepted.
        result: Result<u32, Errno>,
        /// The buffer; `from` is unchanged.
        buf: SendBuf,
    },
    /// Result of `shutdown_fixed`.
    ShutDown(Result<(), Errno>),
}

/// The result of a poll of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The peer ended its side, or the connection is closed: keep reading until the end is seen.
    pub hung_up: bool,
}

/// An event of `next_quick`.
///
/// The operation stays armed.
#[derive(Debug)]
pub enum Quick {
    /// Of a multishot `accept`: an ordinary descriptor.
    Accepted(OwnedFd),
    /// Of `poll_conn`.
    Ready(Ready),
}

/// A new connection.
#[derive(Debug)]
pub enum Accepted {
    /// As an ordinary descriptor: close-on-exec, blocking.
    Fd(OwnedFd),
    /// As an index of the table of direct descriptors.
    Fixed(u32),
}

/// The result of a receive.
#[derive(Debug)]
pub struct Received {
    /// The bytes; `None` is the end of the stream.
    pub buf: Option<RecvBuf>,
    /// Whether the socket held more bytes at the time of the completion
    /// (`IORING_CQE_F_SOCK_NONEMPTY`).
    pub more_queued: bool,
}

const _: () = assert!(size_of::<Event>() <= 64, "an event is one cache line");
const _: () = assert!(size_of::<SendBuf>() <= 40);
