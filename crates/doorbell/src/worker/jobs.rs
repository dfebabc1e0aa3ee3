//! Requests that wait for an answer from another thread: what they left, who works on it, and what becomes of the answer.
//!
//! Does not know about: threads and queues ([`crate::offload`]), what an answer looks like (the protocol writes it).
//!
//! ```text
//!         Next::Wait            output is sent          answer
//!  Open ──────────────► Held ───────────────► Queued ──────────► Open
//!                        └── queue full: 503     └── time is up, client gone, stop: called off, or its answer is dropped
//! ```

use std::sync::Arc;

use doorbell_http::{Later, Next};

use super::say::Input;
use super::{Todo, Worker};
use crate::conn::Arriving;
use crate::control::WorkerShared;
use crate::driver::{Chunk, Driver, Expect, Received};
use crate::error::CloseReason;
use crate::id::{ConnId, SlotIndex};
use crate::offload::{Delivery, Inbox, Job, Outcome, Ticket};
use crate::panics::dispose;
use crate::protocol::Answer;
use crate::time::Clock;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Jobs {
    /// By slot, up to the highest that ever waited.
    slots: Vec<Option<Waiting>>,
    /// Answers that will come.
    expected: u32,
    /// No number is used twice.
    number_next: u64,
    inbox: Arc<Inbox>,
    /// Empty between turns.
    arrived: Vec<Delivery>,
}

