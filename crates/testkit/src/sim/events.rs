//! Pending events of a simulated world, ordered by time.
//!
//! Does not know about: the effect of an event, which [`World`](super::World) executes.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use doorbell::driver::Completion;
use doorbell::id::{ConnId, DatagramIndex, ListenerIndex, SlotIndex};

use super::datagrams::SimDatagram;
use super::peer::PeerIndex;

/// A completion that the worker has not taken yet. That of a receive contains the received bytes.
#[derive(Debug)]
pub(super) enum Ready {
    Plain(Completion),
    /// A socket is readable. Its datagrams are taken together with the completion.
    Datagrams(DatagramIndex),
    Data {
        conn: ConnId,
        bytes: Vec<u8>,
        drained: bool,
    },
    /// A completion for an earlier use of a slot. The state of the slot does not change.
    Stale(Completion),
    StaleData {
        conn: ConnId,
        bytes: Vec<u8>,
    },
}

impl Ready {
    pub(super) const fn is_of_accept(&self) -> bool {
        matches!(self, Self::Plain(Completion::Accepted { .. } | Completion::AcceptEnded { .. }))
    }
}

#[derive(Debug)]
pub(super) enum Event {
    AcceptOne(ListenerIndex),
    Alarm,
    Cancel { slot: SlotIndex, serial: u64 },
    CloseNow { slot: SlotIndex },
    DatagramToClient { datagram: SimDatagram },
    DatagramToServer { socket: DatagramIndex, datagram: SimDatagram },
    DatagramsDisarmed { socket: DatagramIndex },
    CorkTimer { peer: PeerIndex, serial: u64 },
    Deliver(Ready),
    DetachNow { conn: ConnId },
    DisarmNow { listener: ListenerIndex },
    PeerNext(PeerIndex),
    PeerRead(PeerIndex),
    RecvTry(SlotIndex),
    SendTry(SlotIndex),
    ToPeer { peer: PeerIndex, bytes: Vec<u8>, fin: bool },
    ToServer { peer: PeerIndex, bytes: Vec<u8>, end: Option<WireEnd> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireEnd {
    Fin,
    Reset,
}

/// Events by time; simultaneous ones in the order of insertion.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: BinaryHeap<Reverse<Timed>>,
    serial: u64,
}

impl EventQueue {
    pub(super) fn put(&mut self, at: u64, event: Event) {
        let serial = self.next_serial();
        self.events.push(Reverse(Timed { at, serial, event }));
    }

    /// Time of the next event.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.events.peek().map(|Reverse(timed)| timed.at)
    }

    /// Removes the next event and returns its time.
    pub(super) fn take(&mut self) -> Option<(u64, Event)> {
        self.events.pop().map(|Reverse(timed)| (timed.at, timed.event))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns a number not used by any event or operation before.
    pub(super) const fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

#[derive(Debug)]
struct Timed {
    at: u64,
    serial: u64,
    event: Event,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}
impl Eq for Timed {}
impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}
