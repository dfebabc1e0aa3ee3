//! Slots that are available again after a delay. The delay is constant, so the queue is first in,
//! first out.

use std::collections::VecDeque;

use crate::clock::{NEVER, Nanos};

/// A queue with capacity for every slot, so that it never grows.
#[derive(Debug)]
pub(crate) struct Delays {
    queue: VecDeque<(Nanos, u32)>,
    delay: Nanos,
}

impl Delays {
    pub(crate) fn new(delay: Nanos, slots: usize) -> Self {
        Self { queue: VecDeque::with_capacity(slots), delay }
    }

    pub(crate) fn push(&mut self, now: Nanos, slot: u32) {
        debug_assert!(self.queue.len() < self.queue.capacity(), "a slot waits once");
        self.queue.push_back((now + self.delay, slot));
    }

    /// Removes a slot whose delay has passed.
    #[inline]
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<u32> {
        if self.next_due() > now {
            return None;
        }
        self.queue.pop_front().map(|(_, slot)| slot)
    }

    #[inline]
    pub(crate) fn next_due(&self) -> Nanos {
        self.queue.front().map_or(NEVER, |(due, _)| *due)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_in_order_and_not_early() {
        let mut delays = Delays::new(10, 4);
        assert_eq!((delays.pop(NEVER - 1), delays.next_due()), (None, NEVER));
        delays.push(5, 3);
        delays.push(6, 1);
        assert_eq!((delays.len(), delays.next_due(), delays.pop(14)), (2, 15, None));
        assert_eq!(
            (delays.pop(15), delays.pop(15), delays.pop(16), delays.pop(99)),
            (Some(3), None, Some(1), None)
        );
    }
}
