//! The times at which a check or endpoint may change without input: a binary heap with a
//! preallocated entry for each check and endpoint.
//!
//! Most results of a check move the check's deadline later. The heap keeps the outdated entry: it
//! is popped at its time, recognised as too early, and pushed again with the current deadline. A
//! result that moves the deadline later therefore does not change the heap, and each check causes
//! about one useless wake-up per `max_age`.

use crate::time::Time;

const ABSENT: u32 = u32::MAX;

/// A heap of (time, item) that contains each item at most once.
#[derive(Debug)]
pub(super) struct Deadlines {
    heap: Vec<(Time, u32)>,
    /// Position of each item in the heap.
    places: Box<[u32]>,
}

impl Deadlines {
    /// Creates a heap with room for the items 0 to `items - 1`.
    pub(super) fn new(items: usize) -> Self {
        Self { heap: Vec::with_capacity(items), places: vec![ABSENT; items].into() }
    }

    /// Time of the first entry; [`Time::MAX`] if the heap is empty. If the entry is outdated, the
    /// deadline of its item is later.
    pub(super) fn first(&self) -> Time {
        self.heap.first().map_or(Time::MAX, |&(at, _)| at)
    }

    /// Schedules `item` for `at`, unless an earlier entry exists.
    pub(super) fn arm(&mut self, item: u32, at: Time) {
        if at == Time::MAX {
            return;
        }
        match self.places[item as usize] {
            ABSENT => {
                self.heap.push((at, item));
                self.rise(self.heap.len() - 1);
            }
            place if at < self.heap[place as usize].0 => {
                self.heap[place as usize].0 = at;
                self.rise(place as usize);
            }
            _ => {}
        }
        debug_assert!(self.heap.len() <= self.places.len(), "each item occurs at most once");
    }

    /// Removes and returns an item that is scheduled for `now` or earlier.
    pub(super) fn pop(&mut self, now: Time) -> Option<u32> {
        let &(at, item) = self.heap.first()?;
        if at > now {
            return None;
        }
        let last = self.heap.pop()?;
        self.places[item as usize] = ABSENT;
        if !self.heap.is_empty() {
            self.heap[0] = last;
            self.sink();
        }
        Some(item)
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.heap[(place - 1) / 2] > self.heap[place] {
            self.heap.swap(place, (place - 1) / 2);
            self.note(place);
            place = (place - 1) / 2;
        }
        self.note(place);
    }

    fn sink(&mut self) {
        let mut place = 0;
        loop {
            let first = [2 * place + 1, 2 * place + 2]
                .into_iter()
                .filter(|&child| child < self.heap.len())
                .min_by_key(|&child| self.heap[child]);
            match first {
                Some(child) if self.heap[child] < self.heap[place] => {
                    self.heap.swap(place, child);
                    self.note(place);
                    place = child;
                }
                _ => break,
            }
        }
        self.note(place);
    }

    fn note(&mut self, place: usize) {
        let item = self.heap[place].1;
        self.places[item as usize] =
            u32::try_from(place).expect("there are at most as many entries as items, whose numbers are u32");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_out_in_order_whatever_the_order_in() {
        // The powers of 2 modulo 101: a permutation of 1 to 100.
        let times: Vec<u64> = (0..100).map(|n| (1..=n).fold(1, |value, _| value * 2 % 101)).collect();
        let mut deadlines = Deadlines::new(100);
        for (item, &time) in (0_u32..).zip(&times) {
            deadlines.arm(item, Time::from_nanos(time + 50));
            deadlines.arm(item, Time::from_nanos(time + 70));
            deadlines.arm(item, Time::from_nanos(time));
        }
        assert_eq!(deadlines.pop(Time::ZERO), None);
        let mut last = 0;
        for _ in 0..100 {
            assert!(deadlines.first() < Time::MAX);
            let item = deadlines.pop(Time::from_nanos(1000)).unwrap();
            let time = times[item as usize];
            assert!(time > last);
            last = time;
        }
        assert_eq!((deadlines.pop(Time::MAX), deadlines.first()), (None, Time::MAX));
    }

    #[test]
    fn never_is_not_kept() {
        let mut deadlines = Deadlines::new(1);
        deadlines.arm(0, Time::MAX);
        assert_eq!(deadlines.pop(Time::MAX), None);
    }
}
