//! Requests that wait for a job on another thread: their saved state, their jobs, and the delivery
//! of the results.
//!
//! Does not know about: threads and queues (see [`crate::offload`]), the reply, which the protocol
//! writes.
//!
//! ```text
//!         Next::Wait            output is sent          result
//!  Open ──────────────► Held ───────────────► Queued ──────────► Open
//!                        └── queue full: 503     └── timeout, client gone, stop: cancelled, or its result is dropped
//! ```

use std::sync::Arc;

use doorbell_http::{Later, Next};

use super::handler_call::Input;
use super::{Todo, Worker};
use crate::conn::{AfterSend, Arriving};
use crate::control::WorkerShared;
use crate::driver::{Chunk, Driver, Expect, Received};
use crate::error::CloseReason;
use crate::id::{ConnId, SlotIndex};
use crate::offload::{Delivery, Inbox, Job, Outcome, Ticket};
use crate::panics::dispose;
use crate::protocol::JobResult;
use crate::time::Clock;

/// Number of bytes up to which a FIN that cancels a job is awaited behind them: over TLS a
/// close_notify precedes it.
const BEFORE_FIN_MAX: usize = 256;

/// The waiting requests of a worker. The [module](self) documents them.
#[derive(Debug)]
pub(super) struct Jobs {
    /// Waiting requests by slot, up to the highest slot that ever waited.
    slots: Vec<Option<Waiting>>,
    /// Number of results that have not arrived yet.
    expected: u32,
    /// Number of the next job. Numbers are never reused.
    number_next: u64,
    inbox: Arc<Inbox>,
    /// Results taken from the inbox; empty between turns.
    arrived: Vec<Delivery>,
}

/// A waiting request.
#[derive(Debug)]
struct Waiting {
    later: Box<Later>,
    queued: Option<Queued>,
}

#[derive(Debug)]
struct Queued {
    number: u64,
    ticket: Ticket,
}

impl Jobs {
    pub(super) fn new(shared: &WorkerShared) -> Self {
        let inbox = Arc::new(Inbox::new(shared.waker()));
        Self { slots: Vec::new(), expected: 0, number_next: 0, inbox, arrived: Vec::new() }
    }

    #[inline(always)]
    pub(super) const fn expects_answers(&self) -> bool {
        self.expected != 0
    }

    /// Whether the driver may wait; see [`Inbox::fall_asleep`].
    pub(super) fn may_sleep(&self) -> bool {
        self.inbox.fall_asleep()
    }

    /// Records that the driver has returned from its wait.
    #[inline(always)]
    pub(super) fn awake(&self) {
        if self.expects_answers() {
            self.inbox.awake();
        }
    }

    /// True while the connection in this slot waits for a job.
    pub(super) fn holds(&self, slot: SlotIndex) -> bool {
        self.slots.get(slot.index()).is_some_and(Option::is_some)
    }

    fn hold(&mut self, slot: SlotIndex, later: Box<Later>) {
        if self.slots.len() <= slot.index() {
            self.slots.resize_with(slot.index() + 1, || None);
        }
        debug_assert!(
            self.slots[slot.index()].is_none(),
            "I-10: a connection waits for one answer at a time"
        );
        self.slots[slot.index()] = Some(Waiting { later, queued: None });
    }

    fn waiting(&mut self, slot: SlotIndex) -> Option<&mut Waiting> {
        self.slots.get_mut(slot.index())?.as_mut()
    }

    /// Records that the protocol of this slot stopped waiting because of a timeout.
    pub(super) fn timed_out(&mut self, slot: SlotIndex) {
        if let Some(waiting) = self.waiting(slot) {
            waiting.later.timed_out();
        }
    }

    /// Takes the request that waits for this result. `None` if it no longer waits.
    fn claim(&mut self, delivery: &Delivery) -> Option<Box<Later>> {
        let cell = self.slots.get_mut(delivery.conn.slot.index())?;
        let waiting = cell.take_if(|waiting| {
            waiting.queued.as_ref().is_some_and(|queued| queued.number == delivery.number)
        })?;
        Some(waiting.later)
    }

