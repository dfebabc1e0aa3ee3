//! One connection: what is in flight, what is to be sent, and what happens then.
//!
//! Does not know about: how bytes move, what they mean.

use doorbell_http::{Client, Out};

use super::lifecycle::Phase;
use crate::error::CloseReason;
use crate::id::{ConnId, Generation, ListenerIndex, SlotIndex};
use crate::time::Time;

/// A slot of the table. Its fields that a phase change touches are private to [`super::lifecycle`].
#[derive(Debug)]
pub(crate) struct Conn<P> {
    pub(super) generation: Generation,
    pub(super) phase: Phase,
    pub(super) reason: CloseReason,
    /// Where it came from.
    pub(crate) listener: ListenerIndex,
    /// True exactly from a `recv` that was left pending until its completion.
    pub(crate) recv_in_flight: bool,
    /// True exactly from a `send` that was left pending until its completion.
    pub(crate) send_in_flight: bool,
    /// True when the last `recv` left the socket empty: only then may a close follow a reply at once.
    pub(crate) drained: bool,
    /// True once the peer's FIN was read.
    pub(crate) peer_finished: bool,
    /// True once a reply was written completely.
    pub(crate) replied: bool,
    /// True once any byte was received.
    pub(crate) heard: bool,
    /// True exactly while it waits for the next turn with nothing in flight.
    pub(crate) postponed: bool,
    /// [`Driver::unsent`](crate::driver::Driver::unsent) at the last look, while a send is in flight.
    pub(crate) unsent: Option<u32>,
    /// What follows when everything in `out` is sent.
    pub(crate) after_send: AfterSend,
    /// Bytes that may still be read and dropped while the last reply is sent, and then once more while lingering.
    pub(crate) linger_bytes_left: u32,
    /// The per-address counter this connection holds, if addresses are being counted.
    pub(crate) ip_cell: Option<u32>,
    /// When the current wait is over; before the first wait, when it was opened.
    pub(crate) deadline: Time,
    /// Who is on the other side, once that was asked for.
    pub(crate) client: Client<'static>,
    /// What stands before the protocol.
    pub(crate) arriving: Arriving,
    /// Input that a protocol could not use yet. Empty, without memory, unless a request came in parts.
    pub(crate) input: Vec<u8>,
    /// What the kernel was not given yet.
    pub(crate) out: Out,
    /// The protocol's own state; `None` in a free slot, and until it is needed: a connection that is answered in the pass in which
    /// it was accepted has none.
    pub(crate) protocol: Option<P>,
}

/// What a connection begins with, or waits for, before its protocol is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arriving {
    /// The address is to be asked for.
    Addr,
    /// The answer to a request that was left for later: until it is there, the protocol hears nothing.
    Answer,
    /// Nothing (more): the protocol has it.
    Done,
    /// A PROXY protocol header may come, or must; or the peer is refused, and with it whatever it sends.
    Header,
}

/// What follows a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterSend {
    /// Close together with the last bytes.
    Close,
    /// Give the connection away.
    HandOver,
    /// FIN, then read and drop for a while.
    Linger,
    /// Ask the protocol again: it holds input back.
    Resume,
    /// Read on.
    Read,
    /// Have the answer made that the protocol waits for.
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
            heard: false,
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

    /// Its name, given the slot it lives in.
    pub(crate) const fn id(&self, slot: SlotIndex) -> ConnId {
        ConnId { slot, generation: self.generation }
    }

    /// Its phase.
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// Why it closes; meaningful from [`Phase::Closing`] on.
    pub(crate) const fn reason(&self) -> CloseReason {
        self.reason
    }

    /// True while the kernel works for it.
    pub(crate) const fn in_flight(&self) -> bool {
        self.recv_in_flight || self.send_in_flight
    }

    /// True while there is something to send that the kernel was not given.
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }
}

// An idle keep-alive connection costs this and a wheel node of 24 bytes; the promise is 1 KiB.
const _: () = assert!(size_of::<Conn<[u64; 24]>>() <= 448);
