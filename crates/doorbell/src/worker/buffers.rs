//! Buffers that connections borrow while they have something to keep, and the cap on what they keep.
//!
//! Does not know about: what is in them.

/// Buffers kept for the next borrower. Most requests are answered within one turn, so one buffer serves them all.
const KEPT_MAX: usize = 64;

/// A buffer that grew past this is given back to the allocator.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// A stack of empty buffers: the warmest first.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    kept: Vec<Vec<u8>>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { kept: Vec::with_capacity(KEPT_MAX) }
    }

    /// An empty buffer, with memory if one is kept.
    pub(crate) fn lend(&mut self) -> Vec<u8> {
        self.kept.pop().unwrap_or_default()
    }

    /// Takes a buffer back; its contents are forgotten.
    pub(crate) fn take_back(&mut self, mut buf: Vec<u8>) {
        let capacity = buf.capacity();
        if capacity == 0 || capacity > KEPT_BYTES_MAX || self.kept.len() == KEPT_MAX {
            return;
        }
        buf.clear();
        self.kept.push(buf);
    }
}

/// How much memory connections hold for input that came in parts, against its cap.
#[derive(Debug)]
pub(crate) struct InputMemory {
    bytes: usize,
    bytes_max: usize,
}

impl InputMemory {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { bytes: 0, bytes_max }
    }

    /// Accounts for a buffer whose capacity went from `before` to `after`. False when that is over the cap.
    #[must_use]
    pub(crate) const fn change(&mut self, before: usize, after: usize) -> bool {
        self.bytes = self.bytes + after - before;
        after <= before || self.bytes <= self.bytes_max
    }

    /// Bytes held now.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_large_ones_do_not_stay() {
        let mut buffers = Buffers::new();
        buffers.take_back(b"secret".to_vec());
        assert!(buffers.lend().is_empty());
        buffers.take_back(Vec::with_capacity(KEPT_BYTES_MAX + 1));
        assert_eq!(buffers.lend().capacity(), 0);
        (0..2 * KEPT_MAX).for_each(|_| buffers.take_back(Vec::with_capacity(8)));
        assert_eq!(buffers.kept.len(), KEPT_MAX);
    }

    #[test]
    fn memory_may_shrink_but_not_grow_over_the_cap() {
        let mut memory = InputMemory::new(100);
        assert!(memory.change(0, 100));
        assert!(!memory.change(0, 1));
        assert!(memory.change(100, 50), "shrinking is always allowed");
        assert_eq!(memory.bytes(), 51);
    }
}
