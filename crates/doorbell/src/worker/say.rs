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
    /// The reply is in [`Buffers::reply`] then.
    #[inline(always)]
    pub(super) fn say(mut self, conn: &mut Conn<ProtocolConn>, input: Input<'_>) -> Next {
        debug_assert!(self.buffers.rest.is_empty() && self.buffers.reply.is_empty(), "one call at a time");
        let held_before = conn.input.capacity();
        let next = self.ask(conn, input);
        if held_before == 0 && self.buffers.rest.is_empty() {
            next
        } else {
            self.keep(conn, held_before, next)
        }
    }

    #[inline(always)]
    fn ask(&mut self, conn: &mut Conn<ProtocolConn>, input: Input<'_>) -> Next {
        let Conn { protocol: state, input: held, .. } = conn;
        let parts = Parts {
            protocol: &self.server.protocols[conn.listener.index()],
            counters: self.counters,
            date: self.date,
            now: self.now,
            opened: conn.deadline,
            draining: self.draining,
        };
        let kept = if held.capacity() == 0 { &mut self.buffers.rest } else { held };
        parts.call(state, kept, &mut self.buffers.reply, input)
    }

    /// The connection keeps input, or did until now.
    #[cold]
    fn keep(mut self, conn: &mut Conn<ProtocolConn>, held_before: usize, next: Next) -> Next {
        if held_before == 0 {
            let fresh = self.buffers.lend();
            conn.input = core::mem::replace(&mut self.buffers.rest, fresh);
        }
        if conn.input.is_empty() {
            self.buffers.take_back(core::mem::take(&mut conn.input));
        }
        if self.input_memory.change(held_before, conn.input.capacity()) {
            return next;
        }
        let refused = core::mem::take(&mut conn.input);
        let freed = self.input_memory.change(refused.capacity(), 0);
        debug_assert!(freed, "shrinking is always within the cap");
        let next = self.ask(conn, Input::Overload(CloseReason::InputMemory));
        self.buffers.rest.clear();
        next
    }
}

/// What a call needs beside the connection.
struct Parts<'a> {
    protocol: &'a ListenerProtocol,
    counters: &'a Counters,
    date: &'a Date,
    now: Time,
    /// When the connection was opened, if it has no state yet.
    opened: Time,
    draining: bool,
}

impl Parts<'_> {
    #[inline(always)]
    fn call(
        &self,
        state: &mut Option<ProtocolConn>,
        kept: &mut Vec<u8>,
        out: &mut Out,
        input: Input<'_>,
    ) -> Next {
        let Self { protocol, date, now, draining, .. } = *self;
        let requests_before = state.as_ref().map_or(0, |state| protocol.requests(state));
        let mut io = Io { now, date, input: kept, out, draining };
        let answered = catch_unwind(AssertUnwindSafe(|| self.answer(state, input, io.reborrow())));
        let (next, requests) = match answered {
            Ok(Answer::Whole(next)) => (next, 1),
            Ok(Answer::Told(next)) => {
                let requests = state.as_ref().map_or(0, |state| protocol.requests(state));
                (next, requests - requests_before)
            }
            Err(_panic) => {
                let next = self.handle_panic(state, io);
                let requests = state.as_ref().map_or(0, |state| protocol.requests(state));
                // Without a state nobody counted the request whose handler panicked.
                (next, (requests - requests_before).max(1))
            }
        };
        self.counters.requests.add(u64::from(requests));
        next
    }

    #[inline(always)]
    fn answer(&self, state: &mut Option<ProtocolConn>, input: Input<'_>, io: Io<'_>) -> Answer {
        let protocol = self.protocol;
        let mut io = io;
        if let (None, Input::Bytes(bytes)) = (&state, &input)
            && let Some(next) = protocol.answer_whole(bytes, io.reborrow())
        {
            if next == Next::Read {
                *state = Some(protocol.open_answered(self.opened, self.now));
            }
            return Answer::Whole(next);
        }
        let state = state.get_or_insert_with(|| protocol.open(self.opened));
        Answer::Told(match input {
            Input::Bytes(bytes) => protocol.handle_input(state, bytes, io),
            Input::Eof => protocol.handle_eof(state, io),
            Input::Greet => protocol.greet(state, io),
            Input::Overload(reason) => protocol.handle_overload(state, reason, io),
            Input::Resume => protocol.handle_input(state, &[], io),
            Input::Timeout => protocol.handle_timeout(state, io),
        })
    }

    #[cold]
    fn handle_panic(&self, state: &mut Option<ProtocolConn>, io: Io<'_>) -> Next {
        self.counters.handler_panics.add(1);
        let state = state.get_or_insert_with(|| self.protocol.open(self.opened));
        self.protocol.handle_panic(state, io)
    }
}

/// How an input was handled.
enum Answer {
    /// By the state machine.
    Told(Next),
    /// As one whole request, without a state.
    Whole(Next),
}
