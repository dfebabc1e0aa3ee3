//! Hand-over of connections: reserves a permit for each connection, detaches the connection from
//! the driver, and passes one batch per turn to the receiver.

use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::handler_call::Input;
use super::{Todo, Worker};
use crate::conn::Phase;
use crate::driver::{Driver, Errno, Received, Step};
use crate::error::CloseReason;
use crate::hand_over::{Gate, HandOver, HandedConn, WhenFull};
use crate::id::{ConnId, ListenerIndex};
use crate::net::Inherited;
use crate::panics::caught;
use crate::protocol::Protocol as _;
use crate::time::Clock;

/// The state of one worker for a [`HandOver`].
#[derive(Debug)]
pub(super) struct Departures {
    /// Connections that were detached in this turn.
    batch: Vec<HandedConn>,
    /// Connections that wait for a permit, the longest waiting first, and outdated entries of
    /// connections that no longer wait. At most as many entries as slots.
    waiting: VecDeque<Waiting>,
    /// True while the batch is not empty or connections wait, so that the turn must call
    /// `flush_departures`.
    pub(super) busy: bool,
    /// True while listeners must not accept because too many connections wait.
    holding: bool,
    places: Option<Reserved>,
    /// Socket options by listener. The options are read from the first handed-over connection of a
    /// listener. They are the same for all its connections, and reading them costs system calls.
    inherited: Vec<Option<Inherited>>,
}

/// A connection that waits for a permit, and the time that was left until its protocol's deadline
/// when the wait began.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: ConnId,
    time_left: Duration,
}

/// Permits reserved for connections that have not left the driver. A worker that fails returns
/// them.
#[derive(Debug)]
struct Reserved {
    gate: Arc<Gate>,
    count: u32,
}

impl Departures {
    pub(super) fn new(hand_over: Option<&HandOver>) -> Self {
        let places = hand_over.map(|to| Reserved { gate: Arc::clone(&to.gate), count: 0 });
        Self {
            batch: Vec::new(),
            waiting: VecDeque::new(),
            busy: false,
            holding: false,
            places,
            inherited: Vec::new(),
        }
    }

    /// Reserves a permit. Returns false if none is available.
    fn reserve(&mut self) -> bool {
        let Some(places) = &mut self.places else { return false };
        let entered = places.gate.enter();
        places.count += u32::from(entered);
        entered
    }

    /// Releases the permit of a connection that is not handed over.
    fn give_back(&mut self) {
        if let Some(places) = &mut self.places {
            places.count -= 1;
            places.gate.leave();
        }
    }

    /// Number of connections with a permit that have not left the driver yet.
    pub(super) fn leaving(&self) -> usize {
        self.places.as_ref().map_or(0, |places| places.count as usize)
    }

    fn gate(&self) -> Option<&Arc<Gate>> {
        self.places.as_ref().map(|places| &places.gate)
    }
}

/// Returns the socket options that connections of this listener inherit; `fd` is such a connection.
fn inherited(known: &mut Vec<Option<Inherited>>, listener: ListenerIndex, fd: &OwnedFd) -> Inherited {
    if known.len() <= listener.index() {
        known.resize(listener.index() + 1, None);
    }
    *known[listener.index()].get_or_insert_with(|| Inherited::of(fd))
}

impl Drop for Reserved {
    fn drop(&mut self) {
        (0..self.count).for_each(|_| self.gate.leave());
    }
}

impl<D: Driver, C: Clock> Worker<D, C> {
    /// Hands the connection over, makes it wait for a permit, or refuses the hand-over. Called
    /// after all output was sent.
    #[cold]
    pub(super) fn hand_over(&mut self, id: ConnId) -> Todo {
        let time_left = self.time_left(id);
        if self.departures.reserve() {
            return self.begin_leave(id, time_left);
        }
        let when_full = self.server.hand_over.as_ref().map_or(WhenFull::Refuse, |to| to.when_full);
        let closed = self.departures.gate().is_none_or(|gate| gate.is_closed());
        match when_full {
            WhenFull::Wait { timeout, .. } if !closed => {
                self.shared.counters.hand_over_waits.add(1);
                let deadline = self.now.after(timeout);
                self.table.live_mut(id).wait_to_leave(deadline);
                self.wheel.arm(id.slot, deadline);
                if self.departures.waiting.len() >= self.table.live() as usize {
                    self.forget_gone();
                }
                self.departures.waiting.push_back(Waiting { id, time_left });
                self.departures.busy = true;
                Todo::Park
            }
            WhenFull::Refuse | WhenFull::Wait { .. } => self.not_taken(id),
        }
    }

    /// Removes the entries of connections that no longer wait.
    fn forget_gone(&mut self) {
        let table = &mut self.table;
        let waits =
            |waiting: &Waiting| table.lookup(waiting.id).is_some_and(|conn| conn.phase() == Phase::Waiting);
        self.departures.waiting.retain(waits);
    }

    /// Refuses the hand-over. The protocol writes the error reply.
    pub(super) fn not_taken(&mut self, id: ConnId) -> Todo {
        self.shared.counters.hand_over_refused.add(1);
        let conn = self.table.live_mut(id);
        if conn.phase() != Phase::Open {
            conn.reopen();
        }
        Todo::Next(self.pass_input(id, Input::Overload(CloseReason::NotTaken)))
    }

    /// Time left until the protocol's current deadline.
    fn time_left(&mut self, id: ConnId) -> Duration {
        let conn = self.table.live_mut(id);
        let protocol = &self.server.protocols[conn.listener.index()];
        // Until the connection first waits, `deadline` is the time at which it was opened.
        let opened = conn.deadline;
        let deadline = protocol.deadline(conn.protocol.get_or_insert_with(|| protocol.open(opened)));
        deadline.since(self.now)
    }