/// A request that waits.
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

    /// See [`Inbox::fall_asleep`].
    pub(super) fn may_sleep(&self) -> bool {
        self.inbox.fall_asleep()
    }

    /// The worker has waited.
    #[inline(always)]
    pub(super) fn awake(&self) {
        if self.expects_answers() {
            self.inbox.awake();
        }
    }

    /// True while the connection in this slot waits.
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

    /// Its protocol has said that it waits no longer.
    pub(super) fn timed_out(&mut self, slot: SlotIndex) {
        if let Some(waiting) = self.waiting(slot) {
            waiting.later.timed_out();
        }
    }

    /// What waits for this answer, if it still does.
    fn claim(&mut self, delivery: &Delivery) -> Option<Box<Later>> {
        let cell = self.slots.get_mut(delivery.conn.slot.index())?;
        let waiting = cell.take_if(|waiting| {
            waiting.queued.as_ref().is_some_and(|queued| queued.number == delivery.number)
        })?;
        Some(waiting.later)
    }

    /// Calls off a job that has not started. False when it has, or when there is none.
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
    /// The protocol waits: it has left a request, now or before.
    #[cold]
    pub(super) fn hold_request(&mut self, id: ConnId) {
        let conn = self.table.live_mut(id);
        if let Some(later) = conn.out.take_later() {
            conn.arriving = Arriving::Answer;
            self.jobs.hold(id.slot, later);
        }
    }

    /// The same right after a request, which is in the worker's buffers still: with nothing to be sent before it, the job begins.
    #[inline(never)]
    pub(super) fn wait_for_answer(&mut self, id: ConnId) {
        let reply = &mut self.buffers.reply;
        if !reply.is_empty() {
            return self.go_on(id, Next::Wait, None);
        }
        if let Some(later) = reply.take_later() {
            self.table.live_mut(id).arriving = Arriving::Answer;
            self.jobs.hold(id.slot, later);
        }
        let todo = self.begin_job(id);
        self.drive(id, todo);
    }

    /// Everything before it is sent: the job may begin.
    pub(super) fn begin_job(&mut self, id: ConnId) -> Todo {
        let Some(waiting) = self.jobs.waiting(id.slot) else { return Todo::Close(CloseReason::Handler) };
        if waiting.queued.is_some() {
            return Todo::Park;
        }
        let Some(job) = waiting.later.take_work().and_then(Job::from_work) else {
            // It was left for somebody else, who is not there.
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
        // One piece of input is read, to hear of a client that leaves.
        let conn = self.table.live_mut(id);
        match (conn.input.is_empty() && !conn.peer_finished, conn.drained) {
            (false, _) => Todo::Park,
            (true, true) => Todo::Recv(Expect::Later),
            (true, false) => Todo::Recv(Expect::Now),
        }
    }

    /// Gives the protocol what a request waited for.
    fn answer(&mut self, id: ConnId, outcome: Outcome) -> Next {
        let Some(waiting) = self.jobs.slots[id.slot.index()].take() else { return Next::Close };
        self.answer_later(id, waiting.later, outcome)
    }

    fn answer_later(&mut self, id: ConnId, later: Box<Later>, outcome: Outcome) -> Next {
        self.table.live_mut(id).arriving = Arriving::Done;
        self.tell(id, Input::Answer(Answer { later, outcome }))
    }

    /// The answers that came since the last turn.
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
            let waiting = self.table.lookup(id).is_some_and(|conn| conn.arriving == Arriving::Answer);
            let Some(later) = self.jobs.claim(&delivery).filter(|_| waiting) else {
                self.shared.counters.answers_dropped.add(1);
                dispose(delivery);
                continue;
            };
            self.deliver(id, later, delivery.outcome);
        }
        self.jobs.arrived = arrived;
    }

    /// The usual answer leaves at once, and with nothing behind it the connection waits for its next request.
    fn deliver(&mut self, id: ConnId, later: Box<Later>, outcome: Outcome) {
        let (speaker, conn, _) = self.speaker(id);
        conn.arriving = Arriving::Done;
        let next = speaker.say(conn, Input::Answer(Answer { later, outcome }));
        let reply = &mut self.buffers.reply;
        if next != Next::Flush || reply.unsent().is_empty() || !reply.body.is_empty() {
            return self.go_on(id, next, None);
        }
        let sent = self.driver.send_now(id, &reply.head, false);
        if sent != Some(Ok(reply.head.len())) {
            return self.go_on(id, next, sent);
        }
        self.shared.counters.bytes_out.add(reply.head.len() as u64);
        reply.head_is_sent();
        let (speaker, conn, _) = self.speaker(id);
        conn.replied = true;
        let next = speaker.say(conn, Input::Resume);
        let has_more = !self.buffers.reply.unsent().is_empty() || !self.buffers.reply.body.is_empty();
        let conn = self.table.live_mut(id);
        if next == Next::Read && conn.recv_in_flight && !has_more {
            return self.park(id);
        }
        self.go_on(id, next, None);
    }

    /// The connection does not wait any more: its job is called off, or its answer will find nobody.
    #[cold]
    pub(super) fn give_up_job(&mut self, id: ConnId) {
        if self.jobs.cancel(id.slot) {
            self.shared.counters.jobs_cancelled.add(1);
        }
        self.jobs.slots[id.slot.index()] = None;
        self.table.live_mut(id).arriving = Arriving::Done;
    }

    /// Something came while the answer is being made.
    #[cold]
    pub(super) fn on_received_waiting(&mut self, id: ConnId, received: Received) -> Todo {
        match received {
            Received::Data { chunk, drained } => {
                self.table.live_mut(id).drained = drained;
                self.set_aside(id, chunk)
            }
            Received::Eof => {
                let conn = self.table.live_mut(id);
                conn.peer_finished = true;
                conn.drained = true;
                let queued = self.jobs.waiting(id.slot).and_then(|waiting| waiting.queued.as_ref());
                if queued.is_some_and(|queued| queued.ticket.fin_cancels()) && self.jobs.cancel(id.slot) {
                    self.shared.counters.jobs_cancelled.add(1);
                    self.jobs.slots[id.slot.index()] = None;
                    self.table.live_mut(id).arriving = Arriving::Done;
                    return Todo::Close(CloseReason::ClientGone);
                }
                Todo::Park
            }
            Received::Failed(_) => Todo::Close(CloseReason::ClientReset),
        }
    }

    /// Keeps bytes that nobody may hear yet, behind those that are kept already.
    #[cold]
    pub(super) fn set_aside(&mut self, id: ConnId, chunk: Chunk) -> Todo {
        let conn = self.table.live_mut(id);
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
