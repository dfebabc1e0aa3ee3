//! The phases of a connection and the only functions that change them.
//!
//! The worker calls these functions and starts the operations that follow.
//!
//! ```text
//!            open              begin_linger            begin_close           finish_close
//!   Free ───────────► Open ───────────────► Lingering ─────────────► Closing ────────────► Free
//!                       └────────────────── begin_close ────────────────┘
//! ```
//!
//! A connection that is handed over passes through `Open ─► (Waiting ─►) Leaving ─► Closing ─►
//! Free`. If the hand-over is refused, the connection returns to Open.
//!
//! *Open*: the protocol processes the input. *Lingering*: the FIN is sent; input is read and
//! discarded, so that no reset destroys the reply in transit. *Closing*: operations in flight were
//! cancelled; when none is left, the driver closes the connection, and then the slot is free (I-3).
//! *Waiting*: the connection waits for a hand-over permit. *Leaving*: the connection has a permit,
//! and the driver detaches it once nothing is in flight.

use doorbell_http::{Client, Out};

use super::state::{AfterSend, Arriving, Conn};
use crate::error::CloseReason;
use crate::id::{Generation, ListenerIndex};
use crate::time::Time;

/// The phase of a connection; the [module](self) documents each one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Free,
    Open,
    Lingering,
    Waiting,
    Leaving,
    Closing,
}

impl<P> Conn<P> {
    /// Free → Open.
    #[inline(always)]
    pub(super) fn open(&mut self, listener: ListenerIndex, now: Time) -> Generation {
        debug_assert_eq!(self.phase, Phase::Free, "D-1: a slot is given once");
        debug_assert!(!self.in_flight() && self.protocol.is_none(), "I-3: a free slot holds nothing");
        debug_assert!(self.out.is_empty() && self.input.capacity() == 0, "I-9: a free slot holds no bytes");
        self.phase = Phase::Open;
        self.reason = CloseReason::Done;
        self.listener = listener;
        self.recv_in_flight = false;
        self.send_in_flight = false;
        self.drained = false;
        self.peer_finished = false;
        self.replied = false;
        self.sent_late = false;
        self.has_received = false;
        self.has_mail = false;
        self.postponed = false;
        self.arriving = Arriving::Done;
        self.after_send = AfterSend::Read;
        self.ip_cell = None;
        self.deadline = now;
        self.generation
    }

    /// Open → Lingering. The caller sends the FIN.
    pub(crate) fn begin_linger(&mut self, reason: CloseReason, deadline: Time, bytes_max: u32) {
        debug_assert_eq!(self.phase, Phase::Open, "only an open connection lingers");
        debug_assert!(!self.send_in_flight && !self.has_output(), "the FIN follows the last byte");
        self.phase = Phase::Lingering;
        self.reason = reason;
        self.deadline = deadline;
        self.linger_bytes_left = bytes_max;
    }

    /// Open → Waiting.
    pub(crate) fn wait_to_leave(&mut self, deadline: Time) {
        debug_assert_eq!(self.phase, Phase::Open, "only an open connection is handed over");
        debug_assert!(!self.send_in_flight && !self.has_output(), "all output is sent before");
        self.phase = Phase::Waiting;
        self.deadline = deadline;
    }

    /// Open or Waiting → Leaving. The caller cancels operations in flight, and detaches the
    /// connection when none is left.
    pub(crate) fn begin_leave(&mut self) {
        debug_assert!(matches!(self.phase, Phase::Open | Phase::Waiting), "a connection leaves once");
        debug_assert!(!self.send_in_flight && !self.has_output(), "all output is sent before");
        self.phase = Phase::Leaving;
    }

    /// Waiting or Leaving → Open: the hand-over was refused, and the protocol replies accordingly.
    pub(crate) fn reopen(&mut self) {
        debug_assert!(
            matches!(self.phase, Phase::Leaving | Phase::Waiting),
            "only a connection in hand-over returns"
        );
        self.phase = Phase::Open;
    }

    /// Leaving → Closing: the connection has a new owner.
    pub(crate) fn leave(&mut self) {
        debug_assert_eq!(self.phase, Phase::Leaving, "only a leaving connection has left");
        self.phase = Phase::Closing;
        self.reason = CloseReason::HandedOver;
    }

    /// Open, Lingering, Waiting or Leaving → Closing. The caller cancels operations in flight, and
    /// closes the connection when none is left.
    #[inline(always)]
    pub(crate) fn begin_close(&mut self, reason: CloseReason) {
        debug_assert!(!matches!(self.phase, Phase::Free | Phase::Closing), "a connection closes once");
        if self.phase != Phase::Lingering {
            self.reason = reason;
        }
        self.phase = Phase::Closing;
    }

    /// Closing → Free. The next use of the slot gets another generation. The caller has already
    /// taken back the input buffer.
    #[inline(always)]
    pub(super) fn finish_close(&mut self) {
        debug_assert_eq!(self.phase, Phase::Closing, "only a closing connection ends");
        debug_assert!(!self.in_flight(), "I-3: a slot is freed only when nothing is in flight");
        self.generation = self.generation.next();
        self.phase = Phase::Free;
        self.protocol = None;
        if !self.out.is_empty() {
            self.out = Out::new();
        }
        if self.client.listener().is_some() {
            self.client = Client::UNKNOWN;
        }
    }
}
