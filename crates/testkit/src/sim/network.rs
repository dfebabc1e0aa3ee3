//! Peers and the network: run scripts, transfer segments, fill and drain windows, respond with RST.

use core::time::Duration;

use doorbell::driver::Errno;
use doorbell::id::{ListenerIndex, SlotIndex};

use super::events::{Event, WireEnd};
use super::faults::FaultKind;
use super::peer::{OwnEnd, PeerIndex, PeerState, PeerStep, Reading, ResetCause};
use super::world::World;

/// How long the kernel holds back a partial segment sent with `MSG_MORE` (tcp(7), `TCP_CORK`).
const CORK_TIMEOUT: Duration = Duration::from_millis(200);

/// Payload of a full segment on Ethernet.
const SEGMENT_LEN: usize = 1448;

impl World {
    /// Connects the peer if it is not connected, then continues its script.
    pub(super) fn peer_next(&mut self, index: PeerIndex) {
        if self.peers[index.0].place == PeerState::Away {
            self.connect(index);
        }
        loop {
            let peer = &mut self.peers[index.0];
            if peer.is_closed_or_reset() || peer.log.is_over() && !peer.ignores_fin {
                peer.script.clear();
                return;
            }
            let Some(step) = peer.script.pop_front() else { return };
            match step {
                PeerStep::Await(test) => {
                    if !test(&peer.log.received) {
                        peer.script.push_front(PeerStep::Await(test));
                        peer.awaiting = true;
                        return;
                    }
                }
                PeerStep::Wait(time) => {
                    self.schedule(time, Event::PeerNext(index));
                    return;
                }
                PeerStep::Send(bytes) => self.peer_send(index, bytes, None),
                PeerStep::SendAndFin(bytes) => {
                    self.faults.count(FaultKind::DataWithFin);
                    self.end_own(index, OwnEnd::HalfClosed);
                    self.peer_send(index, bytes, Some(WireEnd::Fin));
                }
                PeerStep::HalfClose => {
                    self.end_own(index, OwnEnd::HalfClosed);
                    self.peer_send(index, Vec::new(), Some(WireEnd::Fin));
                }
                PeerStep::Leave => {
                    let unread = !self.peers[index.0].inbox.is_empty();
                    self.end_own(index, OwnEnd::Closed);
                    let end = if unread { WireEnd::Reset } else { WireEnd::Fin };
                    self.peer_send(index, Vec::new(), Some(end));
                }
                PeerStep::Reset => {
                    self.end_own(index, OwnEnd::Reset);
                    self.peer_send(index, Vec::new(), Some(WireEnd::Reset));
                }
            }
        }
    }

    /// Appends a step to a peer's script; for tests that drive a peer by hand.
    pub fn push_step(&mut self, index: PeerIndex, step: PeerStep) {
        self.peers[index.0].script.push_back(step);
        self.schedule(Duration::ZERO, Event::PeerNext(index));
    }

    fn connect(&mut self, index: PeerIndex) {
        let now = self.now();
        let listener = self.peers[index.0].listener;
        let peer = &mut self.peers[index.0];
        peer.log.connected_at = Some(now);
        if !self.listeners[listener.index()].open {
            peer.log.refused = true;
            peer.place = PeerState::Closed;
            return;
        }
        peer.place = PeerState::Backlog;
        self.listeners[listener.index()].backlog.push_back(index);
        self.note(|| format!("{index:?} connected"));
        self.pump_accept(listener);
        if self.injects_at_peer(FaultKind::RecvEof, index) {
            self.peers[index.0].script.clear();
            self.end_own(index, OwnEnd::HalfClosed);
            self.peer_send(index, Vec::new(), Some(WireEnd::Fin));
        }
    }

    fn end_own(&mut self, index: PeerIndex, how: OwnEnd) {
        let now = self.now();
        self.note(|| format!("{index:?} {how:?}"));
        let log = &mut self.peers[index.0].log;
        // A half-close does not override an earlier close or reset by the peer.
        if !matches!(log.own_end, Some((_, OwnEnd::Closed | OwnEnd::Reset))) {
            log.own_end = Some((now, how));
        }
    }

