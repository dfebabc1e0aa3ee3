//! A connection of the ring: its handle, and what the ring has of it.
//!
//! Does not know about: the ring. It says what was read and what is still armed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use doorbell_ring::Target;

use super::super::{Received, sock};
use crate::id::{Generation, SlotIndex};

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) handle: Handle,
    /// Which use of the slot this is; known from the first operation on.
    pub(super) generation: Generation,
    /// True exactly while the worker waits for bytes.
    pub(super) recv: bool,
    /// True exactly while the ring has a send of this connection.
    pub(super) send: bool,
    /// True from a cancel on: what the ring gives up by itself is not tried again.
    pub(super) cancelled: bool,
    /// Of direct descriptors: the end of the sending side that is under way.
    pub(super) half_close: HalfClose,
    /// Of ordinary descriptors: the poll that tells of bytes.
    pub(super) poll: Poll,
    /// True unless the last `recv(2)` emptied the socket and no poll told of more since.
    pub(super) readable: bool,
    /// True once the end of the stream or an error was signalled: reading goes on until it is seen.
    pub(super) hung_up: bool,
}

#[derive(Debug)]
pub(super) enum Handle {
    Direct(Beside),
    Ordinary(OwnedFd),
}

/// The ordinary descriptor beside a direct one, made to look at the socket when a deadline has passed. The connection lives until both are
/// closed.
#[derive(Debug)]
pub(super) enum Beside {
    /// Being made.
    Asked,
    /// Being made, and a close waits for it: the kernel looks the direct descriptor's number up when it makes the other.
    Closing,
    /// It cannot be made.
    Failed,
    Here(OwnedFd),
    None,
}

/// A poll keeps its socket open, so that the close waits for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poll {
    Armed,
    /// Cancelled by a close that waits for it.
    Ending,
    /// Cancelled by a detach that waits for it; also while a descriptor is made of a direct one.
    Leaving,
    Off,
}

/// The kernel looks a direct descriptor's number up when a thread of its own gets to the shutdown, which may be after a close of the
/// same ring: the close waits, or it would end the sending side of whoever has the slot next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HalfClose {
    /// Being done.
    Asked,
    /// Being done, and a close waits for its end.
    Closing,
    None,
}

impl Socket {
    pub(super) const fn new(handle: Handle) -> Self {
        Self {
            handle,
            generation: Generation::new(0),
            recv: false,
            send: false,
            cancelled: false,
            half_close: HalfClose::None,
            poll: Poll::Off,
            readable: true,
            hung_up: false,
        }
    }

    /// The ordinary descriptor of the connection, if it has one.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.handle {
            Handle::Direct(Beside::Here(fd)) | Handle::Ordinary(fd) => Some(fd.as_fd()),
            Handle::Direct(_) => None,
        }
    }

    /// What can be read at once; `None` for a direct descriptor, which cannot be read that way.
    #[inline(always)]
    pub(super) fn try_recv(&mut self, scratch: &mut [u8]) -> Option<Received> {
        let Handle::Ordinary(fd) = &self.handle else { return None };
        if !self.readable {
            return None;
        }
        let received = sock::recv_now(fd.as_fd(), scratch);
        self.readable = match received {
            None => false,
            // After a hang-up the end of the stream is still to be read, and nothing more would tell of it.
            Some(Received::Data { drained: true, .. }) => self.hung_up,
            Some(_) => true,
        };
        received
    }

    pub(super) fn target(&self, slot: SlotIndex) -> Target<'_> {
        match &self.handle {
            Handle::Direct(_) => Target::Fixed(slot.0),
            Handle::Ordinary(fd) => Target::Fd(fd.as_fd()),
        }
    }
}
