//! Owns what goes into the ring and what comes out of it: targets, payloads, events.
//! Does not know about: queues, the kernel's structures.

use std::os::fd::{BorrowedFd, OwnedFd};

use bytes::Bytes;

use crate::{Errno, RecvBuf, Token};

/// The socket an operation acts on.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An ordinary descriptor. It must stay open until the next `enter`.
    Fd(BorrowedFd<'a>),
    /// An index of the ring's table of direct descriptors.
    Fixed(u32),
}

/// Bytes to send.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Made for this connection; comes back with the event, so that its capacity can be used again.
    Owned(Vec<u8>),
    /// A reply many connections share.
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

    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A payload and how much of it is sent already.
#[derive(Clone, Debug)]
pub struct SendBuf {
    /// The bytes.
    pub payload: Payload,
    /// Bytes before this offset are not sent again.
    pub from: usize,
}

impl SendBuf {
    /// All of `payload`.
    #[must_use]
    pub const fn new(payload: Payload) -> Self {
        Self { payload, from: 0 }
    }

    /// What is still to send; empty when `from` is past the end.
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
    /// What happened.
    pub kind: EventKind,
    /// True exactly while the operation stays armed and more events of it will come (`IORING_CQE_F_MORE`).
    pub more: bool,
}

/// What an operation came to.
#[derive(Debug)]
pub enum EventKind {
    /// Of `accept`.
    Accepted(Result<Accepted, Errno>),
    /// Of `close_fixed`.
    Closed(Result<(), Errno>),
    /// Of `install_fixed`: another name for the same connection.
    Installed(Result<OwnedFd, Errno>),
    /// Of `poll_conn`: what is to be seen with the next calls.
    Ready(Result<Ready, Errno>),
    /// Of `poll_readable`.
    Readable(Result<(), Errno>),
    /// Of `recv`. `ENOBUFS`: the pool was empty; recycle, then receive again.
    Received(Result<Received, Errno>),
    /// Of `send`: bytes the socket took this time (fewer than asked is possible), and the buffer as it was given.
    Sent {
        /// Bytes taken.
        result: Result<u32, Errno>,
        /// The buffer; `from` is not moved.
        buf: SendBuf,
    },
    /// Of `shutdown_fixed`.
    ShutDown(Result<(), Errno>),
}

/// What a poll of a connection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The peer ended its side, or the connection is gone: reading goes on until that is seen.
    pub hung_up: bool,
}

/// What `next_quick` brings. The operation goes on.
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

/// What a receive brought.
#[derive(Debug)]
pub struct Received {
    /// The bytes; `None` is the end of the stream.
    pub buf: Option<RecvBuf>,
    /// True if the socket held more when the kernel looked (`IORING_CQE_F_SOCK_NONEMPTY`).
    pub more_queued: bool,
}

const _: () = assert!(size_of::<Event>() <= 64, "an event is one cache line");
const _: () = assert!(size_of::<SendBuf>() <= 40);
