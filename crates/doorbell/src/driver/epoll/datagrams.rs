//! Datagram sockets of the epoll driver: one batch per readiness event.
//!
//! Sockets are watched level-triggered: a socket whose queue is not empty after a batch is reported
//! again by the next wait (D-16).

use rustix::event::epoll;

use super::{Completion, Epoll, Errno, Source};
use crate::id::DatagramIndex;

impl Epoll {
    pub(super) fn watch_datagrams(&mut self, socket: DatagramIndex) {
        let Some(open) = self.datagrams.get(socket) else { return };
        if self.datagrams_armed.contains(&socket) {
            return;
        }
        match epoll::add(&self.epoll, &open.fd, Source::Datagrams(socket).pack(), self.listener_flags) {
            Ok(()) => self.datagrams_armed.push(socket),
            Err(errno) => self.made.push_back(Completion::DatagramsEnded { socket, errno: Some(errno) }),
        }
    }

    pub(super) fn unwatch_datagrams(&mut self, socket: DatagramIndex, errno: Option<Errno>) {
        let Some(at) = self.datagrams_armed.iter().position(|armed| *armed == socket) else { return };
        self.datagrams_armed.swap_remove(at);
        if let Some(open) = self.datagrams.get(socket) {
            // Deleting cannot fail, because an armed socket is registered with epoll.
            let _not_there = epoll::delete(&self.epoll, &open.fd);
        }
        self.made.push_back(Completion::DatagramsEnded { socket, errno });
    }

    /// Receives a batch after a readiness event.
    pub(super) fn recv_datagrams(&mut self, socket: DatagramIndex) -> Option<Completion> {
        if !self.datagrams_armed.contains(&socket) {
            // The readiness event preceded a disarm in this turn.
            return None;
        }
        match self.datagrams.recv(socket)? {
            Ok((len, _)) => Some(Completion::Datagrams { socket, len }),
            Err(errno) => {
                self.unwatch_datagrams(socket, Some(errno));
                self.made.pop_front()
            }
        }
    }
}
