//! The state of a connection: its descriptor, its readiness, and what is in flight.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::super::Received;
use super::super::sock;
use crate::id::ConnId;

#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    /// True after the first operation that had to wait: the socket is then added to epoll.
    pub(super) registered: bool,
    /// False if the last `recv` emptied the socket and no event has been signalled since.
    pub(super) readable: bool,
    /// True once FIN, RST or an error was signalled.
    pub(super) hung_up: bool,
    /// False if the last `send` filled the socket and no event has been signalled since.
    pub(super) writable: bool,
    pub(super) recv: Option<ConnId>,
    /// True exactly while a send is in flight.
    pub(super) sending: bool,
}

impl Socket {
    #[inline(always)]
    pub(super) const fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            registered: false,
            readable: true,
            hung_up: false,
            writable: true,
            recv: None,
            sending: false,
        }
    }

    /// Records the readiness signalled by an event.
    #[inline]
    pub(super) fn note(&mut self, flags: EventFlags) {
        let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        self.hung_up |= flags.intersects(end);
        self.readable |= flags.intersects(EventFlags::IN | end);
        self.writable |= flags.intersects(EventFlags::OUT | end);
    }

    #[inline(always)]
    pub(super) fn try_recv(&mut self, scratch: &mut [u8]) -> Option<Received> {
        if !self.readable {
            return None;
        }
        let received = sock::recv_now(self.fd.as_fd(), scratch);
        self.readable = match received {
            None => false,
            // After a hang-up the end of the stream is unread, and no further edge signals it.
            Some(Received::Data { drained: true, .. }) => self.hung_up,
            Some(_) => true,
        };
        received
    }

    #[inline(always)]
    pub(super) fn try_send(&mut self, bytes: &[u8], more: bool) -> Option<Result<usize, Errno>> {
        if !self.writable {
            return None;
        }
        let result = sock::send_now(self.fd.as_fd(), bytes, more);
        self.writable = result.is_some();
        result
    }
}
