//! One call into a protocol: lends buffers to the protocol, limits the memory of unprocessed input,
//! and catches panics of handlers.

use doorbell_http::{Date, Next};

use super::buffers::{Buffers, InputMemory};
use super::server::ServerShared;
use crate::conn::{Arriving, Conn};
use crate::error::CloseReason;
use crate::panics::caught;
use crate::protocol::{Io, JobResult, Protocol, ProtocolConn};
use crate::stats::{Counters, ListenerCounters};
use crate::time::Time;

/// Input of a protocol call.
pub(super) enum Input<'a> {
    JobResult(JobResult),
    Bytes(&'a [u8]),
    Drain,
    Eof,
    Greet,
    Message,
    Overload(CloseReason),
    Resume,
    Timeout,
}

/// The parts of a worker that a protocol call needs.
pub(super) struct HandlerCall<'a> {
    pub(super) server: &'a ServerShared,
    pub(super) counters: &'a Counters,
    pub(super) by_listener: &'a [ListenerCounters],
    pub(super) buffers: &'a mut Buffers,
    pub(super) input_memory: &'a mut InputMemory,
    pub(super) date: &'a Date,
    pub(super) now: Time,
    pub(super) draining: bool,
}

impl HandlerCall<'_> {
    /// Makes the call. The protocol's output is then in [`Buffers::reply`].
    #[inline(always)]
    pub(super) fn run(mut self, conn: &mut Conn<ProtocolConn>, input: Input<'_>) -> Next {
        debug_assert!(self.buffers.rest.is_empty() && self.buffers.reply.is_empty(), "one call at a time");
        let held_before = conn.input.capacity();
        let next = match input {
            input if conn.arriving == Arriving::Header => self.on_header(conn, input),
            input => self.ask(conn, input),
        };
        if held_before == 0 && self.buffers.rest.is_empty() {
            next
        } else {
            self.keep(conn, held_before, next)
        }
    }

    #[inline(always)]
    pub(super) fn ask(&mut self, conn: &mut Conn<ProtocolConn>, input: Input<'_>) -> Next {
        let protocol = &self.server.protocols[conn.listener.index()];
        let requests = |conn: &Conn<_>| conn.protocol.as_ref().map_or(0, |state| protocol.requests(state));
        let before = requests(conn);
        let answered = caught(|| {
            let (state, io) = self.state_and_io(conn);
            match input {
                Input::JobResult(answer) => protocol.handle_answer(state, answer, io),
                Input::Bytes(bytes) => protocol.handle_input(state, bytes, io),
                Input::Drain => protocol.handle_drain(state, io),
                Input::Eof => protocol.handle_eof(state, io),
                Input::Greet => protocol.greet(state, io),
                Input::Message => protocol.handle_message(state, io),
                Input::Overload(reason) => protocol.handle_overload(state, reason, io),
                Input::Resume => protocol.handle_input(state, &[], io),
                Input::Timeout => protocol.handle_timeout(state, io),
            }
        });
        let next = answered.unwrap_or_else(|_panic| self.on_panic(conn));
        self.counters.requests.add(u64::from(requests(conn) - before));
        next
    }

    /// Creates the state of a connection for which [`Protocol::answer_once`] returned
    /// [`Next::Wait`]; the output of that call is still in [`Buffers::reply`].
    #[cold]
    pub(super) fn wait_once(&mut self, conn: &mut Conn<ProtocolConn>) {
        let protocol = &self.server.protocols[conn.listener.index()];
        let (state, io) = self.state_and_io(conn);
        protocol.wait_once(state, io);
    }

    /// Handles a panic in a call that was not made by [`Self::run`]. `before` is the number of the
    /// connection's requests that are already counted; `None` if the connection had no state.
    #[cold]
    pub(super) fn panicked(&mut self, conn: &mut Conn<ProtocolConn>, before: Option<u32>) -> Next {
        let next = self.on_panic(conn);
        if let (Some(before), Some(state)) = (before, &conn.protocol) {
            let protocol = &self.server.protocols[conn.listener.index()];
            self.counters.requests.add(u64::from(protocol.requests(state) - before));
        }
        next
    }

    /// Stores unprocessed input after a call that was not made by [`Self::run`], for a connection
    /// without earlier unprocessed input.
    pub(super) fn keep_rest(self, conn: &mut Conn<ProtocolConn>, next: Next) -> Next {
        if self.buffers.rest.is_empty() { next } else { self.keep(conn, 0, next) }
    }

    #[cold]
    fn on_panic(&mut self, conn: &mut Conn<ProtocolConn>) -> Next {
        self.counters.handler_panics.add(1);
        let protocol = &self.server.protocols[conn.listener.index()];
        let (state, io) = self.state_and_io(conn);
        protocol.handle_panic(state, io)
    }

    /// The protocol state, created on first use, and the buffers for a call.
    #[inline(always)]
    fn state_and_io<'b>(&'b mut self, conn: &'b mut Conn<ProtocolConn>) -> (&'b mut ProtocolConn, Io<'b>) {
        let Buffers { reply: out, rest, local, .. } = &mut *self.buffers;
        out.forget_sent();
        let protocol = &self.server.protocols[conn.listener.index()];
        let opened = conn.deadline;
        let input = if conn.input.capacity() == 0 { rest } else { &mut conn.input };
        let state = conn.protocol.get_or_insert_with(|| protocol.open(opened));
        let client = &conn.client;
        (state, Io { now: self.now, date: self.date, input, out, draining: self.draining, local, client })
    }

    /// Stores unprocessed input with the connection. If there is none, takes back the connection's
    /// buffer.
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
        // A peer whose PROXY header is incomplete gets no reply.
        let next = match conn.arriving {
            Arriving::Header => Next::Close,
            _ => self.ask(conn, Input::Overload(CloseReason::InputMemory)),
        };
        self.buffers.rest.clear();
        next
    }
}
