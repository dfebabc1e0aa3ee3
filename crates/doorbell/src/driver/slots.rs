//! The free slots of a driver. Slots that were never used need no memory.

use crate::id::SlotIndex;

/// A free list, which returns the most recently freed slot first, because its memory is cached, and
/// then unused slots in order.
#[derive(Debug)]
pub(crate) struct FreeSlots {
    freed: Vec<u32>,
    unused_from: u32,
    capacity: u32,
}

impl FreeSlots {
    pub(crate) const fn new(capacity: u32) -> Self {
        Self { freed: Vec::new(), unused_from: 0, capacity }
    }

    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<SlotIndex> {
        if let Some(slot) = self.freed.pop() {
            return Some(SlotIndex(slot));
        }
        if self.unused_from == self.capacity {
            return None;
        }
        self.unused_from += 1;
        Some(SlotIndex(self.unused_from - 1))
    }

    pub(crate) fn give_back(&mut self, slot: SlotIndex) {
        debug_assert!(slot.0 < self.unused_from, "I-3: a slot is freed only after use");
        debug_assert!(self.freed.len() < self.unused_from as usize, "I-3: a slot is freed once");
        self.freed.push(slot.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{FreeSlots, SlotIndex};

    #[test]
    fn hands_out_each_slot_once_and_warm_ones_first() {
        let mut free = FreeSlots::new(3);
        let slots: Vec<_> = core::iter::from_fn(|| free.take()).collect();
        assert_eq!(slots, [SlotIndex(0), SlotIndex(1), SlotIndex(2)]);
        free.give_back(SlotIndex(1));
        free.give_back(SlotIndex(0));
        assert_eq!(free.take(), Some(SlotIndex(0)));
        assert_eq!(free.take(), Some(SlotIndex(1)));
        assert_eq!(free.take(), None);
    }
}
