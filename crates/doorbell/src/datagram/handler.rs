//! The interface of datagram handlers: the request, and the reply.

use core::net::{IpAddr, SocketAddr};

use crate::time::Time;

/// The handler of a datagram listener.
///
/// It is shared by all workers. A closure with the same arguments is a handler, too.
pub trait DatagramHandler: Send + Sync {
    /// Handles a datagram. Without a call of [`DatagramReply::send`] the client gets no reply.
    fn handle(&self, request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>);
}

impl<F> DatagramHandler for F
where
    F: Fn(&DatagramRequest<'_>, &mut DatagramReply<'_>) + Send + Sync,
{
    fn handle(&self, request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>) {
        self(request, reply);
    }
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct DatagramRequest<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) peer: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    pub(crate) listener: &'a str,
    pub(crate) now: Time,
}

impl<'a> DatagramRequest<'a> {
    /// The payload. May be empty.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The address of the client, which may be forged.
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address of this machine to which the datagram was sent, and from which the reply is
    /// sent. `None` if the kernel did not report it.
    pub const fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// The name of the listener ([`DatagramListen::name`](super::DatagramListen::name)).
    pub const fn listener(&self) -> &'a str {
        self.listener
    }

    /// The time of the worker's turn, which is the time of arrival within a few milliseconds.
    pub const fn now(&self) -> Time {
        self.now
    }
}

/// The reply to a datagram.
#[derive(Debug)]
pub struct DatagramReply<'a> {
    room: &'a mut [u8],
    state: State,
}

/// What the handler has written so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Silent,
    Reply { len: usize },
    TooLong,
}

impl<'a> DatagramReply<'a> {
    pub(crate) const fn new(room: &'a mut [u8]) -> Self {
        Self { room, state: State::Silent }
    }

    /// Appends bytes to the reply. Without a call there is no reply; a call with no bytes creates
    /// an empty one. If the reply becomes longer than [`Self::len_max`], it is not sent.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let from = match self.state {
            State::Silent => 0,
            State::Reply { len } => len,
            State::TooLong => return,
        };
        self.state = match self.room.get_mut(from..from + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                State::Reply { len: from + bytes.len() }
            }
            None => State::TooLong,
        };
    }

    /// Maximum length of the reply, which depends on the length of the request.
    pub const fn len_max(&self) -> usize {
        self.room.len()
    }

    /// The length of the reply; `None` if there is no reply.
    ///
    /// # Errors
    /// The reply is too long.
    pub(crate) fn finish(self) -> Result<Option<usize>, TooLong> {
        match self.state {
            State::Silent => Ok(None),
            State::Reply { len } => Ok(Some(len)),
            State::TooLong => Err(TooLong),
        }
    }
}

/// A reply is longer than permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;
