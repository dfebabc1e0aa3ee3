//! Connections that the worker handed over or released: how they leave it, and what their next
//! owner can do with them.
//!
//! The descriptor of a simulated connection is one end of a socket pair, from which its peer's
//! number can be read.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use doorbell::driver::{Completion, Errno, Step};
use doorbell::id::{ConnId, ListenerIndex, SlotIndex};

use super::events::{Event, Ready};
use super::faults::FaultKind;
use super::peer::{PeerIndex, PeerState};
use super::world::World;

/// Creates a descriptor from which the peer's number can be read.
fn descriptor(index: PeerIndex) -> OwnedFd {
    let (ours, mut theirs) = UnixStream::pair().expect("a socket pair");
    theirs.write_all(&(index.0 as u64).to_ne_bytes()).expect("8 bytes fit into a socket");
    ours.into()
}

impl World {
    pub(super) fn detach(&mut self, conn: ConnId) -> Step<Result<OwnedFd, Errno>> {
        self.claim(conn);
        let slot = &self.slots[conn.slot.index()];
        assert!(
            !slot.recv_busy && !slot.send_busy && !slot.close_busy,
            "D-11: a detach is the last and only operation: {conn:?}"
        );
        if self.rng.hits(self.config.at_once_millionths) {
            let result = self.take_away(conn);
            if result.is_ok() {
                self.release(conn);
            }
            return Step::Done(result);
        }
        let after = self.micros(0..300);
        self.schedule(after, Event::DetachNow { conn });
        self.slots[conn.slot.index()].close_busy = true;
        Step::Pending
    }

    pub(super) fn detach_now(&mut self, conn: ConnId) {
        let result = self.take_away(conn);
        self.complete(Ready::Plain(Completion::Detached { conn, result }));
    }

    fn take_away(&mut self, conn: ConnId) -> Result<OwnedFd, Errno> {
        let index = self.peer_of(conn.slot);
        if self.injects_at_peer(FaultKind::DetachRefused, index) {
            return Err(Errno::MFILE);
        }
        self.note(|| format!("detach of {conn:?}: {index:?}"));
        let now = self.now();
        let peer = &mut self.peers[index.0];
        peer.place = PeerState::Handed;
        peer.log.handed_at = Some(now);
        peer.log.closed_at = Some(now);
        Ok(descriptor(index))
    }

    pub(super) fn release_new(&mut self, slot: SlotIndex) -> OwnedFd {
        let index = self.peer_of(slot);
        let held = &mut self.slots[slot.index()];
        let is_used = held.conn.is_some() || held.recv_busy || held.send_busy || held.close_busy;
        assert!(!is_used, "D-20: a released connection was not used: {slot:?}");
        held.peer = None;
        self.note(|| format!("release of {slot:?}: {index:?}"));
        self.peers[index.0].place = PeerState::Handed;
        self.free.push(slot);
        for listener in 0..self.listeners.len() {
            self.pump_accept(ListenerIndex(u16::try_from(listener).expect("few listeners")));
        }
        descriptor(index)
    }

    pub(super) fn adopt(&mut self, fd: OwnedFd) -> Option<SlotIndex> {
        let index = Self::handed_peer(fd);
        let Some(slot) = self.free.pop() else {
            self.violations.push(format!("D-20: no slot is free for {index:?}"));
            return None;
        };
        self.note(|| format!("{index:?} adopted into {slot:?}"));
        self.peers[index.0].place = PeerState::Slot(slot);
        let held = &mut self.slots[slot.index()];
        held.peer = Some(index);
        held.conn = None;
        Some(slot)
    }

    /// The peer of a handed-over descriptor. Can be called once per descriptor.
    pub fn handed_peer(fd: OwnedFd) -> PeerIndex {
        let mut number = [0; 8];
        UnixStream::from(fd).read_exact(&mut number).expect("the number was written");
        PeerIndex(usize::try_from(u64::from_ne_bytes(number)).expect("an index of this process"))
    }

    /// Reads available bytes as the new owner; also returns whether the peer has ended its side.
    pub fn handed_recv(&mut self, index: PeerIndex) -> (Vec<u8>, bool) {
        let peer = &mut self.peers[index.0];
        assert_eq!(peer.place, PeerState::Handed, "{index:?} was handed over and is open");
        (peer.rx.drain(..).collect(), peer.rx_fin || peer.broken.is_some())
    }

    /// Sends as the new owner, regardless of the peer's window.
    pub fn handed_send(&mut self, index: PeerIndex, bytes: &[u8]) {
        assert_eq!(self.peers[index.0].place, PeerState::Handed, "{index:?} was handed over and is open");
        if self.peers[index.0].broken.is_none() {
            self.take_sent(index, bytes, false);
        }
    }

    /// Closes the connection as the new owner.
    pub fn handed_close(&mut self, index: PeerIndex) {
        assert_eq!(self.peers[index.0].place, PeerState::Handed, "{index:?} was handed over and is open");
        self.close_on_wire(index);
    }
}
