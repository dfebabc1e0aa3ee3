//! Tests of the queue and the inbox without a server: order, bounds, concurrent threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use doorbell_http::{Reply, Status};

use super::*;
use crate::driver::Waker;
use crate::id::{ConnId, Generation, SlotIndex};

/// An executor that stores pumps, so that the test can run them.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Pump>>>);

impl Executor for Kept {
    fn threads(&self) -> usize {
        2
    }

    fn spawn(&self, pump: Pump) {
        self.0.lock().unwrap().push(pump);
    }
}

fn inbox() -> (Arc<Inbox>, crate::driver::WakeSource) {
    let (waker, source) = Waker::pair().unwrap();
    (Arc::new(Inbox::new(waker)), source)
}

const fn conn(slot: u32) -> ConnId {
    ConnId { slot: SlotIndex(slot), generation: Generation::new(7) }
}

fn submit(offload: &Offload, class: Class, slot: u32, inbox: &Arc<Inbox>) -> Option<Ticket> {
    let job = Job::new(Arc::clone(&offload.core), class, Time::MAX, move |_| {
        Reply::text(Status::OK, slot.to_string())
    });
    job.submit(conn(slot), u64::from(slot), inbox)
}

/// Number of wake-ups since the last call.
fn wakes(source: &crate::driver::WakeSource) -> u64 {
    let mut count = [0; 8];
    rustix::io::read(source.as_fd(), &mut count).map_or(0, |_| u64::from_ne_bytes(count))
}

fn slots(inbox: &Inbox) -> Vec<u32> {
    let mut taken = Vec::new();
    inbox.take(&mut taken);
    taken.iter().map(|delivery| delivery.conn.slot.0).collect()
}

#[test]
fn at_most_one_pump_per_thread_and_no_job_is_lost() {
    let kept = Kept::default();
    let offload = Offload::builder().build_on(kept.clone());
    let (inbox, _source) = inbox();
    (0..10).for_each(|slot| assert!(submit(&offload, Class::Normal, slot, &inbox).is_some()));
    let pumps = core::mem::take(&mut *kept.0.lock().unwrap());
    assert_eq!(pumps.len(), 2);
    pumps.into_iter().for_each(Pump::run);
    assert_eq!(slots(&inbox), (0..10).collect::<Vec<_>>());
    assert!(submit(&offload, Class::Normal, 11, &inbox).is_some());
    assert_eq!(kept.0.lock().unwrap().len(), 1, "the earlier pumps have finished, so there is a new one");
}

#[test]
fn high_goes_first_and_normal_does_not_starve() {
    let kept = Kept::default();
    let offload = Offload::builder().build_on(kept.clone());
    let (inbox, _source) = inbox();
    (0..3).for_each(|slot| assert!(submit(&offload, Class::Normal, slot, &inbox).is_some()));
    (100..150).for_each(|slot| assert!(submit(&offload, Class::High, slot, &inbox).is_some()));
    let pump = kept.0.lock().unwrap().remove(0);
    pump.run();
    let order = slots(&inbox);
    let places: Vec<_> =
        order.iter().enumerate().filter(|(_, slot)| **slot < 100).map(|(at, _)| at).collect();
    assert_eq!((order.len(), places), (53, vec![15, 31, 47]), "one in sixteen");
}

#[test]
fn a_full_queue_refuses_jobs_and_the_other_queue_does_not() {
    let kept = Kept::default();
    let offload = Offload::builder().queue_max(Class::Normal, 2).build_on(kept.clone());
    let (inbox, _source) = inbox();
    let taken: Vec<_> = (0..4).map(|slot| submit(&offload, Class::Normal, slot, &inbox).is_some()).collect();
    assert_eq!(taken, [true, true, false, false]);
    assert!(submit(&offload, Class::High, 9, &inbox).is_some());
    assert_eq!((offload.queued(Class::Normal), offload.queued(Class::High)), (2, 1));
    let pump = kept.0.lock().unwrap().remove(0);
    pump.run();
    assert_eq!(slots(&inbox), [9, 0, 1]);
}

