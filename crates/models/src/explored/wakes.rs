//! Models of the two inboxes of a worker and of its wake-ups.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use super::explore;
use crate::control::{Command, WorkerShared};
use crate::driver::Waker;
use crate::id::{ConnId, Generation, SlotIndex};
use crate::offload::{Delivery, Inbox, Outcome};

/// Two threads send commands to a worker that sleeps until it is woken: it receives each command
/// exactly once.
pub fn commands() -> usize {
    explore(None, || {
        let (waker, source) = Waker::pair();
        let shared = Arc::new(WorkerShared::new(waker));
        let drain = Command::Drain { timeout: Duration::ZERO };
        let senders = [Command::Stop, drain].map(|command| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.send(command))
        });
        let mut taken = Vec::new();
        while taken.len() < 2 {
            source.wait();
            taken.extend(shared.inbox.take());
        }
        assert!(taken.contains(&Command::Stop) && taken.contains(&drain), "{taken:?}");
        senders.into_iter().for_each(|sender| sender.join().expect("the sender sent its command"));
        assert!(shared.inbox.take().is_empty());
    })
}

/// One thread delivers results to a worker that sleeps whenever its inbox is empty.
pub fn answers() -> usize {
    explore(Some(3), || leave_answers(&[2]))
}

/// Two threads deliver results, possibly at the same time.
pub fn answers_of_two() -> usize {
    explore(Some(2), || leave_answers(&[2, 1]))
}

/// For each number in `counts`, starts a thread that delivers this number of results. The worker
/// receives each result once, and the results of one thread in order. Each sleep that the worker
/// announced is ended by at most one wake-up.
fn leave_answers(counts: &[u32]) {
    let (waker, source) = Waker::pair();
    let inbox = Arc::new(Inbox::new(waker));
    let leaver = |&count: &u32| {
        let inbox = Arc::clone(&inbox);
        let leave = move |number| {
            let conn = ConnId { slot: SlotIndex(count), generation: Generation::new(0) };
            inbox.leave(Delivery { conn, number, outcome: Outcome::Busy });
        };
        thread::spawn(move || (0..u64::from(count)).for_each(leave))
    };
    let leavers: Vec<_> = counts.iter().map(leaver).collect();
    let (mut found, mut sleeps) = (Vec::new(), 0);
    // The steps have the same order as in a turn of a worker.
    while found.len() < counts.iter().sum::<u32>() as usize {
        sleeps += 1;
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
    leavers.into_iter().for_each(|leaver| leaver.join().expect("the thread delivered its results"));
    for &count in counts {
        let of_thread = found.iter().filter(|delivery| delivery.conn.slot == SlotIndex(count));
        assert!(of_thread.map(|delivery| delivery.number).eq(0..u64::from(count)), "{found:?}");
    }
    assert!(source.wakes() <= sleeps, "{} wake-ups, {sleeps} announced sleeps", source.wakes());
}
