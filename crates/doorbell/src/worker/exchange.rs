//! The fast path of an exchange, in one pass: bytes arrive, the protocol replies, the reply is
//! sent, and the connection closes or waits.
//!
//! Does not know about: steps that do not complete at once; [`super::apply`] continues with them.

use doorbell_http::{Client, Next};

use super::buffers::Buffers;
use super::handler_call::Input;
use super::{Todo, Worker};
use crate::conn::{Arriving, Phase};
use crate::driver::{Chunk, ChunkSource, Driver, Errno, Expect, Received, Sent, Step};
use crate::error::CloseReason;
use crate::id::{ConnId, ListenerIndex, SlotIndex};
use crate::panics::Panic;
use crate::protocol::{InputResult, Io, Protocol};
use crate::time::Clock;

/// The protocol call in progress, whose input is in the driver's scratch buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct InHandler {
    id: ConnId,
    /// The chunk's number and length.
    number: u32,
    len: u32,
    /// The listener of a connection that does not have a slot of the table yet.
    fresh: Option<ListenerIndex>,
    requests_before: u32,
}

impl<D: Driver, C: Clock> Worker<D, C> {
    /// Receives from a new connection on which the client sends first. Usually the first request
    /// has already arrived, and the reply ends the connection; such a connection never takes a slot
    /// of the table.
    #[inline(always)]
    pub(super) fn accept_first(&mut self, listener: ListenerIndex, slot: SlotIndex) {
        let id = self.table.name(slot);
        match self.driver.recv(id, Expect::Now) {
            Step::Done(Received::Data {
                chunk: Chunk { source: ChunkSource::Scratch(number), len },
                drained: true,
            }) => self.answer_once(listener, id, number, len),
            step => self.receive_first(listener, slot, step),
        }
    }

    #[inline(always)]
    fn answer_once(&mut self, listener: ListenerIndex, id: ConnId, number: u32, len: u32) {
        let chunk = Chunk::scratch(number, len);
        let Buffers { reply: out, rest: input, local, .. } = &mut self.buffers;
        let (now, date, draining, client) = (self.now, &self.date, self.drain.is_on(), &Client::UNKNOWN);
        let io = Io { now, date, input, out, draining, local, client };
        self.in_handler = Some(InHandler { id, number, len, fresh: Some(listener), requests_before: 0 });
        let next = self.server.protocols[listener.index()].answer_once(self.driver.received(&chunk), io);
        self.in_handler = None;
        let Some(next) = next else {
            return self.exchange_first(listener, id, chunk);
        };
        self.driver.recycle(chunk);
        let reply = &mut self.buffers.reply;
        let counters = &self.shared.counters;
        counters.bytes_in.add(u64::from(len));
        if reply.unsent().is_empty() || !reply.body.is_empty() {
            return self.continue_first(listener, id, next, None);
        }
        counters.requests.add(1);
        let outcome = self.driver.send_now(id, &reply.head, self.server.tuning.send_more);
        if outcome != Some(Ok(reply.head.len())) {
            return self.continue_first(listener, id, next, outcome);
        }
        counters.bytes_out.add(reply.head.len() as u64);
        reply.head_is_sent();
        if let Step::Done(()) = self.driver.close(id) {
            // At the end of the turn, `publish` also counts the connection as closed for its
            // listener.
            self.table.pass();
        } else {
            self.close_later(listener, id);
        }
    }

    /// Gives the connection a slot of the table. The second value is false if the address is over
    /// its cap.
    fn place(&mut self, listener: ListenerIndex, slot: SlotIndex) -> (ConnId, bool) {
        let id = self.take_slot(listener, slot);
        (id, self.counts_in(id))
    }

    #[inline(never)]
    fn receive_first(&mut self, listener: ListenerIndex, slot: SlotIndex, step: Step<Received>) {
        let (id, admitted) = self.place(listener, slot);
        match step {
            step if !admitted => self.refuse(id, step),
            Step::Done(Received::Data { chunk, drained }) => self.exchange(id, chunk, drained),
            Step::Done(received) => self.drive(id, Todo::Received(received)),
            Step::Pending => {
                self.table.live_mut(id).recv_in_flight = true;
                self.park(id);
            }
        }
    }

    #[inline(never)]
    fn exchange_first(&mut self, listener: ListenerIndex, id: ConnId, chunk: Chunk) {
        let (id, admitted) = self.place(listener, id.slot);
        if admitted {
            self.exchange(id, chunk, true);
        } else {
            self.refuse(id, Step::Done(Received::Data { chunk, drained: true }));
        }
    }

