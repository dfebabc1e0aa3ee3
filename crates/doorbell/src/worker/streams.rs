//! Messages of other threads to connections of stream protocols, and the notification of a protocol
//! that a connection has ended.

use super::handler_call::Input;
use super::{Todo, Worker};
use crate::conn::Phase;
use crate::driver::Driver;
use crate::error::CloseReason;
use crate::id::{ConnId, ListenerIndex};
use crate::panics::caught;
use crate::protocol::Protocol as _;
use crate::time::Clock;

impl<D: Driver, C: Clock> Worker<D, C> {
    /// Delivers the messages that have arrived until now; later ones wait for the next turn.
    #[cold]
    pub(super) fn deliver_messages(&mut self) {
        for listener in self.listeners() {
            if let Some(memory) = self.buffers.local.stream(listener) {
                memory.take_mail();
            }
            while let Some(id) = self.next_addressee(listener) {
                self.deliver_to(id);
            }
        }
    }

    fn next_addressee(&mut self, listener: ListenerIndex) -> Option<ConnId> {
        self.buffers.local.stream(listener)?.next_addressee()
    }

    /// Calls the protocol of a connection that has a message: now, after the current send, or once
    /// the connection is no longer postponed.
    fn deliver_to(&mut self, id: ConnId) {
        let Some(conn) = self.table.lookup(id).filter(|conn| conn.phase() == Phase::Open) else { return };
        if conn.send_in_flight || conn.postponed {
            conn.has_mail = true;
            return;
        }
        let next = self.pass_input(id, Input::Message);
        self.drive(id, Todo::Next(next));
    }

    /// Takes the protocol's state of a connection that has ended, and notifies the protocol.
    #[cold]
    pub(super) fn end_protocol(&mut self, id: ConnId, reason: CloseReason) {
        let conn = self.table.live_mut(id);
        let listener = conn.listener;
        let Some(state) = conn.protocol.take() else { return };
        let protocol = &self.server.protocols[listener.index()];
        let local = &mut self.buffers.local;
        if caught(|| protocol.handle_closed(&state, listener, local, reason)).is_err() {
            self.shared.counters.handler_panics.add(1);
        }
    }
}