    /// Whether a FIN of the client cancels the job of this slot.
    fn fin_cancels(&mut self, slot: SlotIndex) -> bool {
        let queued = self.waiting(slot).and_then(|waiting| waiting.queued.as_ref());
        queued.is_some_and(|queued| queued.ticket.fin_cancels())
    }

    /// Cancels a job that has not started. Returns false if the job has started or there is no job.
    fn cancel(&mut self, slot: SlotIndex) -> bool {
        let queued = self.waiting(slot).and_then(|waiting| waiting.queued.as_ref());
        let cancelled = queued.is_some_and(|queued| queued.ticket.call_off());
        if cancelled {
            self.expected -= 1;
        }
        cancelled
    }
}

impl<D: Driver, C: Clock> Worker<D, C> {
    /// Stores the request, if the protocol passed one to a job.
    #[cold]
    pub(super) fn hold_request(&mut self, id: ConnId) {
        let conn = self.table.live_mut(id);
        if let Some(later) = conn.out.take_later() {
            conn.arriving = Arriving::JobResult;
            self.jobs.hold(id.slot, later);
        }
    }

    /// Stores the request directly after the protocol call that passed it to a job, while the
    /// output of the call is still in the worker's buffers. If no output must be sent first, the
    /// job begins now.
    #[inline(never)]
    pub(super) fn wait_for_answer(&mut self, id: ConnId) {
        let reply = &mut self.buffers.reply;
        if !reply.is_empty() {
            return self.continue_after(id, Next::Wait, None);
        }
        let conn = self.table.live_mut(id);
        conn.after_send = AfterSend::Wait;
        if let Some(later) = reply.take_later() {
            conn.arriving = Arriving::JobResult;
            self.jobs.hold(id.slot, later);
        }
        let todo = self.begin_job(id);
        self.drive(id, todo);
    }

    /// Begins the job of the stored request. Called after all earlier output was sent.
    pub(super) fn begin_job(&mut self, id: ConnId) -> Todo {
        // Without a stored request, a stream protocol waits for a message.
        let Some(waiting) = self.jobs.waiting(id.slot) else { return Todo::Park };
        if waiting.queued.is_some() {
            return Todo::Park;
        }
        let Some(job) = waiting.later.take_work().and_then(Job::from_work) else {
            // The stored work is not a job of this crate, so there is no job to run.
            return Todo::Next(self.answer(id, Outcome::Panicked));
        };
        let number = self.jobs.number_next;
        self.jobs.number_next += 1;
        let Some(ticket) = job.submit(id, number, &self.jobs.inbox) else {
            self.shared.counters.jobs_refused.add(1);
            return Todo::Next(self.answer(id, Outcome::Busy));
        };
        self.jobs.expected += 1;
        self.shared.counters.jobs_queued.add(1);
        if let Some(waiting) = self.jobs.waiting(id.slot) {
            waiting.queued = Some(Queued { number, ticket });
        }
        // Receive once more, to detect that the client leaves.
        let conn = self.table.live_mut(id);
        match (conn.input.is_empty() && !conn.peer_finished, conn.drained) {
            (false, _) => Todo::Park,
            (true, true) => Todo::Recv(Expect::Later),
            (true, false) => Todo::Recv(Expect::Now),
        }
    }

    /// Passes the result of a job to the protocol of the waiting request.
    fn answer(&mut self, id: ConnId, outcome: Outcome) -> Next {
        let Some(waiting) = self.jobs.slots[id.slot.index()].take() else { return Next::Close };
        self.answer_later(id, waiting.later, outcome)
    }

    fn answer_later(&mut self, id: ConnId, later: Box<Later>, outcome: Outcome) -> Next {
        self.table.live_mut(id).arriving = Arriving::Done;
        self.pass_input(id, Input::JobResult(JobResult { later, outcome }))
    }

    /// Takes and delivers the results that arrived since the last turn.
    #[inline(always)]
    pub(super) fn take_answers(&mut self) {
        if self.jobs.expects_answers() {
            self.take_arrived();
        }
    }

