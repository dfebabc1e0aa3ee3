//! Applies completions to connections. Only the files of this folder use both drivers and
//! connections.
//!
//! Does not know about: I/O (see the driver), the meaning of the bytes (see the protocol), when
//! listeners accept (see [`super::tend`]).
//!
//! Each connection is driven by a loop over [`Todo`]: an operation that completes at once leads
//! directly to the next one, so that a whole probe (receive, reply, close) takes one pass. The loop
//! ends when an operation is pending, or when the connection is postponed (see
//! [`CALLS_A_TURN_MAX`]).

use doorbell_http::{Next, Peer};

use super::handler_call::{HandlerCall, Input};
use super::{Todo, Worker};
use crate::conn::{AfterSend, Arriving, Conn, Phase};
use crate::driver::{Chunk, Completion, Driver, Expect, Payload, Received, SendBuf, Sent, Step};
use crate::error::CloseReason;
use crate::id::ConnId;
use crate::protocol::{Protocol, ProtocolConn};
use crate::time::Clock;

/// Maximum number of receives and [`Todo::Resume`] calls, together, in one run of the loop; then
/// other connections are served.
const CALLS_A_TURN_MAX: u32 = 16;

impl<D: Driver, C: Clock> Worker<D, C> {
    pub(super) fn apply(&mut self, completion: Completion) {
        match completion {
            Completion::Accepted { listener, slot } => self.on_accepted(listener, slot),
            Completion::AcceptEnded { listener, errno } => self.on_accept_ended(listener, errno),
            Completion::Closed { conn } => match self.table.lookup(conn) {
                Some(_) => self.forget(conn),
                None => self.shared.counters.stale_completions.add(1),
            },
            Completion::Datagrams { socket, len } => self.on_datagrams(socket, len),
            Completion::DatagramsEnded { socket, errno } => self.on_datagrams_ended(socket, errno),
            Completion::Detached { conn, result } => match self.table.lookup(conn) {
                Some(_) => {
                    let todo = self.on_detached(conn, result);
                    self.drive(conn, todo);
                }
                None => self.shared.counters.stale_completions.add(1),
            },
            Completion::Received { conn, received } => match self.table.lookup(conn) {
                Some(state) => {
                    state.recv_in_flight = false;
                    match received {
                        Received::Data { chunk, drained }
                            if state.phase() == Phase::Open && !state.send_in_flight =>
                        {
                            self.exchange(conn, chunk, drained);
                        }
                        received => self.drive(conn, Todo::Received(received)),
                    }
                }
                None => self.drop_stale(received),
            },
            Completion::Sent { conn, sent } => match self.table.lookup(conn) {
                Some(state) => {
                    state.send_in_flight = false;
                    self.drive(conn, Todo::Sent(sent));
                }
                None => self.shared.counters.stale_completions.add(1),
            },
        }
    }

    pub(super) fn run_postponed(&mut self) {
        for _ in 0..self.postponed.len() {
            let Some(id) = self.postponed.pop_front() else {
                return;
            };
            let Some(conn) = self.table.lookup(id).filter(|conn| conn.postponed) else {
                continue;
            };
            conn.postponed = false;
            if !matches!(conn.phase(), Phase::Open | Phase::Lingering) {
                // Closed or handed over since then.
                continue;
            }
            if (conn.has_mail || conn.after_send == AfterSend::Resume) && !conn.send_in_flight {
                self.drive(id, Todo::AfterSend);
            } else if !conn.in_flight() {
                self.drive(id, Todo::Recv(Expect::Now));
            }
        }
    }