#[test]
fn a_cancelled_job_does_not_run_and_drops_what_it_captured() {
    let kept = Kept::default();
    let offload = Offload::builder().build_on(kept.clone());
    let (inbox, _source) = inbox();
    let held = Arc::new(());
    let job = {
        let held = Arc::clone(&held);
        Job::new(Arc::clone(&offload.core), Class::Normal, Time::MAX, move |_| {
            let _held = &held;
            Reply::new(Status::OK)
        })
    };
    let ticket = job.submit(conn(1), 1, &inbox).unwrap();
    assert!(ticket.call_off());
    assert!(!ticket.call_off(), "once");
    assert_eq!(Arc::strong_count(&held), 1, "captured values are dropped at once");
    let started = {
        let later = submit(&offload, Class::Normal, 2, &inbox).unwrap();
        let started = kept.0.lock().unwrap().iter_mut().find_map(Pump::take).unwrap();
        assert!(!later.call_off(), "the job has started");
        started
    };
    assert_eq!(slots(&inbox), [] as [u32; 0], "a cancelled job has no outcome");
    started.run();
    assert_eq!(slots(&inbox), [2]);
}

#[test]
fn a_cancelled_job_frees_its_place_at_once_and_the_others_keep_their_order() {
    let kept = Kept::default();
    let offload = Offload::builder().queue_max(Class::Normal, 4).build_on(kept.clone());
    let (inbox, _source) = inbox();
    let queue = |slot| submit(&offload, Class::Normal, slot, &inbox);
    let stays = [queue(1).unwrap(), queue(2).unwrap()];
    for round in 0..100 {
        let leave = [queue(100 + round).unwrap(), queue(200 + round).unwrap()];
        assert!(queue(300).is_none(), "round {round}: four jobs wait");
        leave.iter().for_each(|leaves| assert!(leaves.call_off()));
        assert_eq!(offload.queued(Class::Normal), 2, "round {round}");
    }
    let _late = [queue(3).unwrap(), queue(4).unwrap()];
    assert!(queue(5).is_none());
    // All cancelled entries except the most recent ones, at most six, were removed.
    assert!((200 - 6..=200).contains(&offload.swept()), "{}", offload.swept());
    let pumps = core::mem::take(&mut *kept.0.lock().unwrap());
    assert!(pumps.len() <= 2);
    pumps.into_iter().for_each(Pump::run);
    assert_eq!(slots(&inbox), [1, 2, 3, 4]);
    assert!(stays.iter().all(|stays| !stays.call_off()));
    assert_eq!((offload.queued(Class::Normal), offload.queued(Class::High)), (0, 0));
}

/// Threads cancel, run and sweep jobs concurrently: each job is run or cancelled exactly once, and
/// the counts end at zero.
#[test]
fn many_threads_queue_leave_and_run_and_nothing_is_lost() {
    const EACH: u32 = 20_000;
    let kept = Kept::default();
    let offload = Offload::builder().queue_max(Class::Normal, 8).build_on(kept.clone());
    let ran = Arc::new(AtomicUsize::new(0));
    let counts = thread::scope(|scope| {
        let askers: Vec<_> = (0..3_u32)
            .map(|asker| {
                let (offload, ran, kept) = (offload.clone(), Arc::clone(&ran), kept.clone());
                scope.spawn(move || {
                    let (inbox, _source) = inbox();
                    let (mut expected, mut called_off) = (0, 0);
                    for number in 0..EACH {
                        let ran = Arc::clone(&ran);
                        let job = Job::new(Arc::clone(&offload.core), Class::Normal, Time::MAX, move |_| {
                            ran.fetch_add(1, Ordering::Relaxed);
                            Reply::new(Status::OK)
                        });
                        let Some(ticket) = job.submit(conn(asker), u64::from(number), &inbox) else {
                            continue;
                        };
                        if number % 8 != asker && ticket.call_off() {
                            called_off += 1;
                        } else {
                            expected += 1;
                        }
                        // Jobs run rarely enough that the queue fills.
                        if number % 64 == 0 {
                            let pumps = core::mem::take(&mut *kept.0.lock().unwrap());
                            pumps.into_iter().for_each(Pump::run);
                        }
                    }
                    (inbox, expected, called_off)
                })
            })
            .collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).collect::<Vec<_>>()
    });
    while let Some(pump) = { kept.0.lock().unwrap().pop() } {
        pump.run();
    }
    let expected: usize = counts.iter().map(|(_, expected, _)| expected).sum();
    let called_off: u64 = counts.iter().map(|(.., called_off)| called_off).sum();
    assert_eq!(ran.load(Ordering::Relaxed), expected);
    for (inbox, expected, _) in &counts {
        assert_eq!(slots(inbox).len(), *expected, "each inbox gets its own outcomes");
    }
    assert_eq!(offload.queued(Class::Normal), 0);
    assert!(offload.swept() > 0 && offload.swept() <= called_off, "{} of {called_off}", offload.swept());
}

