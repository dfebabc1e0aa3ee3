//! Removal of a connection from the ring: with its ordinary descriptor, or with an ordinary
//! descriptor that is created for its direct descriptor. Adoption of a connection that another
//! driver has released.

use std::os::fd::{AsFd, OwnedFd};

use doorbell_ring::{Op, Token};
use rustix::io::Errno;

use super::socket::{Handle, Installed, Poll, Socket};
use super::{Uring, conn_of, errno_of, token_of};
use crate::driver::{Completion, Driver as _, Step, sock};
use crate::id::{ConnId, SlotIndex};

impl Uring {
    pub(super) fn begin_detach(&mut self, conn: ConnId) -> Step<Result<OwnedFd, Errno>> {
        let can_install = self.ring.report().fd_install;
        let socket = self.socket(conn);
        debug_assert!(!socket.recv && !socket.send, "D-11: nothing is in flight at a detach");
        match (&socket.handle, socket.poll) {
            (Handle::Direct(_), _) if !can_install => Step::Done(Err(Errno::OPNOTSUPP)),
            (Handle::Direct(_), _) => {
                self.ring.install_fixed(token_of(conn), conn.slot.0);
                Step::Pending
            }
            // An armed poll would keep the socket open after the next owner closes the descriptor.
            (Handle::Ordinary(_), Poll::Armed) => {
                socket.poll = Poll::Leaving;
                self.ring.cancel(Op::PollConn, token_of(conn));
                Step::Pending
            }
            (Handle::Ordinary(_), _) => Step::Done(self.take_away(conn.slot)),
        }
    }

    /// Takes the ordinary descriptor of a slot and frees the slot.
    pub(super) fn take_away(&mut self, slot: SlotIndex) -> Result<OwnedFd, Errno> {
        let cell = &mut self.sockets[slot.index()];
        if let Some(Socket { handle: Handle::Ordinary(fd), poll, .. }) = cell {
            *poll = Poll::Off;
            sock::set_non_blocking(fd.as_fd(), true)?;
        }
        let Some(Socket { handle: Handle::Ordinary(fd), .. }) = cell.take() else {
            unreachable!("only ordinary descriptors are taken away");
        };
        self.free.give_back(slot);
        Ok(fd)
    }

    /// Takes the ordinary descriptor of a new connection and frees its slot.
    pub(super) fn take_new(&mut self, slot: SlotIndex) -> Option<OwnedFd> {
        let is_new = |socket: &mut Socket| {
            debug_assert!(socket.poll == Poll::Off && !socket.recv && !socket.send, "D-20: not used yet");
            matches!(socket.handle, Handle::Ordinary(_))
        };
        let Handle::Ordinary(fd) = self.sockets[slot.index()].take_if(is_new)?.handle else { return None };
        self.free.give_back(slot);
        Some(fd)
    }

    /// Takes a slot for a connection that another driver has released.
    pub(super) fn admit_passed(&mut self, fd: OwnedFd) -> Option<SlotIndex> {
        if self.direct {
            // The kernel assigns the slots of direct descriptors (I-4).
            self.accepts_dropped += 1;
            return None;
        }
        // This cannot fail on an open descriptor.
        let _done = sock::set_non_blocking(fd.as_fd(), false);
        self.admit_fd(fd)
    }

    /// Starts to create an ordinary descriptor for a direct descriptor, if the kernel supports
    /// that. True while the creation is in progress.
    pub(super) fn install_ordinary(&mut self, conn: ConnId) -> bool {
        let can_install = self.ring.report().fd_install;
        match &mut self.socket(conn).handle {
            Handle::Direct(Installed::Requested) => true,
            Handle::Direct(installed @ Installed::None) if can_install => {
                *installed = Installed::Requested;
                self.ring.install_fixed(token_of(conn), conn.slot.0);
                true
            }
            Handle::Direct(_) | Handle::Ordinary(_) => false,
        }
    }

    /// Handles the result of creating an ordinary descriptor for a direct descriptor.
    pub(super) fn on_installed(
        &mut self,
        token: Token,
        result: Result<OwnedFd, doorbell_ring::Errno>,
    ) -> Option<Completion> {
        // Installations of the same socket complete in the order of their requests.
        match &mut self.sockets.get_mut(token.slot as usize)?.as_mut()?.handle {
            Handle::Direct(installed @ Installed::Requested) => {
                *installed = result.map_or(Installed::Failed, Installed::Here);
                None
            }
            Handle::Direct(installed @ Installed::Closing) => {
                *installed = Installed::None;
                drop(result);
                match self.close(conn_of(token)) {
                    Step::Done(()) => Some(Completion::Closed { conn: conn_of(token) }),
                    Step::Pending => None,
                }
            }
            Handle::Direct(_) | Handle::Ordinary(_) => self.on_detachable(token, result),
        }
    }

    /// Frees the entry of the connection in the fixed-file table: the connection continues on its
    /// ordinary descriptor.
    fn on_detachable(
        &mut self,
        token: Token,
        result: Result<OwnedFd, doorbell_ring::Errno>,
    ) -> Option<Completion> {
        let conn = conn_of(token);
        let cell = self.sockets.get_mut(token.slot as usize)?;
        let installed =
            result.map_err(errno_of).and_then(|fd| sock::set_non_blocking(fd.as_fd(), true).map(|()| fd));
        let fd = match (installed, cell) {
            (Ok(fd), Some(socket)) if !self.tuning.skip_success => {
                socket.handle = Handle::Ordinary(fd);
                self.ring.close_fixed(token, token.slot);
                return None;
            }
            (Ok(fd), cell) => {
                *cell = None;
                fd
            }
            (Err(errno), _) => return Some(Completion::Detached { conn, result: Err(errno) }),
        };
        self.ring.close_fixed_quietly(token, token.slot);
        Some(Completion::Detached { conn, result: Ok(fd) })
    }
}
