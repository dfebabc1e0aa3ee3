//! The buffers a call writes into, those that connections keep while they have something left, and the cap on what they keep.
//!
//! Does not know about: what is in them.

use doorbell_http::Out;
use doorbell_http::parse::Seen;

/// Buffers kept for the next borrower. Most requests are answered within one turn, so one buffer serves them all.
const KEPT_MAX: usize = 64;

/// A buffer that grew past this is given back to the allocator.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// What a reply is rendered into before it is known to be longer.
const REPLY_LEN: usize = 1024;

/// A stack of empty buffers, the warmest first, and the two that every call into a protocol uses.
#[derive(Debug)]
pub(crate) struct Buffers {
    spare: Vec<Vec<u8>>,
    /// Where a protocol writes. Empty between calls: it was sent from here, or moved to its connection.
    pub(crate) reply: Out,
    /// Where a protocol leaves input of a connection that kept none before. Empty between calls.
    pub(crate) rest: Vec<u8>,
    /// What requests had in common so far.
    pub(crate) seen: Seen,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        let (reply, rest) = (Out::with_capacity(REPLY_LEN), Vec::new());
        Self { spare: Vec::with_capacity(KEPT_MAX), reply, rest, seen: Seen::new() }
    }

    /// Moves what was just written to a connection.
    pub(crate) fn move_reply(&mut self, out: &mut Out) {
        debug_assert!(out.is_empty(), "a protocol is asked when everything before was sent");
        // I-9: what was sent to another connection stays here, and what is left of this one's output does not come here.
        self.reply.forget_sent();
        core::mem::swap(out, &mut self.reply);
        self.reply.take_misuses_of(out);
        self.reply.clear();
        if self.reply.head.capacity() == 0 {
            self.reply.head = self.lend();
        }
    }

    /// An empty buffer, with memory if one is kept.
    pub(crate) fn lend(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// An empty buffer that has memory.
    pub(crate) fn lend_with_memory(&mut self) -> Vec<u8> {
        let mut buf = self.lend();
        buf.reserve(REPLY_LEN);
        buf
    }

    /// Takes a buffer back; its contents are forgotten.
    pub(crate) fn take_back(&mut self, mut buf: Vec<u8>) {
        let capacity = buf.capacity();
        if capacity == 0 || capacity > KEPT_BYTES_MAX || self.spare.len() == KEPT_MAX {
            return;
        }
        buf.clear();
        self.spare.push(buf);
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
        assert_eq!(buffers.spare.len(), KEPT_MAX);
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
