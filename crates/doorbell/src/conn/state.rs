//! State of one connection: operations in flight, pending output, and the next step.

use doorbell_http::{Client, Out};

use super::lifecycle::Phase;
use crate::error::CloseReason;
use crate::id::{ConnId, Generation, ListenerIndex, SlotIndex};
use crate::time::Time;

/// A slot of the table. Only [`super::lifecycle`] changes its generation, phase and reason.
#[derive(Debug)]
pub(crate) struct Conn<P> {
    pub(super) generation: Generation,
    pub(super) phase: Phase,
    pub(super) reason: CloseReason,
    /// The listener that accepted the connection.
    pub(crate) listener: ListenerIndex,
    /// True exactly while a `recv` is pending.
    pub(crate) recv_in_flight: bool,
    /// True exactly while a `send` is pending.
    pub(crate) send_in_flight: bool,
    /// True if the socket was empty after the last `recv`: only then may a close follow a reply at
    /// once.
    pub(crate) drained: bool,
    /// True once the peer's FIN was read.
    pub(crate) peer_finished: bool,
    /// True once a buffer of output, such as a reply or its head, was sent completely.
    pub(crate) replied: bool,
    /// True from the first send that had to wait for the peer until all output is sent.
    pub(crate) sent_late: bool,
    /// True once any byte was received.
    pub(crate) has_received: bool,
    /// True if messages have arrived that the protocol handles later: once all output is sent, or
    /// once the connection is no longer postponed.
    pub(crate) has_mail: bool,
    /// True while the connection is in the worker's queue of postponed connections.
    pub(crate) postponed: bool,
    /// [`Driver::unsent`](crate::driver::Driver::unsent) at the last check, while a send is in
    /// flight.
    pub(crate) unsent: Option<u32>,
    /// Next step once everything in `out` is sent.
    pub(crate) after_send: AfterSend,
    /// Bytes that may still be read and discarded: first while the last reply is sent, then while
    /// lingering.
    pub(crate) linger_bytes_left: u32,
    /// The per-address counter of this connection, if addresses are counted.
    pub(crate) ip_cell: Option<u32>,
    /// Deadline of the current wait; before the first wait, the time of opening.
    pub(crate) deadline: Time,
    /// The client's address, after the lookup.
    pub(crate) client: Client<'static>,
    /// The event that must happen before the protocol gets input.
    pub(crate) arriving: Arriving,
    /// Input that the protocol could not process yet. Unallocated while there is none.
    pub(crate) input: Vec<u8>,
    /// Output that was not passed to the kernel yet.
    pub(crate) out: Out,
    /// The protocol's own state. `None` in a free slot, and until the protocol needs state.
    pub(crate) protocol: Option<P>,
}

/// The event for which a connection waits before its protocol gets input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arriving {
    /// The peer's address must be looked up, or the protocol must get the [`ConnId`] of the
    /// connection.
    Addr,
    /// The result of a job must arrive.
    JobResult,
    /// Nothing: the protocol processes the input.
    Done,
    /// The first bytes must arrive. Depending on the configuration, a PROXY protocol header is
    /// required or optional. A connection that is refused because of its peer is also in this
    /// state.
    Header,
}

/// The next step after all output was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterSend {
    /// Close together with the last bytes.
    Close,
    /// Hand the connection over.
    HandOver,
    /// Send FIN, then read and discard input until a deadline.
    Linger,
    /// Call the protocol again, because it has unprocessed input.
    Resume,
    /// Continue reading.
    Read,
    /// Begin the job of the request. A stream protocol begins its jobs itself, and waits for a
    /// message.
    Wait,
}

impl<P> Conn<P> {
    pub(super) const fn free() -> Self {
        Self {
            generation: Generation::new(0),
            phase: Phase::Free,
            reason: CloseReason::Done,
            listener: ListenerIndex(0),
            recv_in_flight: false,
            send_in_flight: false,
            drained: false,
            peer_finished: false,
            replied: false,
            sent_late: false,
            has_received: false,
            has_mail: false,
            postponed: false,
            unsent: None,
            after_send: AfterSend::Read,
            linger_bytes_left: 0,
            ip_cell: None,
            deadline: Time::ZERO,
            client: Client::UNKNOWN,
            arriving: Arriving::Done,
            input: Vec::new(),
            out: Out::new(),
            protocol: None,
        }
    }

    /// The identity of the connection in `slot`.
    pub(crate) const fn id(&self, slot: SlotIndex) -> ConnId {
        ConnId { slot, generation: self.generation }
    }

    /// The phase of the connection.
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// The reason of the close; valid from [`Phase::Closing`] on.
    pub(crate) const fn reason(&self) -> CloseReason {
        self.reason
    }

    /// True while a receive or a send is in flight.
    pub(crate) const fn in_flight(&self) -> bool {
        self.recv_in_flight || self.send_in_flight
    }

    /// True while there is output that was not passed to the kernel.
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }
}

// An idle keep-alive connection needs this memory and a timer node of 16 bytes.
const _: () = assert!(size_of::<Conn<[u64; 24]>>() <= 448);
