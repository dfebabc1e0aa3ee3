//! One call into a protocol: lends it buffers, keeps what it keeps within the cap, and survives a handler that panics.
//!
//! Does not know about: drivers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use doorbell_http::{Date, Next, Out};

use super::ServerShared;
use super::buffers::{Buffers, InputMemory};
use crate::conn::Conn;
use crate::error::CloseReason;
use crate::protocol::{Io, ListenerProtocol, Protocol, ProtocolConn};
use crate::stats::Counters;
use crate::time::Time;

/// What is said to a protocol.
pub(super) enum Input<'a> {
    Bytes(&'a [u8]),
    Eof,
    Greet,
    Overload(CloseReason),
    Resume,
    Timeout,
}

/// The parts of a worker that a protocol call needs.
pub(super) struct Speaker<'a> {
    pub(super) server: &'a ServerShared,
    pub(super) counters: &'a Counters,
    pub(super) buffers: &'a mut Buffers,
    pub(super) input_memory: &'a mut InputMemory,
    pub(super) date: &'a Date,
    pub(super) now: Time,
    pub(super) draining: bool,
}

impl Speaker<'_> {
    pub(super) fn say(self, conn: &mut Conn<ProtocolConn>, input: Input<'_>) -> Next {
        let protocol = &self.server.protocols[conn.listener.index()];
        let Conn { protocol: Some(state), input: kept, out, .. } = conn else { return Next::Close };
        let held_before = kept.capacity();
        if held_before == 0 {
            *kept = self.buffers.lend();
        }
        if out.head.capacity() == 0 {
            out.head = self.buffers.lend();
        }
        let requests_before = protocol.requests(state);
        let parts = Parts { protocol, date: self.date, now: self.now, draining: self.draining };
        let mut next = parts.call(self.counters, state, kept, out, input);
        if kept.is_empty() {
            self.buffers.take_back(core::mem::take(kept));
        }
        if !self.input_memory.change(held_before, kept.capacity()) {
            let refused = core::mem::take(kept);
            let freed = self.input_memory.change(refused.capacity(), 0);
            debug_assert!(freed, "shrinking is always within the cap");
            next = parts.call(self.counters, state, kept, out, Input::Overload(CloseReason::InputMemory));
        }
        if out.head.is_empty() {
            self.buffers.take_back(core::mem::take(&mut out.head));
        }
        self.counters.requests.add(u64::from(protocol.requests(state) - requests_before));
        next
    }
}

/// What a call needs beside the connection.
struct Parts<'a> {
    protocol: &'a ListenerProtocol,
    date: &'a Date,
    now: Time,
    draining: bool,
}

impl Parts<'_> {
    fn call(
        &self,
        counters: &Counters,
        state: &mut ProtocolConn,
        kept: &mut Vec<u8>,
        out: &mut Out,
        input: Input<'_>,
    ) -> Next {
        let Self { protocol, date, now, draining } = *self;
        let mut io = Io { now, date, input: kept, out, draining };
        let answered = catch_unwind(AssertUnwindSafe(|| match input {
            Input::Bytes(bytes) => protocol.handle_input(state, bytes, io.reborrow()),
            Input::Eof => protocol.handle_eof(state, io.reborrow()),
            Input::Greet => protocol.greet(state, io.reborrow()),
            Input::Overload(reason) => protocol.handle_overload(state, reason, io.reborrow()),
            Input::Resume => protocol.handle_input(state, &[], io.reborrow()),
            Input::Timeout => protocol.handle_timeout(state, io.reborrow()),
        }));
        answered.unwrap_or_else(|_panic| {
            counters.handler_panics.add(1);
            protocol.handle_panic(state, io)
        })
    }
}