    fn begin_leave(&mut self, id: ConnId, time_left: Duration) -> Todo {
        let conn = self.table.live_mut(id);
        conn.begin_leave();
        conn.deadline = self.now.after(time_left);
        if conn.in_flight() {
            self.driver.cancel(id);
            return Todo::Park;
        }
        self.detach(id)
    }

    fn detach(&mut self, id: ConnId) -> Todo {
        match self.driver.detach(id) {
            Step::Done(result) => self.on_detached(id, result),
            Step::Pending => Todo::Park,
        }
    }

    /// Handles a receive of a connection that waits or leaves: the bytes are handed over with the
    /// connection.
    pub(super) fn on_received_leaving(&mut self, id: ConnId, received: Received) -> Todo {
        match received {
            Received::Data { chunk, .. } => {
                self.shared.counters.bytes_in.add(u64::from(chunk.len));
                let conn = self.table.live_mut(id);
                let before = conn.input.capacity();
                conn.input.extend_from_slice(self.driver.received(&chunk));
                // At most one receive was in flight, so the memory is bounded even above the limit.
                let _within = self.input_memory.change(before, conn.input.capacity());
                self.driver.recycle(chunk);
            }
            Received::Eof => self.table.live_mut(id).peer_finished = true,
            Received::Failed(Errno::CANCELED | Errno::INTR | Errno::NOBUFS | Errno::AGAIN) => {}
            Received::Failed(_) => {
                if self.table.live_mut(id).phase() == Phase::Leaving {
                    self.departures.give_back();
                }
                return Todo::Close(CloseReason::ClientReset);
            }
        }
        if self.table.live_mut(id).phase() == Phase::Leaving { self.detach(id) } else { Todo::Park }
    }

    /// Handles the result of a detach.
    pub(super) fn on_detached(&mut self, id: ConnId, result: Result<OwnedFd, Errno>) -> Todo {
        let (fd, places) = match (result, &mut self.departures.places) {
            (Ok(fd), Some(places)) => (fd, places),
            (Ok(_), None) => unreachable!("a connection leaves only with a permit"),
            (Err(_), _) => {
                self.shared.counters.hand_over_errors.add(1);
                self.departures.give_back();
                return self.not_taken(id);
            }
        };
        places.count -= 1;
        let permit = places.gate.permit();
        let conn = self.table.live_mut(id);
        inherited(&mut self.departures.inherited, conn.listener, &fd).undo(&fd);
        let bytes = core::mem::take(&mut conn.input);
        let within = self.input_memory.change(bytes.capacity(), 0);
        debug_assert!(within, "shrinking is always within the cap");
        let time_left = conn.deadline.since(self.now);
        let handed =
            HandedConn { fd, bytes, listener: conn.listener, client: conn.client.addr(), time_left, permit };
        conn.leave();
        self.departures.batch.push(handed);
        self.departures.busy = true;
        self.forget(id);
        Todo::Park
    }

    /// Hands over waiting connections for which there are permits, and gives the batch of the turn
    /// to the receiver.
    #[cold]
    pub(super) fn flush_departures(&mut self) {
        let server = Arc::clone(&self.server);
        let Some(to) = &server.hand_over else { return };
        self.let_leave();
        if !self.departures.batch.is_empty() {
            let batch = &mut self.departures.batch;
            if caught(|| to.taker.take(batch)).is_err() {
                self.shared.counters.handler_panics.add(1);
            }
            self.shared.counters.hand_over_errors.add(self.departures.batch.len() as u64);
            self.departures.batch.clear();
        }
        if let WhenFull::Wait { conns, .. } = to.when_full {
            self.hold_listeners(conns);
        }
        self.departures.busy = !self.departures.waiting.is_empty();
    }

    /// Hands over waiting connections in their order, as long as there are permits.
    fn let_leave(&mut self) {
        if self.departures.waiting.is_empty() {
            return;
        }
        if let Some(gate) = self.departures.gate() {
            gate.waits();
        }
        let closed = self.departures.gate().is_none_or(|gate| gate.is_closed());
        while let Some(&Waiting { id, time_left }) = self.departures.waiting.front() {
            if self.table.lookup(id).is_some_and(|conn| conn.phase() == Phase::Waiting) {
                let todo = if closed {
                    self.not_taken(id)
                } else if self.departures.reserve() {
                    self.begin_leave(id, time_left)
                } else {
                    return;
                };
                self.drive(id, todo);
            }
            self.departures.waiting.pop_front();
        }
    }

    /// Stops accepting on the listeners of waiting connections while more than `conns` wait.
    fn hold_listeners(&mut self, conns: u32) {
        let is_over = |waiting: &VecDeque<_>| waiting.len() > conns as usize;
        if is_over(&self.departures.waiting) {
            self.forget_gone();
        }
        let hold = is_over(&self.departures.waiting);
        if hold {
            for Waiting { id, .. } in &self.departures.waiting {
                let Some(listener) = self.table.lookup(*id).map(|conn| conn.listener) else { continue };
                let gate = &mut self.gates[listener.index()];
                if !gate.hold(true) {
                    continue;
                }
                self.shared.counters.hand_over_pauses.add(1);
                if gate.should_disarm() {
                    self.driver.disarm_accept(listener);
                }
            }
        } else if self.departures.holding {
            self.gates.iter_mut().for_each(|gate| {
                gate.hold(false);
            });
            self.gates_changed = true;
        }
        if core::mem::replace(&mut self.departures.holding, hold) != hold
            && let Some(membership) = &self.membership
        {
            membership.hold(hold);
        }
    }
}
