//! Newtypes that identify slots, connections, listeners and workers.

/// Index of a connection's slot in its worker's table.
///
/// On io_uring with direct descriptors the slot index is also the index in the ring's fixed-file
/// table (invariant I-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotIndex(pub u32);

impl SlotIndex {
    /// The index as `usize`, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of times a slot was reused, modulo 2^24.
///
/// The generation distinguishes late completions from current ones (invariant I-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generation(u32);

impl Generation {
    /// Number of bits: the 64-bit `user_data` of io_uring also contains the slot and the operation
    /// tag.
    pub const BITS: u32 = 24;

    /// Creates a generation from the low 24 bits of `raw`.
    pub const fn new(raw: u32) -> Self {
        Self(raw & ((1 << Self::BITS) - 1))
    }

    /// The next generation; wraps after 2^24 uses of a slot.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }

    /// The raw 24-bit value.
    pub const fn raw(self) -> u32 {
        self.0
    }
}

/// The identity of a connection within its worker: a slot and the current use of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId {
    /// The slot of the connection.
    pub slot: SlotIndex,
    /// The generation of the slot.
    pub generation: Generation,
}

/// Index of a listener within a worker.
///
/// Listeners are numbered in the order of the calls of
/// [`ServerBuilder::listen`](crate::ServerBuilder::listen).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerIndex(pub u16);

impl ListenerIndex {
    /// The index as `usize`, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of a datagram listener within a worker.
///
/// Datagram listeners are numbered in the order of the calls of
/// [`ServerBuilder::listen_datagrams`](crate::ServerBuilder::listen_datagrams).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatagramIndex(pub u16);

impl DatagramIndex {
    /// The index as `usize`, for indexing.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of a worker, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerIndex(pub u16);

#[cfg(test)]
mod tests {
    use super::Generation;

    #[test]
    fn a_generation_wraps_at_24_bits() {
        assert_eq!(Generation::new(0xFF_FFFF).next(), Generation::new(0));
        assert_eq!(Generation::new(0x100_0001).raw(), 1);
    }
}