    pub(super) fn drive(&mut self, id: ConnId, mut todo: Todo) {
        let mut calls_left = CALLS_A_TURN_MAX;
        loop {
            todo = match todo {
                Todo::AfterSend => self.after_send(id),
                Todo::Close(reason) => self.close(id, reason),
                Todo::Flush => self.flush(id),
                Todo::HandOver => self.hand_over(id),
                Todo::Next(next) => self.follow(id, next),
                Todo::Park => return self.park(id),
                Todo::ParkBriefly => return self.park_briefly(id),
                Todo::Received(received) => self.on_received(id, received),
                Todo::Recv(_) | Todo::Resume if calls_left == 0 => return self.postpone(id),
                Todo::Recv(expect) => {
                    calls_left -= 1;
                    self.recv(id, expect)
                }
                Todo::Resume => {
                    calls_left -= 1;
                    Todo::Next(self.pass_input(id, Input::Resume))
                }
                Todo::Send(buf) => self.send(id, buf),
                Todo::Sent(sent) => self.on_sent(id, sent),
            };
        }
    }

    fn recv(&mut self, id: ConnId, expect: Expect) -> Todo {
        if self.table.live_mut(id).recv_in_flight {
            return self.drain_or_park(id);
        }
        match self.driver.recv(id, expect) {
            Step::Done(received) => Todo::Received(received),
            Step::Pending => {
                self.table.live_mut(id).recv_in_flight = true;
                self.drain_or_park(id)
            }
        }
    }

    fn on_received(&mut self, id: ConnId, received: Received) -> Todo {
        let conn = self.table.live_mut(id);
        match conn.phase() {
            Phase::Open => self.on_received_open(id, received),
            Phase::Lingering => self.on_received_lingering(id, received),
            Phase::Leaving | Phase::Waiting => self.on_received_leaving(id, received),
            Phase::Closing | Phase::Free => {
                self.recycle(received);
                self.try_finish(id)
            }
        }
    }

    fn on_received_open(&mut self, id: ConnId, received: Received) -> Todo {
        let conn = self.table.live_mut(id);
        if conn.arriving == Arriving::JobResult {
            return self.on_received_waiting(id, received);
        }
        match received {
            Received::Data { chunk, drained }
                if conn.send_in_flight
                    && !matches!(conn.after_send, AfterSend::Close | AfterSend::Linger) =>
            {
                // These bytes arrived during the send of a reply: they are processed after the
                // reply, or handed over with the connection.
                if conn.after_send == AfterSend::Read {
                    conn.after_send = AfterSend::Resume;
                }
                conn.drained = drained;
                self.set_aside(id, chunk)
            }
            Received::Data { chunk, drained } => {
                conn.has_received = true;
                conn.drained = drained;
                self.shared.counters.bytes_in.add(u64::from(chunk.len));
                if conn.send_in_flight {
                    // The connection closes after this send. Input is discarded, up to the linger
                    // limit; the remaining bytes stay in the kernel, where flow control stops the
                    // sender.
                    conn.linger_bytes_left = conn.linger_bytes_left.saturating_sub(chunk.len);
                    let spent = conn.linger_bytes_left == 0;
                    self.driver.recycle(chunk);
                    return if spent { Todo::Park } else { Todo::Recv(Expect::Later) };
                }
                Todo::Next(self.pass_bytes(id, chunk))
            }
            Received::Eof => {
                conn.peer_finished = true;
                conn.drained = true;
                if conn.send_in_flight {
                    return Todo::Park;
                }
                let is_greeted = self.server.arrivals[conn.listener.index()].is_greeted(conn);
                if !conn.has_received && !is_greeted {
                    return Todo::Close(CloseReason::Empty);
                }
                Todo::Next(self.pass_input(id, Input::Eof))
            }
            Received::Failed(_) => {
                if conn.send_in_flight {
                    self.driver.reset_on_close(id);
                }
                let is_idle = self.is_idle(id);
                let conn = self.table.live_mut(id);
                let is_between = is_idle && !conn.send_in_flight && conn.input.is_empty();
                let reason = match (conn.has_received, conn.replied && is_between) {
                    (false, _) => CloseReason::Empty,
                    (true, true) => CloseReason::ResetAfterReply,
                    (true, false) => CloseReason::ClientReset,
                };
                Todo::Close(reason)
            }
        }
    }

