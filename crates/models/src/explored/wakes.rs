//! Models of the two inboxes of a worker and of its wake-ups.
//!
//! Does not know about: who else shares something.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use super::explore;
use crate::control::{Command, WorkerShared};
use crate::driver::Waker;
use crate::id::{ConnId, Generation, SlotIndex};
use crate::offload::{Delivery, Inbox, Outcome};

/// Commands of two threads reach a worker that sleeps whenever it was not woken, each once.
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
        senders.into_iter().for_each(|sender| sender.join().expect("it sent"));
        assert!(shared.inbox.take().is_empty());
    })
}

/// Answers of two threads reach a worker that sleeps whenever it may, each once and those of a thread in order, and each time it
/// said that it may sleep it was woken once at most.
pub fn answers() -> usize {
    explore(Some(3), || {
        let (waker, source) = Waker::pair();
        let inbox = Arc::new(Inbox::new(waker));
        let leavers = [2, 1].map(|count| {
            let inbox = Arc::clone(&inbox);
            let leave = move |number| {
                let conn = ConnId { slot: SlotIndex(count), generation: Generation::new(0) };
                inbox.leave(Delivery { conn, number, outcome: Outcome::Busy });
            };
            thread::spawn(move || (0..u64::from(count)).for_each(leave))
        });
        let (mut found, mut edges) = (Vec::new(), 0);
        // The order of a worker's turn.
        while found.len() < 3 {
            edges += 1;
            if inbox.fall_asleep() {
                source.wait();
            } else {
                thread::yield_now();
            }
            inbox.awake();
            inbox.take(&mut found);
        }
        leavers.into_iter().for_each(|leaver| leaver.join().expect("it left"));
        let numbers_of = |slot| {
            let of_slot = found.iter().filter(move |delivery| delivery.conn.slot == SlotIndex(slot));
            of_slot.map(|delivery| delivery.number).collect::<Vec<_>>()
        };
        assert_eq!((numbers_of(2), numbers_of(1)), (vec![0, 1], vec![0]));
        assert!(source.wakes() <= edges, "{} wake-ups, {edges} edges", source.wakes());
    })
}