    #[inline(never)]
    fn take_arrived(&mut self) {
        let mut arrived = core::mem::take(&mut self.jobs.arrived);
        self.jobs.inbox.take(&mut arrived);
        for delivery in arrived.drain(..) {
            self.jobs.expected -= 1;
            if matches!(delivery.outcome, Outcome::Panicked) {
                self.shared.counters.jobs_panicked.add(1);
            }
            let id = delivery.conn;
            let waiting = self.table.lookup(id).is_some_and(|conn| conn.arriving == Arriving::JobResult);
            let Some(later) = self.jobs.claim(&delivery).filter(|_| waiting) else {
                self.shared.counters.answers_dropped.add(1);
                dispose(delivery);
                continue;
            };
            self.deliver(id, later, delivery.outcome);
        }
        self.jobs.arrived = arrived;
    }

    /// Delivers a result. Usually the reply is sent at once, and the connection then waits for its
    /// next request.
    fn deliver(&mut self, id: ConnId, later: Box<Later>, outcome: Outcome) {
        let (call, conn, _) = self.handler_call(id);
        conn.arriving = Arriving::Done;
        let next = call.run(conn, Input::JobResult(JobResult { later, outcome }));
        let reply = &mut self.buffers.reply;
        if next != Next::Flush || reply.unsent().is_empty() || !reply.body.is_empty() {
            return self.continue_after(id, next, None);
        }
        let sent = self.driver.send_now(id, &reply.head, false);
        if sent != Some(Ok(reply.head.len())) {
            return self.continue_after(id, next, sent);
        }
        self.shared.counters.bytes_out.add(reply.head.len() as u64);
        reply.head_is_sent();
        let (call, conn, _) = self.handler_call(id);
        conn.replied = true;
        let next = call.run(conn, Input::Resume);
        let has_more = !self.buffers.reply.unsent().is_empty() || !self.buffers.reply.body.is_empty();
        let conn = self.table.live_mut(id);
        if next == Next::Read && conn.recv_in_flight && !has_more {
            conn.after_send = AfterSend::Read;
            return self.park(id);
        }
        self.continue_after(id, next, None);
    }

    /// Abandons a connection's job: cancels the job if it has not started; otherwise its result
    /// will be dropped.
    #[cold]
    pub(super) fn give_up_job(&mut self, id: ConnId) {
        if self.jobs.cancel(id.slot) {
            self.shared.counters.jobs_cancelled.add(1);
        }
        self.jobs.slots[id.slot.index()] = None;
        self.table.live_mut(id).arriving = Arriving::Done;
    }

    /// Handles input that arrives while the connection waits for a job.
    #[cold]
    pub(super) fn on_received_waiting(&mut self, id: ConnId, received: Received) -> Todo {
        match received {
            Received::Data { chunk, drained } => {
                self.table.live_mut(id).drained = drained;
                let todo = self.set_aside(id, chunk);
                let len = self.table.live_mut(id).input.len();
                let is_end_awaited = len <= BEFORE_FIN_MAX && self.jobs.fin_cancels(id.slot);
                match todo {
                    Todo::Park if is_end_awaited => Todo::Recv(Expect::Later),
                    todo => todo,
                }
            }
            Received::Eof => {
                let conn = self.table.live_mut(id);
                conn.peer_finished = true;
                conn.drained = true;
                if self.jobs.fin_cancels(id.slot) { Todo::Close(CloseReason::ClientGone) } else { Todo::Park }
            }
            Received::Failed(_) => Todo::Close(CloseReason::ClientReset),
        }
    }

    /// Appends bytes that cannot be processed yet to the connection's input.
    #[cold]
    pub(super) fn set_aside(&mut self, id: ConnId, chunk: Chunk) -> Todo {
        let conn = self.table.live_mut(id);
        conn.has_received = true;
        self.shared.counters.bytes_in.add(u64::from(chunk.len));
        let held_before = conn.input.capacity();
        if held_before == 0 {
            conn.input = self.buffers.lend_with_memory();
        }
        conn.input.extend_from_slice(self.driver.received(&chunk));
        let within = self.input_memory.change(held_before, conn.input.capacity());
        self.driver.recycle(chunk);
        if within {
            return Todo::Park;
        }
        self.driver.reset_on_close(id);
        Todo::Close(CloseReason::InputMemory)
    }
}