    fn on_received_lingering(&mut self, id: ConnId, received: Received) -> Todo {
        let conn = self.table.live_mut(id);
        let reason = conn.reason();
        match received {
            Received::Data { chunk, drained } => {
                self.shared.counters.bytes_in.add(u64::from(chunk.len));
                conn.linger_bytes_left = conn.linger_bytes_left.saturating_sub(chunk.len);
                let spent = conn.linger_bytes_left == 0;
                self.driver.recycle(chunk);
                if spent {
                    return Todo::Close(reason);
                }
                Todo::Recv(if drained { Expect::Later } else { Expect::Now })
            }
            Received::Eof | Received::Failed(_) => Todo::Close(reason),
        }
    }

    /// Executes the protocol's next step.
    pub(super) fn follow(&mut self, id: ConnId, next: Next) -> Todo {
        match next {
            Next::Wait => self.hold_request(id),
            Next::Close | Next::CloseClean | Next::CloseLinger if self.cuts_reply(id) => {
                self.driver.reset_on_close(id);
                return Todo::Close(self.reason_of(id));
            }
            _ if self.table.live_mut(id).arriving == Arriving::JobResult => self.give_up_job(id),
            _ => {}
        }
        let conn = self.table.live_mut(id);
        let may_close_at_once = conn.drained || conn.peer_finished;
        conn.linger_bytes_left = self.server.limits.linger_bytes_max;
        conn.after_send = match next {
            Next::Read => AfterSend::Read,
            Next::Flush => AfterSend::Resume,
            Next::HandOver => AfterSend::HandOver,
            Next::CloseClean | Next::Close if may_close_at_once && !conn.recv_in_flight => AfterSend::Close,
            Next::CloseLinger if conn.peer_finished => AfterSend::Close,
            Next::CloseClean | Next::Close | Next::CloseLinger => AfterSend::Linger,
            Next::Wait => AfterSend::Wait,
        };
        Todo::Flush
    }

    /// True if a close now would make a partial reply look complete. False after a TLS error,
    /// because an alert shows that the reply is incomplete.
    fn cuts_reply(&mut self, id: ConnId) -> bool {
        self.has_begun_reply(id) && self.reason_of(id) != CloseReason::Tls
    }

    fn flush(&mut self, id: ConnId) -> Todo {
        self.take_output(id).map_or(Todo::AfterSend, Todo::Send)
    }

    /// Takes the next bytes to send, if there are any.
    pub(super) fn take_output(&mut self, id: ConnId) -> Option<SendBuf> {
        let conn = self.table.live_mut(id);
        let payload = if !conn.out.head.is_empty() {
            Payload::Owned(core::mem::take(&mut conn.out.head))
        } else if !conn.out.body.is_empty() {
            Payload::Shared(core::mem::take(&mut conn.out.body))
        } else {
            return None;
        };
        Some(SendBuf { payload, from: 0 })
    }

    fn send(&mut self, id: ConnId, buf: SendBuf) -> Todo {
        let conn = self.table.live_mut(id);
        // The kernel may hold these bytes back if the next call sends more bytes or closes the
        // connection.
        let more = conn.has_output() || (conn.after_send == AfterSend::Close && self.server.tuning.send_more);
        match self.driver.send(id, buf, more) {
            Step::Done(sent) => Todo::Sent(sent),
            Step::Pending => {
                // The deadline is set only here: input that arrives during the send is not progress
                // of the reply.
                conn.send_in_flight = true;
                conn.sent_late = true;
                conn.deadline = self.now.after(self.server.limits.write_timeout);
                // Without direct calls every send is pending and most complete soon, so
                // unacknowledged bytes are counted only at the deadline.
                conn.unsent = if self.server.tuning.direct_calls { self.driver.unsent(id) } else { None };
                Todo::Park
            }
        }
    }