    fn peer_send(&mut self, index: PeerIndex, bytes: Vec<u8>, end: Option<WireEnd>) {
        let latency = self.micros(5..500);
        let now = self.now();
        let peer = &mut self.peers[index.0];
        peer.log.first_sent_at.get_or_insert(now);
        peer.log.last_sent_at = Some(now);
        let at = peer.to_server_at.max(now + u64::try_from(latency.as_nanos()).unwrap_or(0));
        peer.to_server_at = at;
        self.schedule_at(at, Event::ToServer { peer: index, bytes, end });
    }

    pub(super) fn arrive_at_server(&mut self, index: PeerIndex, bytes: &[u8], end: Option<WireEnd>) {
        self.note(|| format!("{index:?} -> server: {} bytes {end:?}", bytes.len()));
        let peer = &mut self.peers[index.0];
        if peer.place == PeerState::Closed {
            if !bytes.is_empty() {
                self.reset_peer(index, ResetCause::ArrivedAfterClose);
            }
            return;
        }
        if end == Some(WireEnd::Reset) {
            peer.rx.clear();
            peer.broken = Some(Errno::CONNRESET);
        } else {
            peer.rx.extend(bytes);
            peer.rx_fin |= end == Some(WireEnd::Fin);
        }
        // Ends the driver's wait, so that the test can act as the new owner.
        self.alarmed |= self.peers[index.0].place == PeerState::Handed;
        self.retry_pending(index);
    }

    /// Retries the pending operations of a peer's connection.
    pub(super) fn retry_pending(&mut self, index: PeerIndex) {
        if let PeerState::Slot(slot) = self.peers[index.0].place {
            self.recv_try(slot);
            self.send_try(slot);
        }
    }

    /// Transmits the bytes that the server's kernel holds back, with FIN if requested.
    pub(super) fn transmit(&mut self, index: PeerIndex, fin: bool) {
        let latency = self.micros(5..500);
        let now = self.now();
        let peer = &mut self.peers[index.0];
        let bytes = core::mem::take(&mut peer.corked);
        if bytes.is_empty() && !fin {
            return;
        }
        let at = peer.to_peer_at.max(now + u64::try_from(latency.as_nanos()).unwrap_or(0));
        peer.to_peer_at = at;
        self.schedule_at(at, Event::ToPeer { peer: index, bytes, fin });
    }

    /// Handles bytes accepted by a `send`: holds them back if `more` is set, otherwise
    /// transmits them.
    pub(super) fn take_sent(&mut self, index: PeerIndex, bytes: &[u8], more: bool) {
        let now = self.now();
        let peer = &mut self.peers[index.0];
        peer.log.last_taken_at = Some(now);
        peer.corked.extend_from_slice(bytes);
        peer.unread_len += bytes.len();
        // Only a partial segment is held back, and only while the window has room (tcp(7),
        // `TCP_CORK`).
        if more && peer.corked.len() < SEGMENT_LEN && peer.window_free() > 0 {
            peer.cork_serial += 1;
            let serial = peer.cork_serial;
            self.schedule(CORK_TIMEOUT, Event::CorkTimer { peer: index, serial });
        } else {
            self.transmit(index, false);
        }
    }

    pub(super) fn cork_timeout(&mut self, index: PeerIndex, serial: u64) {
        if self.peers[index.0].cork_serial == serial {
            self.transmit(index, false);
        }
    }

    pub(super) fn arrive_at_peer(&mut self, index: PeerIndex, bytes: &[u8], fin: bool) {
        self.note(|| format!("server -> {index:?}: {} bytes fin={fin}", bytes.len()));
        let peer = &mut self.peers[index.0];
        if peer.is_closed_or_reset() {
            if !bytes.is_empty() && peer.place != PeerState::Closed {
                peer.broken = Some(Errno::CONNRESET);
                peer.rx.clear();
                self.retry_pending(index);
            }
            return;
        }
        peer.log.fin_with_data |= fin && !bytes.is_empty();
        peer.inbox.extend(bytes);
        peer.inbox_fin |= fin;
        match peer.reading {
            Reading::Eager => self.peer_read(index),
            Reading::Never => {}
            Reading::Slow { every, .. } => {
                if !peer.read_scheduled {
                    peer.read_scheduled = true;
                    self.schedule(every, Event::PeerRead(index));
                }
            }
        }
    }

