//! Connections that one worker accepts and another one serves: the choice of the worker, and the
//! queue of each worker.
//!
//! Does not know about: drivers; the steps of a worker (see [`super::pass`]).
//!
//! The worker that accepts a connection of a balanced listener chooses the worker that serves it.
//! If that is another worker, the accepting worker releases the descriptor and adds it to the queue
//! of the other worker, which admits the connection like one of its own.
//!
//! A worker gets no connection while its table or its queue is full, or while too many of its
//! connections wait to be handed over. If no worker may get the connection, the accepting worker
//! keeps it: its listener is armed, so its table has room. So no connection is dropped. A worker
//! that drains or stops gets no more connections from other workers, so its queue is empty at the
//! end.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, MutexGuard};

use crate::config::Limits;
use crate::control::{Command, WorkerShared};
use crate::id::ListenerIndex;
use crate::net::Balance;
use crate::sync::{Mutex, PoisonError};

/// Maximum number of connections in the queue of a worker. At most the number of slots that a
/// worker has beyond its maximum of connections ([`accept_margin`](super::accept_margin)), so each
/// connection in a queue gets a slot.
const QUEUE_MAX: usize = 64;

/// The queues of all workers. The [module](self) documents them.
#[derive(Debug)]
pub(crate) struct Balancer {
    workers: Vec<Arc<WorkerShared>>,
    /// By [`ListenerIndex`]; the entries of datagram listeners follow and are not used.
    balances: Vec<Balance>,
    /// Maximum number of connections of a worker.
    conns_max: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By [`ListenerIndex`]: the worker that is next in rotation.
    turns: Vec<usize>,
    members: Vec<Member>,
    /// Buffer for the argument of [`Balance::choose`].
    loads: Vec<Option<u64>>,
}

/// The state of a worker.
#[derive(Debug)]
struct Member {
    /// False once the worker drains, stops or has failed.
    is_open: bool,
    /// True while too many connections of the worker wait to be handed over.
    is_held: bool,
    /// At most [`QUEUE_MAX`] entries. If another worker fails, the entries of its queue are added
    /// regardless.
    queue: VecDeque<Passed>,
}

/// A connection on its way to another worker.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) listener: ListenerIndex,
    pub(super) fd: OwnedFd,
}

/// The result of [`Balancer::pass`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// True if another worker serves the connection.
    pub(super) is_passed: bool,
    /// True if a worker was left out because its queue is full.
    pub(super) was_full: bool,
}

/// A worker's part of a [`Balancer`].
#[derive(Debug)]
pub(super) struct Membership {
    balancer: Arc<Balancer>,
    index: usize,
}

impl Membership {
    /// The part of `worker`, if the server balances connections itself.
    pub(super) fn of(worker: &Arc<WorkerShared>, balancer: Option<&Arc<Balancer>>) -> Option<Self> {
        let balancer = Arc::clone(balancer?);
        let index = balancer.workers.iter().position(|known| Arc::ptr_eq(known, worker))?;
        let membership = Self { balancer, index };
        // This worker may replace one that was held.
        membership.hold(false);
        Some(membership)
    }

    /// True if no connection waits for this worker.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.balancer.lock().members[self.index].queue.len()
    }

    /// While `held`, no further connection is passed to this worker.
    pub(super) fn hold(&self, held: bool) {
        self.balancer.lock().members[self.index].is_held = held;
    }

    /// From now on, no connection is passed to this worker.
    pub(super) fn leave(&self) {
        self.balancer.lock().members[self.index].is_open = false;
    }

    /// See [`Balancer::pass`].
    pub(super) fn pass(
        &self,
        listener: ListenerIndex,
        live: u32,
        release: impl FnOnce() -> Option<OwnedFd>,
    ) -> Outcome {
        self.balancer.pass(listener, self.index, live, release)
    }

    /// See [`Balancer::take`].
    pub(super) fn take(&self, live: u32) -> Option<Passed> {
        self.balancer.take(self.index, live)
    }

    /// Closes the connections in the queue.
    pub(super) fn close_queue(&self) {
        let queue = core::mem::take(&mut self.balancer.lock().members[self.index].queue);
        drop(queue);
    }
}

impl Member {
    const fn new() -> Self {
        Self { is_open: true, is_held: false, queue: VecDeque::new() }
    }

    fn is_full(&self) -> bool {
        self.is_open && self.queue.len() >= QUEUE_MAX
    }