    fn on_sent(&mut self, id: ConnId, sent: Sent) -> Todo {
        let Sent { result, mut buf } = sent;
        let conn = self.table.live_mut(id);
        if conn.phase() == Phase::Closing {
            self.take_back(buf);
            return self.try_finish(id);
        }
        match result {
            Ok(sent_len) => {
                self.shared.counters.bytes_out.add(sent_len as u64);
                buf.from += sent_len;
                if !buf.remaining().is_empty() {
                    return Todo::Send(buf);
                }
                conn.replied = true;
                self.take_back(buf);
                Todo::Flush
            }
            Err(_) => {
                self.take_back(buf);
                self.fail_send(id)
            }
        }
    }

    fn fail_send(&mut self, id: ConnId) -> Todo {
        self.driver.reset_on_close(id);
        Todo::Close(CloseReason::SendFailed)
    }

    fn after_send(&mut self, id: ConnId) -> Todo {
        let (deadline, bytes_max) = self.linger_until();
        let reason = self.reason_of(id);
        let conn = self.table.live_mut(id);
        if core::mem::take(&mut conn.sent_late)
            && let Some(state) = &mut conn.protocol
        {
            self.server.protocols[conn.listener.index()].handle_sent(state, self.now);
        }
        let continues = matches!(conn.after_send, AfterSend::Read | AfterSend::Resume | AfterSend::Wait);
        if core::mem::take(&mut conn.has_mail) && continues {
            return Todo::Next(self.pass_input(id, Input::Message));
        }
        match conn.after_send {
            AfterSend::Close => Todo::Close(reason),
            AfterSend::HandOver => Todo::HandOver,
            AfterSend::Linger => {
                conn.begin_linger(reason, deadline, bytes_max);
                self.drop_input(id);
                self.driver.shutdown_write(id);
                Todo::Recv(Expect::Now)
            }
            AfterSend::Read if conn.drained && !self.drain.shortens_timeouts() => Todo::Recv(Expect::Later),
            AfterSend::Read => Todo::Recv(Expect::Now),
            AfterSend::Resume => Todo::Resume,
            AfterSend::Wait => match self.begin_job(id) {
                Todo::Park => self.drain_or_park(id),
                todo => todo,
            },
        }
    }

    fn close(&mut self, id: ConnId, reason: CloseReason) -> Todo {
        if self.table.live_mut(id).arriving == Arriving::JobResult {
            self.give_up_job(id);
        }
        let conn = self.table.live_mut(id);
        conn.begin_close(reason);
        if conn.in_flight() {
            self.driver.cancel(id);
            return Todo::Park;
        }
        self.try_finish(id)
    }

    /// Closes the descriptor if nothing is in flight.
    fn try_finish(&mut self, id: ConnId) -> Todo {
        if !self.table.live_mut(id).in_flight()
            && let Step::Done(()) = self.driver.close(id)
        {
            self.forget(id);
        }
        Todo::Park
    }

    /// Frees the slot after the close or the detach has completed.
    #[inline(always)]
    pub(super) fn forget(&mut self, id: ConnId) {
        self.wheel.disarm(id.slot);
        let conn = self.table.live_mut(id);
        self.by_listener[conn.listener.index()].closed_because(conn.reason());
        let (cell, reason) = (conn.ip_cell, conn.reason());
        if !matches!(conn.protocol, None | Some(ProtocolConn::Http1(_))) {
            self.end_protocol(id, reason);
        }
        if self.table.live_mut(id).input.capacity() != 0 {
            self.drop_input(id);
        }
        self.table.finish_close(id);
        if let Some(cell) = cell {
            self.server.ip_table.leave(cell);
        }
        self.ip_cap.on_close(&self.server.ip_table, self.table.live());
    }