    /// Gives a slot to a connection that already has its reply. The reply is sent in full even if
    /// the address is over its cap.
    fn place_answered(&mut self, listener: ListenerIndex, slot: SlotIndex) -> ConnId {
        let (id, _stays) = self.place(listener, slot);
        let conn = self.table.live_mut(id);
        (conn.has_received, conn.drained) = (true, true);
        id
    }

    /// Continues after a first call that wrote no reply, or a reply that is not sent in full yet.
    #[cold]
    fn continue_first(
        &mut self,
        listener: ListenerIndex,
        id: ConnId,
        next: Next,
        outcome: Option<Result<usize, Errno>>,
    ) {
        if matches!(next, Next::HandOver | Next::Wait) {
            return self.keep_first(listener, id, next);
        }
        if outcome.is_none() {
            self.shared.counters.requests.add(1);
        }
        let id = self.place_answered(listener, id.slot);
        self.continue_after(id, next, outcome);
    }

    /// Continues a connection after its first request, if the connection is to be handed over or
    /// waits for a job. The client's address was not counted yet.
    #[cold]
    fn keep_first(&mut self, listener: ListenerIndex, id: ConnId, next: Next) {
        let (id, admitted) = self.place(listener, id.slot);
        let conn = self.table.live_mut(id);
        (conn.has_received, conn.drained) = (true, true);
        if admitted && next == Next::Wait {
            self.shared.counters.requests.add(1);
            let (mut call, conn, _) = self.handler_call(id);
            call.wait_once(conn);
            return self.continue_after(id, next, None);
        }
        if admitted {
            let next = self.keep(id, next);
            return self.continue_after(id, next, None);
        }
        // The job of a client over the cap is dropped.
        let _unbegun = self.buffers.reply.take_later();
        self.buffers.rest.clear();
        let _next = self.pass_input(id, Input::Overload(CloseReason::PerIpCap));
        self.drive(id, Todo::Next(Next::CloseClean));
    }

    /// Takes a slot for a connection whose close is pending.
    #[inline(never)]
    fn close_later(&mut self, listener: ListenerIndex, id: ConnId) {
        let id = self.place_answered(listener, id.slot);
        let conn = self.table.live_mut(id);
        conn.replied = true;
        conn.begin_close(CloseReason::Done);
    }

    /// Serves a new connection whose bytes should have arrived.
    #[inline(always)]
    pub(super) fn begin(&mut self, id: ConnId) {
        let step = self.driver.recv(id, Expect::Now);
        self.begin_with(id, step);
    }

    #[inline(never)]
    fn begin_with(&mut self, id: ConnId, step: Step<Received>) {
        match step {
            Step::Done(Received::Data { chunk, drained }) => self.exchange(id, chunk, drained),
            Step::Done(received) => self.drive(id, Todo::Received(received)),
            Step::Pending => {
                self.table.live_mut(id).recv_in_flight = true;
                self.park(id);
            }
        }
    }

    /// Handles a connection that became readable.
    #[inline]
    pub(super) fn on_ready(&mut self, id: ConnId) {
        let Some(conn) = self.table.lookup(id) else {
            self.shared.counters.stale_completions.add(1);
            return;
        };
        conn.recv_in_flight = false;
        if conn.phase() != Phase::Open || conn.send_in_flight {
            return self.drive(id, Todo::Recv(Expect::Now));
        }
        match self.driver.recv(id, Expect::Now) {
            Step::Done(Received::Data { chunk, drained }) => self.exchange_ready(id, chunk, drained),
            step => self.begin_with(id, step),
        }
    }

    /// Processes bytes of an open connection with nothing in flight.
    #[inline(never)]
    pub(super) fn exchange(&mut self, id: ConnId, chunk: Chunk, drained: bool) {
        self.exchange_ready(id, chunk, drained);
    }

