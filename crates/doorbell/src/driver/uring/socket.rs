//! A connection of the io_uring driver: its handle and its operations in the ring.
//!
//! Does not know about: the ring. It records what was read and what is still armed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use doorbell_ring::Target;

use super::super::{Received, sock};
use crate::id::{Generation, SlotIndex};

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) handle: Handle,
    /// The current use of the slot; known from the first operation on.
    pub(super) generation: Generation,
    /// True exactly while the worker waits for bytes.
    pub(super) recv: bool,
    /// True exactly while a send of this connection is in the ring.
    pub(super) send: bool,
    /// True after a cancel: an operation that the ring gives up is not retried.
    pub(super) cancelled: bool,
    /// Direct descriptors: state of a shutdown of the sending side.
    pub(super) half_close: HalfClose,
    /// Ordinary descriptors: state of the poll for input.
    pub(super) poll: Poll,
    /// False if the last `recv(2)` emptied the socket and no poll signalled more since.
    pub(super) readable: bool,
    /// True once the end of the stream or an error was signalled: reading continues until it is
    /// seen.
    pub(super) hung_up: bool,
}

#[derive(Debug)]
pub(super) enum Handle {
    Direct(Beside),
    Ordinary(OwnedFd),
}

/// An ordinary descriptor made for a direct one, to query the socket after a deadline. The
/// connection ends only when both are closed.
#[derive(Debug)]
pub(super) enum Beside {
    /// Being made.
    Asked,
    /// Being made, and a close waits for it: the kernel resolves the number of the direct
    /// descriptor only when it makes the other.
    Closing,
    /// Cannot be made.
    Failed,
    Here(OwnedFd),
    None,
}

/// State of a poll. A poll keeps its socket open, so a close waits for the end of the poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poll {
    Armed,
    /// Cancelled by a close that waits for its end.
    Ending,
    /// Cancelled by a detach that waits for its end; also while an ordinary descriptor is made.
    Leaving,
    Off,
}

/// State of a shutdown. A kernel thread resolves the number of the direct descriptor, possibly
/// after a later close in the same ring. So the close waits; otherwise the shutdown could hit the
/// next connection in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HalfClose {
    /// In progress.
    Asked,
    /// In progress, and a close waits for its end.
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

    /// The ordinary descriptor of the connection, if there is one.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.handle {
            Handle::Direct(Beside::Here(fd)) | Handle::Ordinary(fd) => Some(fd.as_fd()),
            Handle::Direct(_) => None,
        }
    }

    /// Receives without waiting; `None` for a direct descriptor, which does not support that.
    #[inline(always)]
    pub(super) fn try_recv(&mut self, scratch: &mut [u8]) -> Option<Received> {
        let Handle::Ordinary(fd) = &self.handle else { return None };
        if !self.readable {
            return None;
        }
        let received = sock::recv_now(fd.as_fd(), scratch);
        self.readable = match received {
            None => false,
            // After a hang-up the end of the stream is still unread, and no further event signals
            // it.
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