    /// Number of connections of the worker; `None` if the worker gets no connection.
    fn load(&self, worker: &WorkerShared, conns_max: u64) -> Option<u64> {
        let load = worker.counters.conns_live.value() + self.queue.len() as u64;
        let is_able = self.is_open && !self.is_held && !self.is_full() && load < conns_max;
        is_able.then_some(load)
    }
}

impl Balancer {
    /// Creates the queues of `workers`.
    pub(crate) fn new(workers: Vec<Arc<WorkerShared>>, balances: Vec<Balance>, limits: &Limits) -> Self {
        let count = u16::try_from(workers.len()).expect("the number of workers has 16 bits");
        let conns_max = limits.conns_max_of_worker(count);
        let state = State {
            turns: vec![0; balances.len()],
            members: workers.iter().map(|_| Member::new()).collect(),
            loads: Vec::with_capacity(workers.len()),
        };
        Self { workers, balances, conns_max: conns_max.into(), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses a worker for a connection that worker `from`, which has `live` connections, has
    /// accepted. If another worker is chosen, `release` returns the connection's descriptor; if it
    /// returns `None`, the accepting worker keeps the connection.
    fn pass(
        &self,
        listener: ListenerIndex,
        from: usize,
        live: u32,
        release: impl FnOnce() -> Option<OwnedFd>,
    ) -> Outcome {
        let own = &self.workers[from].counters.conns_live;
        own.set(live.into());
        let mut state = self.lock();
        let was_full = state.members.iter().any(Member::is_full);
        let kept = Outcome { is_passed: false, was_full };
        let Some(to) = state.choose(self, listener) else { return kept };
        if to == from {
            own.set(u64::from(live) + 1);
            return kept;
        }
        let Some(fd) = release() else { return kept };
        state.put(self, to, Passed { listener, fd });
        Outcome { is_passed: true, was_full }
    }

    /// Takes the next connection for a worker, which has `live` connections without it.
    fn take(&self, worker: usize, live: u32) -> Option<Passed> {
        let mut state = self.lock();
        let passed = state.members[worker].queue.pop_front()?;
        // Counts the connection at once; the worker updates its counters only at the end of its
        // turn.
        self.workers[worker].counters.conns_live.set(u64::from(live) + 1);
        Some(passed)
    }

    /// Passes the connections in the queue of a failed worker to the other workers, even if their
    /// queues are full. If all other workers have left, the server is ending, and the connections
    /// are closed.
    pub(crate) fn fail(&self, worker: usize) {
        let mut state = self.lock();
        let Some(failed) = state.members.get_mut(worker) else { return };
        failed.is_open = false;
        for passed in core::mem::take(&mut failed.queue) {
            let shortest = |state: &State| {
                let open = state.members.iter().enumerate().filter(|(_, member)| member.is_open);
                open.min_by_key(|(_, member)| member.queue.len()).map(|(to, _)| to)
            };
            let chosen = state.choose(self, passed.listener).or_else(|| shortest(&state));
            let Some(to) = chosen else { return };
            state.put(self, to, passed);
        }
    }
}

impl State {
    fn choose(&mut self, of: &Balancer, listener: ListenerIndex) -> Option<usize> {
        let loads =
            self.members.iter().zip(&of.workers).map(|(member, worker)| member.load(worker, of.conns_max));
        self.loads.clear();
        self.loads.extend(loads);
        let turn = &mut self.turns[listener.index()];
        let to = of.balances[listener.index()].choose(&self.loads, *turn)?;
        *turn = (to + 1) % of.workers.len();
        Some(to)
    }

    fn put(&mut self, of: &Balancer, to: usize, passed: Passed) {
        let queue = &mut self.members[to].queue;
        queue.push_back(passed);
        if queue.len() == 1 {
            // One command is enough: the worker takes all connections in the queue.
            of.workers[to].send(Command::Adopt);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::driver::Waker;

    const LISTENER: ListenerIndex = ListenerIndex(0);

    fn balancer(balance: Balance, workers: usize, conns_max: u32) -> Balancer {
        let worker = |_| Arc::new(WorkerShared::new(Waker::pair().unwrap().0));
        let limits = Limits { conns_max, ..Limits::default() };
        Balancer::new((0..workers).map(worker).collect(), vec![balance], &limits)
    }

    impl Balancer {
        /// Accepts `count` connections in worker `from`; returns the number of those that it keeps.
        fn accept(&self, from: usize, count: usize) -> usize {
            let fd = || UnixStream::pair().unwrap().0.into();
            let kept = |_: &usize| {
                let live = self.workers[from].counters.conns_live.value();
                !self.pass(LISTENER, from, u32::try_from(live).unwrap(), || Some(fd())).is_passed
            };
            (0..count).filter(kept).count()
        }

        fn queued(&self) -> Vec<usize> {
            self.lock().members.iter().map(|member| member.queue.len()).collect()
        }
    }

    #[test]
    fn connections_are_passed_in_turn_and_wake_their_worker_once() {
        let balancer = balancer(Balance::RoundRobin, 3, 1_000);
        assert_eq!((balancer.accept(1, 9), balancer.queued()), (3, vec![3, 0, 3]));
        assert_eq!(balancer.workers[0].inbox.take(), [Command::Adopt]);
        assert!(balancer.workers[1].inbox.take().is_empty());
        (0..3).for_each(|live| assert!(balancer.take(0, live).is_some()));
        assert!(balancer.take(0, 3).is_none());
        assert_eq!(balancer.workers[0].counters.conns_live.value(), 3, "they count at once");
    }

    #[test]
    fn open_and_queued_connections_are_the_load_of_a_worker() {
        let balancer = balancer(Balance::LeastConnections, 3, 1_000);
        balancer.workers[0].counters.conns_live.set(4);
        balancer.workers[1].counters.conns_live.set(1);
        assert_eq!(balancer.accept(0, 4), 0);
        assert_eq!(balancer.queued(), [0, 2, 2], "3 and 2 connections");
        assert_eq!(balancer.accept(0, 6), 1);
        assert_eq!(balancer.queued(), [0, 4, 5], "5 connections each");
    }

    #[test]
    fn a_full_worker_is_left_out_and_the_accepting_worker_keeps_what_no_other_may_get() {
        let balancer = balancer(Balance::RoundRobin, 2, 10_000);
        assert_eq!((balancer.accept(0, 2 * QUEUE_MAX), balancer.queued()), (QUEUE_MAX, vec![0, QUEUE_MAX]));
        let fd = || -> Option<OwnedFd> { panic!("the connection stays") };
        let outcome = balancer.pass(LISTENER, 0, 0, fd);
        assert_eq!(outcome, Outcome { is_passed: false, was_full: true });
        // A worker with a full table.
        let small = self::balancer(Balance::RoundRobin, 2, 8);
        assert_eq!((small.accept(0, 20), small.queued()), (16, vec![0, 4]));
    }

    #[test]
    fn a_connection_that_cannot_be_released_stays() {
        let balancer = balancer(Balance::RoundRobin, 2, 100);
        balancer.accept(0, 1);
        assert!(!balancer.pass(LISTENER, 0, 1, || None).is_passed);
        assert_eq!(balancer.queued(), [0, 0]);
    }

    #[test]
    fn a_worker_that_leaves_or_is_held_gets_no_more() {
        let balancer = Arc::new(balancer(Balance::RoundRobin, 3, 1_000));
        let member = |index| Membership { balancer: Arc::clone(&balancer), index };
        assert!(
            Membership::of(&balancer.workers[2], Some(&balancer)).is_some_and(|member| member.index == 2)
        );
        balancer.accept(0, 6);
        member(1).hold(true);
        member(2).leave();
        assert_eq!((balancer.accept(0, 6), balancer.queued()), (6, vec![0, 2, 2]));
        // As after a change of the driver.
        assert!(Membership::of(&balancer.workers[1], Some(&balancer)).is_some());
        assert_eq!((balancer.accept(0, 6), balancer.queued()), (3, vec![0, 5, 2]));
        assert!(balancer.take(2, 0).is_some(), "it serves what it has");
        member(2).close_queue();
        assert!(member(2).is_empty() && !member(1).is_empty());
    }

    #[test]
    fn the_queue_of_a_failed_worker_goes_to_the_others() {
        let balancer = balancer(Balance::RoundRobin, 3, 1_000);
        balancer.accept(0, 3 * 10);
        balancer.workers.iter().for_each(|worker| drop(worker.inbox.take()));
        balancer.fail(1);
        assert_eq!(balancer.queued(), [5, 0, 15]);
        assert_eq!(balancer.workers[0].inbox.take(), [Command::Adopt]);
        // Even if its queue is full.
        balancer.accept(0, 6 * QUEUE_MAX);
        assert_eq!(balancer.queued(), [5, 0, QUEUE_MAX]);
        balancer.lock().members[0].is_held = true;
        balancer.fail(2);
        assert_eq!(balancer.queued(), [5 + QUEUE_MAX, 0, 0]);
        balancer.fail(0);
        assert_eq!(balancer.queued(), [0, 0, 0], "the server has ended");
    }
}
