//! Operations of a simulated connection: the kernel between a call and its completion.
//!
//! Does not know about: listeners, scripts; `network` carries the data.

use core::time::Duration;

use doorbell::driver::{Completion, Errno, Expect, Received, SendBuf, Sent, Step};
use doorbell::id::{ConnId, SlotIndex};

use super::events::{Event, Ready};
use super::faults::FaultKind;
use super::peer::{PeerIndex, PeerState};
use super::world::{PendingRecv, PendingSend, Unsent, World};

/// Result of a receive.
#[derive(Debug)]
pub(super) enum Found {
    Bytes { bytes: Vec<u8>, drained: bool },
    End,
    Error(Errno),
}

/// The port of every peer.
const PEER_PORT: u16 = 40_000;

impl World {
    pub(super) fn recv(&mut self, conn: ConnId, expect: Expect) -> Step<Found> {
        self.claim(conn);
        let slot = &mut self.slots[conn.slot.index()];
        assert!(
            !slot.recv_busy && !slot.close_busy,
            "I-2: one recv in flight, and none after a close: {conn:?}"
        );
        let at_once =
            self.rng.hits(self.config.at_once_millionths) || expect == Expect::Now && self.rng.hits(500_000);
        if at_once && self.peers[self.peer_of(conn.slot).0].readable() {
            return Step::Done(self.take_received(conn.slot));
        }
        let serial = self.next_serial();
        let slot = &mut self.slots[conn.slot.index()];
        slot.recv_busy = true;
        slot.recv = Some(PendingRecv { conn, serial });
        let after = self.micros(0..20);
        self.schedule(after, Event::RecvTry(conn.slot));
        Step::Pending
    }

    pub(super) fn recv_try(&mut self, slot: SlotIndex) {
        let Some(peer) = self.slots[slot.index()].peer else { return };
        if !self.peers[peer.0].readable() {
            return;
        }
        if let Some(op) = self.slots[slot.index()].recv.take() {
            let found = self.take_received(slot);
            self.complete_recv(op.conn, found);
        }
    }

    fn complete_recv(&mut self, conn: ConnId, found: Found) {
        self.note(|| format!("recv of {conn:?}: {}", found.summary()));
        let ready = match found {
            Found::Bytes { bytes, drained } => Ready::Data { conn, bytes, drained },
            Found::End => Ready::Plain(Completion::Received { conn, received: Received::Eof }),
            Found::Error(errno) => {
                Ready::Plain(Completion::Received { conn, received: Received::Failed(errno) })
            }
        };
        self.complete(ready);
    }

    fn take_received(&mut self, slot: SlotIndex) -> Found {
        let index = self.peer_of(slot);
        if let Some(errno) = self.peers[index.0].broken {
            return Found::Error(errno);
        }
        for (kind, errno) in
            [(FaultKind::RecvReset, Errno::CONNRESET), (FaultKind::RecvTimedOut, Errno::TIMEDOUT)]
        {
            if self.injects_at_peer(kind, index) {
                self.break_conn(index, errno);
                return Found::Error(errno);
            }
        }
        for (kind, errno) in
            [(FaultKind::RecvInterrupted, Errno::INTR), (FaultKind::RecvNoBufs, Errno::NOBUFS)]
        {
            if self.injects_at_peer(kind, index) {
                return Found::Error(errno);
            }
        }
        let mut len = self.peers[index.0].rx.len().min(self.config.recv_buf_len);
        if len == 0 {
            return Found::End;
        }
        if len > 1 && self.injects(FaultKind::RecvOneByte) {
            len = 1;
        }
        let rx = &mut self.peers[index.0].rx;
        let bytes: Vec<u8> = rx.drain(..len).collect();
        // Like a readiness driver: a full buffer does not show whether more is available.
        let drained = rx.is_empty() && len < self.config.recv_buf_len;
        Found::Bytes { bytes, drained }
    }

    /// The network breaks a connection: neither side receives anything further.
    fn break_conn(&mut self, index: PeerIndex, errno: Errno) {
        let peer = &mut self.peers[index.0];
        peer.broken = Some(errno);
        peer.rx.clear();
    }

    /// Like `send`, for borrowed bytes: completes immediately, or returns `None` without sending.
    pub(super) fn send_now(
        &mut self,
        conn: ConnId,
        bytes: &[u8],
        more: bool,
    ) -> Option<Result<usize, Errno>> {
        self.may_send(conn, bytes);
        if self.rng.hits(self.config.at_once_millionths) {
            self.try_send(conn.slot, bytes, more)
        } else {
            None
        }
    }