    #[inline(always)]
    fn exchange_ready(&mut self, id: ConnId, chunk: Chunk, drained: bool) {
        let Chunk { source: ChunkSource::Scratch(number), len } = chunk else {
            return self.drive(id, Todo::Received(Received::Data { chunk, drained }));
        };
        let conn = self.table.live_mut(id);
        if conn.input.capacity() != 0 || conn.arriving != Arriving::Done {
            return self.drive(id, Todo::Received(Received::Data { chunk, drained }));
        }
        conn.has_received = true;
        conn.drained = drained;
        self.shared.counters.bytes_in.add(u64::from(len));
        let protocol = &self.server.protocols[conn.listener.index()];
        let opened = conn.deadline;
        let state = conn.protocol.get_or_insert_with(|| protocol.open(opened));
        let Buffers { reply: out, rest: input, local, .. } = &mut self.buffers;
        let (now, date, draining, client) = (self.now, &self.date, self.drain.is_on(), &conn.client);
        let in_handler = InHandler { id, number, len, fresh: None, requests_before: 0 };
        let before = &mut self.in_handler.insert(in_handler).requests_before;
        let fresh = self.driver.received(&chunk);
        let InputResult { next, requests, deadline } = protocol.on_input(
            state,
            fresh,
            move || Io { now, date, input, out, draining, local, client },
            before,
        );
        self.in_handler = None;
        self.shared.counters.requests.add(u64::from(requests));
        self.driver.recycle(chunk);
        if !self.buffers.rest.is_empty() {
            let next = self.keep(id, next);
            return self.continue_after(id, next, None);
        }
        // A `match` would compile to a jump table.
        let closes = next != Next::Read;
        if closes && !(drained && matches!(next, Next::Close | Next::CloseClean)) {
            if next == Next::Wait {
                return self.wait_for_answer(id);
            }
            return self.continue_after(id, next, None);
        }
        let reply = &mut self.buffers.reply;
        if !reply.body.is_empty() {
            return self.continue_after(id, next, None);
        }
        if !reply.unsent().is_empty() {
            let more = closes && self.server.tuning.send_more;
            let outcome = self.driver.send_now(id, &reply.head, more);
            if outcome != Some(Ok(reply.head.len())) {
                return self.continue_after(id, next, outcome);
            }
            self.shared.counters.bytes_out.add(reply.head.len() as u64);
            reply.head_is_sent();
            conn.replied = true;
        }
        if closes {
            return self.finish(id);
        }
        // In a drain, a connection that waits for input may end, or gets less time.
        if !drained || draining {
            return self.drive(id, Todo::Recv(Expect::Now));
        }
        match self.driver.recv(id, Expect::Later) {
            Step::Done(received) => self.drive(id, Todo::Received(received)),
            Step::Pending => {
                // Like `park` for an open connection that sends nothing, without another look-up.
                conn.recv_in_flight = true;
                conn.deadline = deadline;
                self.wheel.arm(id.slot, deadline);
            }
        }
    }

    /// Handles a panic of a protocol in one of the calls above. Any other panic is a bug of the
    /// worker and is resumed.
    ///
    /// Panics of these calls are caught once per turn, around all completions, so that the
    /// individual calls need no `catch_unwind`.
    #[cold]
    pub(super) fn on_panic(&mut self, panic: Panic) {
        let Some(InHandler { id, number, len, fresh, requests_before }) = self.in_handler.take() else {
            panic.resume()
        };
        self.driver.recycle(Chunk::scratch(number, len));
        let id = match fresh {
            Some(listener) => {
                let id = self.place_answered(listener, id.slot);
                self.shared.counters.bytes_in.add(u64::from(len));
                self.shared.counters.requests.add(1);
                id
            }
            None => id,
        };
        let (mut call, conn, _) = self.handler_call(id);
        let next = call.panicked(conn, fresh.is_none().then_some(requests_before));
        let next = self.keep(id, next);
        self.continue_after(id, next, None);
    }

    /// Stores unconsumed input of a protocol call in the connection.
    #[cold]
    fn keep(&mut self, id: ConnId, next: Next) -> Next {
        let (call, conn, _) = self.handler_call(id);
        call.keep_rest(conn, next)
    }

    /// Closes a connection whose reply was sent and that has nothing in flight.
    #[inline(always)]
    fn finish(&mut self, id: ConnId) {
        let reason = self.reason_of(id);
        self.table.live_mut(id).begin_close(reason);
        if let Step::Done(()) = self.driver.close(id) {
            self.forget(id);
        }
    }

    /// Continues on the general path after a protocol call. `outcome` is the result of a first
    /// attempt to send, if there was one.
    #[cold]
    pub(super) fn continue_after(&mut self, id: ConnId, next: Next, outcome: Option<Result<usize, Errno>>) {
        self.buffers.move_reply(&mut self.table.live_mut(id).out);
        let Some(result) = outcome else {
            return self.drive(id, Todo::Next(next));
        };
        if let todo @ Todo::Close(_) = self.follow(id, next) {
            return self.drive(id, todo);
        }
        let Some(buf) = self.take_output(id) else {
            return self.drive(id, Todo::AfterSend);
        };
        self.drive(id, Todo::Sent(Sent { result, buf }));
    }
}
