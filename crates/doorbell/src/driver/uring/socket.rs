//! A connection of the io_uring driver: its handle and its operations in the ring.
//!
//! The state here is updated by the driver.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use doorbell_ring::Target;

use super::super::{Received, sock};
use crate::id::{Generation, SlotIndex};

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) handle: Handle,
    /// Generation of the current use of the slot; known from the first operation on.
    pub(super) generation: Generation,
    /// True exactly while the worker waits for bytes.
    pub(super) recv: bool,
    /// True exactly while a send of this connection is in the ring.
    pub(super) send: bool,
    /// True after a cancel: an operation that fails is then not retried.
    pub(super) cancelled: bool,
    /// State of a shutdown of the sending side; used for direct descriptors only.
    pub(super) half_close: HalfClose,
    /// State of the poll for input; used for ordinary descriptors only.
    pub(super) poll: Poll,
    /// False if the last `recv(2)` emptied the socket and no poll has signalled input since.
    pub(super) readable: bool,
    /// True once the end of the stream or an error was signalled.
    pub(super) hung_up: bool,
}

#[derive(Debug)]
pub(super) enum Handle {
    Direct(Installed),
    Ordinary(OwnedFd),
}

/// An ordinary descriptor that is created in addition to a direct descriptor, to query the socket
/// after a deadline. The connection ends only when both descriptors are closed.
#[derive(Debug)]
pub(super) enum Installed {
    /// The kernel is creating the descriptor.
    Requested,
    /// The kernel is creating the descriptor, and a close waits for that: the kernel resolves the
    /// number of the direct descriptor only when it creates the ordinary one.
    Closing,
    /// The descriptor cannot be created.
    Failed,
    Here(OwnedFd),
    None,
}

/// State of a poll. A poll keeps its socket open, so a close waits for the end of the poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poll {
    Armed,
    /// Cancelled by a close, which waits for the end of the poll.
    Ending,
    /// Cancelled by a detach, which waits for the end of the poll.
    Leaving,
    Off,
}

/// State of a shutdown. A kernel thread resolves the number of the direct descriptor, possibly
/// after a later close in the same ring. So a close waits for the end of the shutdown, which could
/// otherwise affect the next connection in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HalfClose {
    /// In progress.
    Requested,
    /// In progress, and a close waits for the end of the shutdown.
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
            Handle::Direct(Installed::Here(fd)) | Handle::Ordinary(fd) => Some(fd.as_fd()),
            Handle::Direct(_) => None,
        }
    }

    /// Receives without waiting. `None` if no bytes have arrived, and for a direct descriptor,
    /// which does not support system calls.
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
