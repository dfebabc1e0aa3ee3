//! The connection table: slots by index, with a generation that distinguishes late completions from
//! current ones.

use super::lifecycle::Phase;
use super::state::Conn;
use crate::id::{ConnId, Generation, ListenerIndex, SlotIndex};
use crate::time::Time;

/// The table: slots up to the highest one used so far. Higher slots have address space but no
/// memory.
#[derive(Debug)]
pub(crate) struct Table<P> {
    conns: Vec<Conn<P>>,
    live: u32,
    opened: u64,
    closed: u64,
}

impl<P> Table<P> {
    /// Creates a table for at most `slots_max` connections.
    pub(crate) fn new(slots_max: u32) -> Self {
        Self { conns: Vec::with_capacity(slots_max as usize), live: 0, opened: 0, closed: 0 }
    }

    /// Opens the connection in a slot that the driver reported.
    #[inline(always)]
    pub(crate) fn open(&mut self, slot: SlotIndex, listener: ListenerIndex, now: Time) -> ConnId {
        while self.conns.len() <= slot.index() {
            debug_assert!(
                self.conns.len() < self.conns.capacity(),
                "I-7: the table never grows past its cap"
            );
            self.conns.push(Conn::free());
        }
        let generation = self.conns[slot.index()].open(listener, now);
        self.live += 1;
        self.opened += 1;
        ConnId { slot, generation }
    }

    /// The identity that [`Table::open`] would give to a connection in this slot.
    #[inline(always)]
    pub(crate) fn name(&self, slot: SlotIndex) -> ConnId {
        let generation = self.conns.get(slot.index()).map_or(Generation::new(0), |free| free.generation);
        ConnId { slot, generation }
    }

    /// Counts a connection that got its reply and closed without a slot. It had nothing in flight,
    /// so no late completion can refer to it.
    #[inline(always)]
    pub(crate) const fn pass(&mut self) {
        self.opened += 1;
        self.closed += 1;
    }

    /// Frees the slot of a closing connection.
    #[inline(always)]
    pub(crate) fn finish_close(&mut self, conn: ConnId) {
        self.conns[conn.slot.index()].finish_close();
        self.live -= 1;
        self.closed += 1;
    }

    /// Returns the connection, or `None` if its slot has been freed (I-5).
    pub(crate) fn lookup(&mut self, conn: ConnId) -> Option<&mut Conn<P>> {
        let found = self.conns.get_mut(conn.slot.index())?;
        (found.generation == conn.generation && found.phase != Phase::Free).then_some(found)
    }

    /// Returns a connection that is known to be live.
    #[inline(always)]
    pub(crate) fn live_mut(&mut self, conn: ConnId) -> &mut Conn<P> {
        let found = &mut self.conns[conn.slot.index()];
        debug_assert!(found.generation == conn.generation, "I-5: a stale identity is never looked up here");
        debug_assert!(found.phase != Phase::Free, "I-3: a free slot has no work");
        found
    }

    /// Returns the identity of the connection in a slot.
    pub(crate) fn at(&self, slot: SlotIndex) -> Option<ConnId> {
        let found = self.conns.get(slot.index())?;
        (found.phase != Phase::Free).then(|| found.id(slot))
    }

    /// Returns the first live connection in slot `from` or above, to iterate over the whole table.
    pub(crate) fn next_live(&self, from: u32) -> Option<ConnId> {
        let rest = self.conns.get(from as usize..)?;
        let ahead = rest.iter().position(|conn| conn.phase != Phase::Free)?;
        let slot = SlotIndex(from + u32::try_from(ahead).expect("a slot index fits in 32 bits"));
        self.at(slot)
    }

    /// Number of open connections.
    pub(crate) const fn live(&self) -> u32 {
        self.live
    }

    /// Numbers of connections opened and closed since the start. Their difference is `live` (I-8).
    pub(crate) const fn opened_and_closed(&self) -> (u64, u64) {
        (self.opened, self.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CloseReason;

    const LISTENER: ListenerIndex = ListenerIndex(0);

    #[test]
    fn a_stale_identity_finds_nothing_after_the_slot_was_used_again() {
        let mut table = Table::<()>::new(4);
        let first = table.open(SlotIndex(2), LISTENER, Time::ZERO);
        table.live_mut(first).begin_close(CloseReason::Done);
        table.finish_close(first);
        assert!(table.lookup(first).is_none(), "closed");
        let second = table.open(SlotIndex(2), LISTENER, Time::ZERO);
        assert!(table.lookup(first).is_none(), "stale");
        assert!(table.lookup(second).is_some());
        assert_eq!((table.live(), table.opened_and_closed()), (1, (2, 1)));
    }

    #[test]
    fn an_iteration_returns_each_live_connection_once() {
        let mut table = Table::<()>::new(8);
        for slot in [1, 4, 7] {
            table.open(SlotIndex(slot), LISTENER, Time::ZERO);
        }
        let mut met = Vec::new();
        let mut from = 0;
        while let Some(conn) = table.next_live(from) {
            met.push(conn.slot.0);
            from = conn.slot.0 + 1;
        }
        assert_eq!(met, [1, 4, 7]);
    }
}