    /// Arms the timer for the deadline of the current phase.
    pub(super) fn park(&mut self, id: ConnId) {
        let Some(conn) = self.table.lookup(id) else {
            return;
        };
        match conn.phase() {
            // The deadline of a send is set when the send becomes pending.
            Phase::Open if conn.send_in_flight => {}
            Phase::Open => {
                let protocol = &self.server.protocols[conn.listener.index()];
                let opened = conn.deadline;
                conn.deadline = protocol.deadline(conn.protocol.get_or_insert_with(|| protocol.open(opened)));
            }
            Phase::Lingering | Phase::Waiting => {}
            Phase::Closing | Phase::Free | Phase::Leaving => return,
        }
        let (deadline, is_open) = (conn.deadline, conn.phase() == Phase::Open && !conn.send_in_flight);
        self.wheel.arm(id.slot, deadline);
        if is_open && self.drain.shortens_timeouts() {
            self.park_in_drain(id);
        }
    }

    fn postpone(&mut self, id: ConnId) {
        // The connection may be postponed already: an event can drive it before `run_postponed`
        // does.
        if !core::mem::replace(&mut self.table.live_mut(id).postponed, true) {
            self.postponed.push_back(id);
        }
        self.park(id);
    }

    fn pass_bytes(&mut self, id: ConnId, chunk: Chunk) -> Next {
        let (call, conn, driver) = self.handler_call(id);
        let next = call.run(conn, Input::Bytes(driver.received(&chunk)));
        self.driver.recycle(chunk);
        self.buffers.move_reply(&mut self.table.live_mut(id).out);
        next
    }

    pub(super) fn pass_input(&mut self, id: ConnId, input: Input<'_>) -> Next {
        let (call, conn, _) = self.handler_call(id);
        let next = call.run(conn, input);
        self.buffers.move_reply(&mut self.table.live_mut(id).out);
        next
    }

    #[inline(always)]
    pub(super) fn handler_call(&mut self, id: ConnId) -> (HandlerCall<'_>, &mut Conn<ProtocolConn>, &D) {
        if self.table.live_mut(id).arriving == Arriving::Addr {
            self.learn_client(id);
        }
        self.parts(id)
    }

    #[inline(always)]
    pub(super) fn parts(&mut self, id: ConnId) -> (HandlerCall<'_>, &mut Conn<ProtocolConn>, &D) {
        let call = HandlerCall {
            server: &self.server,
            counters: &self.shared.counters,
            by_listener: &self.by_listener,
            buffers: &mut self.buffers,
            input_memory: &mut self.input_memory,
            date: &self.date,
            now: self.now,
            draining: self.drain.is_on(),
        };
        (call, self.table.live_mut(id), &self.driver)
    }

    #[inline(always)]
    pub(super) fn reason_of(&mut self, id: ConnId) -> CloseReason {
        let draining = self.drain.is_on();
        let conn = self.table.live_mut(id);
        if conn.arriving == Arriving::Header {
            // A peer without an address has reset the connection; there is no other reason for an
            // unknown address.
            let is_gone = conn.client.peer == Peer::Unknown;
            return if is_gone { CloseReason::ClientReset } else { CloseReason::ProxyHeader };
        }
        let protocol = &self.server.protocols[conn.listener.index()];
        let state = conn.protocol.as_ref();
        match state.map_or(CloseReason::Done, |state| protocol.close_reason(state)) {
            // A greeting or a handshake is no reply. Without a state, the only request was answered.
            CloseReason::Done if draining && state.is_some_and(|state| !protocol.has_served(state)) => {
                CloseReason::Drain
            }
            CloseReason::ClientFin if !conn.has_received => CloseReason::Empty,
            reason => reason,
        }
    }

    fn drop_input(&mut self, id: ConnId) {
        let input = core::mem::take(&mut self.table.live_mut(id).input);
        let within = self.input_memory.change(input.capacity(), 0);
        debug_assert!(within, "shrinking is always within the cap");
        self.buffers.take_back(input);
    }

    fn take_back(&mut self, buf: SendBuf) {
        if let Payload::Owned(buf) = buf.payload {
            self.buffers.take_back(buf);
        }
    }

    fn recycle(&mut self, received: Received) {
        if let Received::Data { chunk, .. } = received {
            self.driver.recycle(chunk);
        }
    }

    fn drop_stale(&mut self, received: Received) {
        self.shared.counters.stale_completions.add(1);
        self.recycle(received);
    }
}
