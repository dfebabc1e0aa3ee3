//! New connections: their slot, the cap per address, and the preparations for the first call of
//! their protocol.
//!
//! Does not know about: when listeners accept (see [`super::tend`]), the steps after admission (see
//! [`super::apply`]).

use doorbell_http::{Client, Next, Peer};

use super::handler_call::Input;
use super::ip_cap::Counting;
use super::{Todo, Worker};
use crate::conn::{AfterSend, Arriving};
use crate::driver::{Driver, Expect, Received, Step};
use crate::error::CloseReason;
use crate::id::{ConnId, ListenerIndex, SlotIndex};
use crate::protocol::Protocol as _;
use crate::time::Clock;

impl<D: Driver, C: Clock> Worker<D, C> {
    #[inline(always)]
    pub(super) fn on_accepted(&mut self, listener: ListenerIndex, slot: SlotIndex) {
        self.gates[listener.index()].on_accepted();
        if self.server.arrivals[listener.index()].is_plain {
            self.accept_first(listener, slot);
        } else {
            self.pass_or_admit(listener, slot);
        }
    }

    #[inline(never)]
    fn pass_or_admit(&mut self, listener: ListenerIndex, slot: SlotIndex) {
        if !(self.server.arrivals[listener.index()].is_balanced && self.pass_to_other(listener, slot)) {
            self.admit(listener, slot);
        }
    }

    /// Sets up a connection that this worker serves.
    #[inline(never)]
    pub(super) fn admit(&mut self, listener: ListenerIndex, slot: SlotIndex) {
        let arrival = &self.server.arrivals[listener.index()];
        if arrival.starts_with_request() {
            return self.accept_first(listener, slot);
        }
        let (arriving, speaks_first, needs_addr_first) =
            (arrival.arriving, arrival.speaks_first, arrival.needs_addr_first());
        let id = self.take_slot(listener, slot);
        self.table.live_mut(id).arriving = arriving;
        if needs_addr_first {
            self.learn_client(id);
        }
        if !self.counts_in(id) {
            let step = self.driver.recv(id, Expect::Now);
            return self.refuse(id, step);
        }
        if speaks_first && self.table.live_mut(id).arriving != Arriving::Header {
            let next = self.pass_input(id, Input::Greet);
            return self.drive(id, Todo::Next(next));
        }
        self.begin(id);
    }

    /// Takes the slot of a new connection.
    pub(super) fn take_slot(&mut self, listener: ListenerIndex, slot: SlotIndex) -> ConnId {
        let id = self.table.open(slot, listener, self.now);
        self.gates[listener.index()].on_placed();
        if self.admission.fills(self.table.live()) {
            self.shared.counters.table_full.add(1);
            self.disarm_gates();
        }
        id
    }

    /// Counts the connection's address if counting is on. Returns false if the address is over its
    /// cap.
    pub(super) fn counts_in(&mut self, id: ConnId) -> bool {
        match self.ip_cap.on_accept(&self.server.ip_table, self.table.live()) {
            Counting::Off => return true,
            Counting::On => {}
            Counting::Start => self.for_each_live(|worker, other| {
                if other != id && worker.table.live_mut(other).ip_cell.is_none() {
                    // The connection was open before counting began, so it stays open even if its
                    // address is over the cap.
                    let _stays = worker.count(other);
                }
            }),
        }
        self.count(id)
    }

    fn count(&mut self, id: ConnId) -> bool {
        let conn = self.table.live_mut(id);
        let arrival = &self.server.arrivals[conn.listener.index()];
        if arrival.awaits_trusted_header(conn) {
            // The client is counted once its address is known.
            return true;
        }
        let addr = match arrival.client(|| self.driver.peer_addr(id)).peer {
            Peer::Addr(addr) => addr,
            Peer::Unix => return true,
            Peer::Unknown => {
                if matches!(conn.arriving, Arriving::Addr | Arriving::Done) && !conn.has_received {
                    conn.arriving = Arriving::Header;
                }
                return true;
            }
        };
        let entered = self.server.ip_table.enter(addr);
        let (Ok(cell) | Err(cell)) = entered;
        self.table.live_mut(id).ip_cell = Some(cell);
        entered.is_ok()
    }

    /// Refuses a connection over the cap of its address. `step` is its first receive.
    pub(super) fn refuse(&mut self, id: ConnId, step: Step<Received>) {
        match step {
            Step::Done(Received::Data { chunk, drained }) => {
                self.shared.counters.bytes_in.add(u64::from(chunk.len));
                self.driver.recycle(chunk);
                let conn = self.table.live_mut(id);
                if conn.arriving == Arriving::Header {
                    // A peer that is not trusted gets no reply.
                    return self.drive(id, Todo::Close(CloseReason::PerIpCap));
                }
                conn.drained = drained;
                // The protocol's next step is ignored: the connection of a client over the cap
                // lingers only if input is unread.
                let _next = self.pass_input(id, Input::Overload(CloseReason::PerIpCap));
                self.drive(id, Todo::Next(Next::CloseClean));
            }
            Step::Done(Received::Eof | Received::Failed(_)) => {
                self.drive(id, Todo::Close(CloseReason::PerIpCap))
            }
            Step::Pending => {
                let conn = self.table.live_mut(id);
                conn.recv_in_flight = true;
                if conn.arriving == Arriving::Header {
                    return self.drive(id, Todo::Close(CloseReason::PerIpCap));
                }
                // No bytes have arrived, but a request may be on its way. So the refusal is sent
                // before the close.
                let _next = self.pass_input(id, Input::Overload(CloseReason::PerIpCap));
                let conn = self.table.live_mut(id);
                conn.after_send = AfterSend::Close;
                conn.linger_bytes_left = self.server.limits.linger_bytes_max;
                self.drive(id, Todo::Flush);
            }
        }
    }

    #[cold]
    pub(super) fn learn_client(&mut self, id: ConnId) {
        let conn = self.table.live_mut(id);
        let arrival = &self.server.arrivals[conn.listener.index()];
        let client =
            if arrival.wants_addr { arrival.client(|| self.driver.peer_addr(id)) } else { Client::UNKNOWN };
        conn.client = client.with_listener(conn.listener.0);
        if arrival.has_ids {
            let protocol = &self.server.protocols[conn.listener.index()];
            let opened = conn.deadline;
            protocol.identify(conn.protocol.get_or_insert_with(|| protocol.open(opened)), id);
        }
        let (call, conn, _) = self.parts(id);
        call.expect_header(conn);
    }
}