    pub(super) fn peer_read(&mut self, index: PeerIndex) {
        let now = self.now();
        let peer = &mut self.peers[index.0];
        peer.read_scheduled = false;
        if peer.is_closed_or_reset() {
            return;
        }
        let len = match peer.reading {
            Reading::Eager | Reading::Never => peer.inbox.len(),
            Reading::Slow { len, .. } => len.min(peer.inbox.len()),
        };
        peer.log.received.extend(peer.inbox.drain(..len));
        peer.unread_len -= len;
        if len > 0 {
            peer.log.first_received_at.get_or_insert(now);
            peer.log.last_received_at = Some(now);
        }
        if peer.inbox.is_empty() && peer.inbox_fin {
            peer.log.fin_at.get_or_insert(now);
        }
        if let (Reading::Slow { every, .. }, false) = (peer.reading, peer.inbox.is_empty()) {
            peer.read_scheduled = true;
            self.schedule(every, Event::PeerRead(index));
        }
        let awaiting = core::mem::take(&mut self.peers[index.0].awaiting);
        if awaiting || self.peers[index.0].log.is_over() {
            self.schedule(Duration::ZERO, Event::PeerNext(index));
        }
        if let PeerState::Slot(slot) = self.peers[index.0].place {
            self.send_try(slot);
        }
    }

    /// Lets a peer read all arrived bytes, whatever its reading mode; for tests that drive a peer
    /// by hand.
    pub fn read_now(&mut self, index: PeerIndex) {
        let reading = core::mem::replace(&mut self.peers[index.0].reading, Reading::Eager);
        self.peer_read(index);
        self.peers[index.0].reading = reading;
    }

    /// Sends RST from the server. Bytes that the peer has not read are lost, as on systems that
    /// discard received bytes when RST arrives.
    pub(super) fn reset_peer(&mut self, index: PeerIndex, cause: ResetCause) {
        let now = self.now();
        let peer = &mut self.peers[index.0];
        if peer.is_closed_or_reset() || peer.log.fin_at.is_some() && peer.log.own_end.is_some() {
            return;
        }
        peer.log.reset = Some((now, cause));
        peer.log.bytes_lost += peer.unread_len;
        peer.script.clear();
        self.note(|| format!("server RST -> {index:?}: {cause:?}"));
    }

    /// The effect of `close(2)` on the wire.
    pub(super) fn close_on_wire(&mut self, index: PeerIndex) {
        let now = self.now();
        let peer = &mut self.peers[index.0];
        peer.place = PeerState::Closed;
        peer.log.closed_at = Some(now);
        if peer.broken.is_some() {
            // The connection is already broken: the peer gets a reset, unless it has left or the
            // server has ended the connection before.
            if !peer.is_closed_or_reset() && !peer.log.ended_by_server() {
                peer.log.reset = Some((now, ResetCause::ServerGone));
                peer.script.clear();
            }
            return;
        }
        if peer.reset_on_close {
            self.reset_peer(index, ResetCause::Requested);
        } else if peer.rx.is_empty() {
            if !peer.tx_fin {
                peer.tx_fin = true;
                self.transmit(index, true);
            }
        } else {
            self.reset_peer(index, ResetCause::UnreadAtClose);
        }
    }

    pub(super) fn peer_of(&self, slot: SlotIndex) -> PeerIndex {
        self.slots[slot.index()].peer.expect("I-3: an operation names a live slot")
    }

    /// Closes a listening socket: waiting clients are reset, as without `tcp_migrate_req`
    /// (ip-sysctl).
    pub(super) fn close_listening(&mut self, listener: ListenerIndex) {
        self.listeners[listener.index()].open = false;
        while let Some(peer) = self.listeners[listener.index()].backlog.pop_front() {
            self.peers[peer.0].place = PeerState::Closed;
            self.reset_peer(peer, ResetCause::ServerGone);
        }
    }
}
