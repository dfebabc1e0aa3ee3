//! Models of jobs: from a worker through the queue to a thread and back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use doorbell_http::{Reply, Status, Time};
use loom::thread::{self, JoinHandle};

use super::explore;
use crate::driver::{WakeSource, Waker};
use crate::id::{ConnId, Generation, SlotIndex};
use crate::offload::{Class, Core, Executor, Inbox, Job, JobContext, JobReply, Outcome, Pump, Ticket};

/// An executor that runs each [`Pump`], a task that empties the queues, on a new thread. `threads`
/// is the maximum number of pumps at a time.
#[derive(Clone, Default)]
struct Threads {
    threads: usize,
    started: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Executor for Threads {
    fn threads(&self) -> usize {
        self.threads
    }

    fn spawn(&self, pump: Pump) {
        let started = thread::spawn(move || pump.run());
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(started);
    }
}

impl Threads {
    fn join(&self) {
        loop {
            let last = self.started.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(last) = last else { return };
            last.join().expect("pumps do not panic");
        }
    }
}

/// Queues `work` if there is room.
fn submit(
    core: &Arc<Core>,
    number: u64,
    inbox: &Arc<Inbox>,
    work: impl FnOnce() + Send + 'static,
) -> Option<Ticket> {
    let work = move |_: &JobContext<'_>| {
        work();
        JobReply::Reply(Reply::new(Status::OK))
    };
    Job::new(Arc::clone(core), Class::Normal, Time::MAX, work).submit(CONN, number, inbox)
}

const CONN: ConnId = ConnId { slot: SlotIndex(0), generation: Generation::new(0) };

/// Runs the worker's side: sleeps until it has received `count` results, and asserts that each
/// result is that of a job that ran.
fn await_answers(inbox: &Inbox, source: &WakeSource, count: usize) {
    let mut found = Vec::new();
    while found.len() < count {
        if inbox.fall_asleep() {
            source.wait();
        }
        inbox.awake();
        let before = found.len();
        inbox.take(&mut found);
        if found.len() == before {
            thread::yield_now();
        }
    }
    assert!(found.iter().all(|delivery| matches!(delivery.outcome, Outcome::Replied(_))), "{found:?}");
}

/// A job is cancelled while a thread is about to take it. If the cancellation succeeds, the job
/// never runs, its captured values are dropped, and there is no result. Otherwise the job runs once
/// and delivers one result.
pub fn called_off() -> usize {
    explore(None, || {
        let threads = Threads { threads: 1, ..Threads::default() };
        let core = Arc::new(Core::of(threads.clone(), 1));
        let (waker, source) = Waker::pair();
        let inbox = Arc::new(Inbox::new(waker));
        let ran = Arc::new(AtomicUsize::new(0));
        let ticket = {
            let ran = Arc::clone(&ran);
            submit(&core, 0, &inbox, move || {
                ran.fetch_add(1, Ordering::Relaxed);
            })
        };
        let cancelled = ticket.expect("there is room").call_off();
        if cancelled {
            assert_eq!(Arc::strong_count(&ran), 1, "a cancelled job drops its captures at once");
        } else {
            await_answers(&inbox, &source, 1);
        }
        threads.join();
        assert_eq!(ran.load(Ordering::Relaxed), usize::from(!cancelled));
        let mut late = Vec::new();
        inbox.take(&mut late);
        assert!(late.is_empty(), "{late:?}");
    })
}

/// Two workers queue one job each for a thread that may be about to stop: both jobs run, one after
/// the other.
pub fn one_thread() -> usize {
    explore(Some(2), || {
        let threads = Threads { threads: 1, ..Threads::default() };
        let core = Arc::new(Core::of(threads.clone(), 2));
        let running = Arc::new(AtomicUsize::new(0));
        let worker = |core: Arc<Core>, running: Arc<AtomicUsize>| {
            move || {
                let (waker, source) = Waker::pair();
                let inbox = Arc::new(Inbox::new(waker));
                let ticket = submit(&core, 0, &inbox, move || {
                    assert_eq!(running.fetch_add(1, Ordering::Relaxed), 0, "one thread, one job at a time");
                    thread::yield_now();
                    running.fetch_sub(1, Ordering::Relaxed);
                });
                assert!(ticket.is_some());
                await_answers(&inbox, &source, 1);
            }
        };
        let other = thread::spawn(worker(Arc::clone(&core), Arc::clone(&running)));
        worker(core, running)();
        other.join().expect("the other worker got its result");
        threads.join();
    })
}

/// Two jobs of one worker, for up to two threads; the second job may arrive while the first thread
/// stops. Every accepted job runs, and the second job is refused if the queue is still full.
pub fn pumps() -> usize {
    explore(Some(2), || {
        let threads = Threads { threads: 2, ..Threads::default() };
        let core = Arc::new(Core::of(threads.clone(), 1));
        let (waker, source) = Waker::pair();
        let inbox = Arc::new(Inbox::new(waker));
        let ran = Arc::new(AtomicUsize::new(0));
        let mut taken = 0;
        for number in 0..2 {
            let ran = Arc::clone(&ran);
            let ticket = submit(&core, number, &inbox, move || {
                ran.fetch_add(1, Ordering::Relaxed);
            });
            taken += usize::from(ticket.is_some());
        }
        assert!(taken >= 1, "there is room for the first job");
        await_answers(&inbox, &source, taken);
        threads.join();
        assert_eq!(ran.load(Ordering::Relaxed), taken);
    })
}

/// Two jobs are submitted and cancelled, then a third job is submitted; a thread may take each job
/// at any time. If both cancellations succeeded, the queue, which has room for one job, accepts the
/// third, even while the entries of the cancelled jobs are still queued.
pub fn room_of_those_who_left() -> usize {
    explore(Some(2), || {
        let threads = Threads { threads: 1, ..Threads::default() };
        let core = Arc::new(Core::of(threads.clone(), 1));
        let (waker, source) = Waker::pair();
        let inbox = Arc::new(Inbox::new(waker));
        let (mut expected, mut left) = (0, 0);
        for number in 0..2 {
            match submit(&core, number, &inbox, || {}) {
                Some(ticket) if ticket.call_off() => left += 1,
                Some(_) => expected += 1,
                None => assert!(expected > 0, "only a job that was not cancelled fills the queue"),
            }
        }
        let last = submit(&core, 2, &inbox, || {});
        assert!(last.is_some() || left < 2, "cancelled jobs do not fill the queue");
        await_answers(&inbox, &source, expected + usize::from(last.is_some()));
        threads.join();
        assert_eq!(core.queued(Class::Normal), 0);
    })
}