    /// Checks the contract's conditions for sending.
    fn may_send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.claim(conn);
        let slot = &self.slots[conn.slot.index()];
        assert!(
            !slot.send_busy && !slot.close_busy,
            "I-2: one send in flight, and none after a close: {conn:?}"
        );
        assert!(!bytes.is_empty(), "a send has something to send: {conn:?}");
        let peer = self.peer_of(conn.slot);
        assert!(!self.peers[peer.0].tx_fin, "nothing is sent after a FIN: {conn:?}");
    }

    pub(super) fn send(&mut self, conn: ConnId, buf: SendBuf, more: bool) -> Step<Sent> {
        self.may_send(conn, buf.remaining());
        let peer = self.peer_of(conn.slot);
        let delay = if self.injects_at_peer(FaultKind::SendDelayed, peer) {
            Duration::from_secs(60)
        } else if self.injects(FaultKind::SendPending) {
            self.micros(1..50_000)
        } else if self.rng.hits(self.config.at_once_millionths) {
            if let Some(result) = self.try_send(conn.slot, buf.remaining(), more) {
                return Step::Done(Sent { result, buf });
            }
            Duration::ZERO
        } else {
            self.micros(0..30)
        };
        let serial = self.next_serial();
        let not_before = self.now() + u64::try_from(delay.as_nanos()).unwrap_or(0);
        let slot = &mut self.slots[conn.slot.index()];
        slot.send_busy = true;
        slot.send = Some(PendingSend { conn, serial, buf, more, not_before });
        self.schedule(delay, Event::SendTry(conn.slot));
        Step::Pending
    }

    pub(super) fn send_try(&mut self, slot: SlotIndex) {
        let now = self.now();
        // As in TCP: a pending send is woken when a third of the buffer is free.
        let has_room = self.slots[slot.index()].peer.is_some_and(|peer| self.peers[peer.0].is_writable());
        let op = self.slots[slot.index()].send.take_if(|op| has_room && op.not_before <= now);
        let Some(op) = op else { return };
        match self.try_send(slot, op.buf.remaining(), op.more) {
            Some(result) => self.complete_send(op.conn, Sent { result, buf: op.buf }),
            None => self.slots[slot.index()].send = Some(op),
        }
    }

    fn complete_send(&mut self, conn: ConnId, sent: Sent) {
        self.note(|| format!("send of {conn:?}: {:?}", sent.result));
        self.complete(Ready::Plain(Completion::Sent { conn, sent }));
    }

    /// The result of `send(2)`; `None` when the socket is full.
    fn try_send(&mut self, slot: SlotIndex, bytes: &[u8], more: bool) -> Option<Result<usize, Errno>> {
        let index = self.peer_of(slot);
        if self.peers[index.0].broken.is_some() {
            return Some(Err(Errno::PIPE));
        }
        for (kind, errno) in
            [(FaultKind::SendBrokenPipe, Errno::PIPE), (FaultKind::SendReset, Errno::CONNRESET)]
        {
            if self.injects_at_peer(kind, index) {
                self.break_conn(index, errno);
                return Some(Err(errno));
            }
        }
        let mut len = bytes.len().min(self.peers[index.0].window_free());
        if len == 0 {
            return None;
        }
        if len > 1 && self.injects(FaultKind::SendShort) {
            len = 1 + self.rng.index(len - 1);
        }
        self.take_sent(index, &bytes[..len], more);
        Some(Ok(len))
    }

    pub(super) fn shutdown_write(&mut self, conn: ConnId) {
        self.claim(conn);
        let slot = &self.slots[conn.slot.index()];
        assert!(!slot.send_busy && !slot.close_busy, "a FIN follows a finished send: {conn:?}");
        let index = self.peer_of(conn.slot);
        self.note(|| format!("shutdown_write of {conn:?}"));
        let peer = &mut self.peers[index.0];
        if peer.broken.is_none() && !peer.tx_fin {
            peer.tx_fin = true;
            self.transmit(index, true);
        }
    }

    pub(super) fn cancel(&mut self, conn: ConnId) {
        self.claim(conn);
        self.note(|| format!("cancel of {conn:?}"));
        let slot = &self.slots[conn.slot.index()];
        let serials = [slot.recv.as_ref().map(|op| op.serial), slot.send.as_ref().map(|op| op.serial)];
        for serial in serials.into_iter().flatten() {
            let after = self.micros(0..100);
            self.schedule(after, Event::Cancel { slot: conn.slot, serial });
        }
    }

    pub(super) fn cancel_now(&mut self, slot: SlotIndex, serial: u64) {
        if let Some(op) = self.slots[slot.index()].recv.take_if(|op| op.serial == serial) {
            let index = self.peer_of(slot);
            let lost = !self.peers[index.0].rx.is_empty() && self.injects(FaultKind::CancelLost);
            let found = if lost { self.take_received(slot) } else { Found::Error(Errno::CANCELED) };
            self.complete_recv(op.conn, found);
        }
        if let Some(op) = self.slots[slot.index()].send.take_if(|op| op.serial == serial) {
            let index = self.peer_of(slot);
            let lost = self.peers[index.0].window_free() > 0 && self.injects(FaultKind::CancelLost);
            let progress_at = self.peers[index.0].log.last_taken_at;
            let done = if lost { self.try_send(slot, op.buf.remaining(), op.more) } else { None };
            // These bytes are no progress for the worker: it has already decided to cancel.
            self.peers[index.0].log.last_taken_at = progress_at;
            let result = done.unwrap_or(Err(Errno::CANCELED));
            self.complete_send(op.conn, Sent { result, buf: op.buf });
        }
    }

    pub(super) fn reset_on_close(&mut self, conn: ConnId) {
        self.claim(conn);
        self.note(|| format!("reset_on_close of {conn:?}"));
        let index = self.peer_of(conn.slot);
        self.peers[index.0].reset_on_close = true;
    }

    pub(super) fn close(&mut self, conn: ConnId) -> Step<()> {
        self.claim(conn);
        let slot = &self.slots[conn.slot.index()];
        assert!(
            !slot.recv_busy && !slot.send_busy && !slot.close_busy,
            "D-6: a close is the last and only operation: {conn:?}"
        );
        let index = self.peer_of(conn.slot);
        if self.injects_at_peer(FaultKind::CloseDelayed, index) {
            let after = Duration::from_secs(self.rng.range(60..300));
            self.schedule(after, Event::CloseNow { slot: conn.slot });
        } else if self.peers[index.0].log.own_end.is_none()
            && self.injects_at_peer(FaultKind::DataAfterClose, index)
        {
            let len = self.rng.index(100) + 1;
            self.peers[index.0].rx.extend(core::iter::repeat_n(b'x', len));
            let after = self.micros(0..300);
            self.schedule(after, Event::CloseNow { slot: conn.slot });
        } else if self.rng.hits(self.config.at_once_millionths) {
            self.note(|| format!("close of {conn:?}"));
            self.close_on_wire(index);
            self.release(conn);
            return Step::Done(());
        } else {
            let after = self.micros(0..300);
            self.schedule(after, Event::CloseNow { slot: conn.slot });
        }
        self.slots[conn.slot.index()].close_busy = true;
        Step::Pending
    }

    pub(super) fn close_now(&mut self, slot: SlotIndex) {
        let conn = self.slots[slot.index()].conn.expect("a close names its connection");
        self.note(|| format!("close of {conn:?}"));
        let index = self.peer_of(slot);
        self.close_on_wire(index);
        self.complete(Ready::Plain(Completion::Closed { conn }));
    }

    /// Frees the slot: the worker has seen the completion of its close.
    pub(super) fn release(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn.slot.index()];
        slot.peer = None;
        slot.conn = None;
        slot.close_busy = false;
        slot.unsent_from = None;
        if slot.past.is_empty() {
            self.used.push(conn.slot);
        }
        slot.past.push_front(conn);
        slot.past.truncate(4);
        self.free.push(conn.slot);
        (0..self.listeners.len()).for_each(|index| {
            let index = u16::try_from(index).expect("listeners are counted in 16 bits");
            self.pump_accept(doorbell::id::ListenerIndex(index));
        });
    }

    pub(super) fn has_input(&self, conn: ConnId) -> Option<bool> {
        let slot = &self.slots[conn.slot.index()];
        // A receive that has completed and is not reported yet has taken the bytes.
        let is_received = slot.recv_busy && slot.recv.is_none();
        let is_readable = || is_received || slot.peer.is_some_and(|peer| self.peers[peer.0].readable());
        (self.config.unsent == Unsent::Known).then(is_readable)
    }

    pub(super) fn unsent(&self, conn: ConnId) -> Option<u32> {
        let slot = &self.slots[conn.slot.index()];
        let is_known = match self.config.unsent {
            Unsent::Hidden => false,
            Unsent::Known => true,
            Unsent::OnDemand => slot.unsent_from.is_some_and(|at| at <= self.now()),
        };
        let peer = slot.peer.filter(|_| is_known)?;
        u32::try_from(self.peers[peer.0].unread_len).ok()
    }

    pub(super) fn find_unsent(&mut self, conn: ConnId) -> bool {
        self.claim(conn);
        let after = self.now() + u64::try_from(self.micros(1..20).as_nanos()).unwrap_or(0);
        let slot = &mut self.slots[conn.slot.index()];
        if self.config.unsent == Unsent::OnDemand {
            slot.unsent_from.get_or_insert(after);
        }
        slot.unsent_from.is_some()
    }

    pub(super) fn peer_addr(&self, conn: ConnId) -> Option<core::net::SocketAddr> {
        let peer = self.slots[conn.slot.index()].peer?;
        let addr =
            (self.peers[peer.0].place == PeerState::Slot(conn.slot)).then_some(self.peers[peer.0].addr)?;
        Some((addr?, PEER_PORT).into())
    }

    /// The first operation of a connection sets its id; later ones must use the same id.
    pub(super) fn claim(&mut self, conn: ConnId) {
        let slot = &mut self.slots[conn.slot.index()];
        assert!(slot.peer.is_some(), "I-3: an operation names a live slot: {conn:?}");
        let known = *slot.conn.get_or_insert(conn);
        assert_eq!(known, conn, "I-5: an operation names the slot's current use");
        assert!(!slot.past.contains(&conn), "I-5: a generation is not used twice in a row: {conn:?}");
    }
}

impl Found {
    fn summary(&self) -> String {
        match self {
            Self::Bytes { bytes, drained } => format!("{} bytes, drained={drained}", bytes.len()),
            Self::End => "end".to_owned(),
            Self::Error(errno) => format!("{errno:?}"),
        }
    }
}
