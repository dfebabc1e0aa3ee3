//! Buffers for protocol calls, buffers of connections with unprocessed input, and the limit of
//! their memory.

use doorbell_http::Out;

use crate::protocol::Local;

/// Maximum number of empty buffers kept for reuse. Few are needed: most requests are served within
/// one turn and can use the same buffer one after another.
const KEPT_MAX: usize = 64;

/// A buffer that grew beyond this is returned to the allocator.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// Initial capacity for rendering a reply.
const REPLY_LEN: usize = 1024;

/// A stack of empty buffers, the most recently used first, and the two buffers that every protocol
/// call uses.
#[derive(Debug)]
pub(crate) struct Buffers {
    spare: Vec<Vec<u8>>,
    /// Output of a protocol call. Before the next call, all of it was sent from this buffer or
    /// moved to the connection.
    pub(crate) reply: Out,
    /// Input that a protocol did not consume, for a connection without earlier unprocessed input.
    /// Empty between calls.
    pub(crate) rest: Vec<u8>,
    /// The memory of the protocols, used by all connections of the worker.
    pub(crate) local: Local,
}

impl Buffers {
    pub(crate) fn new(local: Local) -> Self {
        let (reply, rest) = (Out::with_capacity(REPLY_LEN), Vec::new());
        Self { spare: Vec::with_capacity(KEPT_MAX), reply, rest, local }
    }

    /// Moves the output of the last protocol call into `out`, the output of its connection.
    pub(crate) fn move_reply(&mut self, out: &mut Out) {
        debug_assert!(out.is_empty(), "a protocol is called only when earlier output was sent");
        // I-9: sent output of another connection is removed first, so that only output of this
        // connection moves.
        self.reply.forget_sent();
        core::mem::swap(out, &mut self.reply);
        self.reply.take_misuses_of(out);
        self.reply.clear();
        if self.reply.head.capacity() == 0 {
            self.reply.head = self.lend();
        }
    }

    /// Returns an empty buffer: a kept one, or a new one without capacity.
    pub(crate) fn lend(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Returns an empty buffer with capacity.
    pub(crate) fn lend_with_memory(&mut self) -> Vec<u8> {
        let mut buf = self.lend();
        buf.reserve(REPLY_LEN);
        buf
    }

    /// Takes a buffer back, and keeps it for reuse within the limits.
    pub(crate) fn take_back(&mut self, mut buf: Vec<u8>) {
        let capacity = buf.capacity();
        if capacity == 0 || capacity > KEPT_BYTES_MAX || self.spare.len() == KEPT_MAX {
            return;
        }
        buf.clear();
        self.spare.push(buf);
    }
}

/// The memory that connections use for incomplete input, and its maximum.
#[derive(Debug)]
pub(crate) struct InputMemory {
    bytes: usize,
    bytes_max: usize,
}

impl InputMemory {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { bytes: 0, bytes_max }
    }

    /// Accounts for a buffer whose capacity changed from `before` to `after`. Returns false if the
    /// buffer grew and the total exceeds the maximum.
    #[must_use]
    pub(crate) const fn change(&mut self, before: usize, after: usize) -> bool {
        self.bytes = self.bytes + after - before;
        after <= before || self.bytes <= self.bytes_max
    }

    /// Number of bytes in use now.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_large_ones_do_not_stay() {
        let mut buffers = Buffers::new(Local::new());
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