#[test]
fn a_sleeping_worker_is_woken_once_and_an_awake_one_never() {
    let (inbox, source) = inbox();
    let leave = |slot| inbox.leave(Delivery { conn: conn(slot), number: 0, outcome: Outcome::Busy });
    leave(1);
    assert_eq!(wakes(&source), 0, "awake");
    assert!(!inbox.fall_asleep(), "there is a delivery");
    leave(2);
    assert_eq!((slots(&inbox), wakes(&source)), (vec![1, 2], 0));
    assert!(inbox.fall_asleep());
    (3..10).for_each(leave);
    assert_eq!(wakes(&source), 1, "one wake-up for all deliveries");
    inbox.awake();
    assert_eq!(slots(&inbox).len(), 7);
}

/// No delivery is lost while several threads deliver and the worker sleeps whenever it may.
#[test]
fn every_outcome_is_found_by_a_worker_that_sleeps_in_between() {
    const THREADS: u32 = 4;
    const EACH: u32 = 5_000;
    let (inbox, source) = inbox();
    let left = AtomicUsize::new(0);
    let mut found = Vec::new();
    thread::scope(|scope| {
        for of in 0..THREADS {
            let (inbox, left) = (&inbox, &left);
            scope.spawn(move || {
                for n in 0..EACH {
                    let outcome = Outcome::Busy;
                    inbox.leave(Delivery { conn: conn(of), number: u64::from(n), outcome });
                    left.fetch_add(1, Ordering::Relaxed);
                    if n % 64 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
        while found.len() < (THREADS * EACH) as usize {
            if inbox.fall_asleep() {
                let fd = source.as_fd();
                let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
                let ten_s = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
                let ready = rustix::event::poll(&mut fds, Some(&ten_s)).unwrap();
                assert_eq!(ready, 1, "a lost wake-up: {} found, {left:?} left", found.len());
                source.clear();
            }
            inbox.awake();
            inbox.take(&mut found);
        }
    });
    for of in 0..THREADS {
        let numbers: Vec<_> = found.iter().filter(|one| one.conn == conn(of)).map(|one| one.number).collect();
        assert!(numbers.into_iter().eq(0..u64::from(EACH)), "in order, each once");
    }
}

#[test]
fn spawned_work_runs_in_order_or_is_refused() {
    let kept = Kept::default();
    let offload = Offload::builder().queue_max(Class::Normal, 2).build_on(kept.clone());
    let done = Arc::new(Mutex::new(Vec::new()));
    let spawn = |number: usize| {
        let done = Arc::clone(&done);
        offload.spawn(move || {
            done.lock().unwrap().push(number);
            assert_ne!(number, 0, "a panic does not stop other work");
        })
    };
    assert_eq!([spawn(0), spawn(1), spawn(2)], [true, true, false]);
    core::mem::take(&mut *kept.0.lock().unwrap()).into_iter().for_each(Pump::run);
    assert_eq!(*done.lock().unwrap(), [0, 1]);
}

/// Panics when dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        std::panic::panic_any("a grenade");
    }
}

#[test]
fn undelivered_answers_may_all_panic_when_dropped() {
    let (inbox, _wakes) = inbox();
    for number in 0..3 {
        let grenade = Grenade;
        let answer = JobReply::then(move |reply| {
            let _held = &grenade;
            reply.status(Status::OK).empty()
        });
        inbox.leave(Delivery { conn: conn(0), number, outcome: Outcome::Replied(answer) });
    }
    drop(inbox);
}

/// A value captured by work that never runs.
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_job_that_never_runs_contains_the_panic_of_its_captures() {
    let kept = Kept::default();
    let offload = Offload::builder().build_on(kept.clone());
    let (inbox, _source) = inbox();
    let job = || {
        let captured = PanicsWhenDropped;
        Job::new(Arc::clone(&offload.core), Class::Normal, Time::MAX, move |_| {
            let _held = &captured;
            Reply::text(Status::OK, "run")
        })
    };
    drop(job());

    let ticket = job().submit(conn(1), 1, &inbox).unwrap();
    let mut pump = kept.0.lock().unwrap().remove(0);
    drop(pump.take().unwrap());
    drop(ticket);
    assert_eq!(slots(&inbox), [1], "a started job always has an outcome");
}

#[test]
fn debug_output_of_a_pool_shows_how_many_jobs_wait() {
    let offload = Offload::builder().build_on(Kept::default());
    let (inbox, _source) = inbox();
    (0..3).for_each(|slot| assert!(submit(&offload, Class::Normal, slot, &inbox).is_some()));
    assert!(submit(&offload, Class::High, 3, &inbox).is_some());
    let shown = format!("{offload:?}");
    assert!(shown.contains("high: 1") && shown.contains("normal: 3"), "{shown}");
}
