//! Simulated clients: a script of steps, and a log of observations.
//!
//! The [`World`](super::World) runs the scripts.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;

use doorbell::driver::Errno;
use doorbell::id::{ListenerIndex, SlotIndex};

use super::faults::FaultKind;

/// Index of a peer in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerIndex(pub usize);

/// Condition on the received bytes: true when the script may continue.
pub type AwaitTest = Box<dyn Fn(&[u8]) -> bool>;

/// One step of a peer's script.
///
/// The next step starts when this step is done.
pub enum PeerStep {
    /// Waits until the condition holds for the bytes received so far, or the connection is over.
    Await(AwaitTest),
    /// Sends FIN and keeps reading.
    HalfClose,
    /// Closes both directions; later segments are answered with RST.
    Leave,
    /// Sends RST.
    Reset,
    /// Sends these bytes as one segment.
    Send(Vec<u8>),
    /// Sends these bytes and FIN as one segment.
    SendAndFin(Vec<u8>),
    /// Pauses for this long.
    Wait(Duration),
}

impl fmt::Debug for PeerStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Await(_) => f.write_str("Await"),
            Self::HalfClose => f.write_str("HalfClose"),
            Self::Leave => f.write_str("Leave"),
            Self::Reset => f.write_str("Reset"),
            Self::Send(bytes) => write!(f, "Send({})", bytes.escape_ascii()),
            Self::SendAndFin(bytes) => write!(f, "SendAndFin({})", bytes.escape_ascii()),
            Self::Wait(time) => write!(f, "Wait({time:?})"),
        }
    }
}

/// How fast a peer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Everything on arrival.
    Eager,
    /// Never.
    Never,
    /// This many bytes, then a pause.
    Slow {
        /// Bytes per read.
        len: usize,
        /// Time between reads.
        every: Duration,
    },
}

/// Configuration of a peer.
#[derive(Debug)]
pub struct PeerPlan {
    /// The listener to connect to.
    pub listener: ListenerIndex,
    /// Address of the peer; `None` for a Unix socket.
    pub addr: Option<IpAddr>,
    /// Delay before the peer connects.
    pub connect_after: Duration,
    /// The steps after connecting.
    pub script: Vec<PeerStep>,
    /// Reading speed.
    pub reading: Reading,
    /// Bytes that fit between the server's `send` and the peer's read: both socket buffers
    /// together.
    pub window_len: usize,
    /// Whether the script continues after the server's FIN.
    pub ignores_fin: bool,
}

/// Cause of a reset from the server's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetCause {
    /// Bytes arrived after the server had closed.
    ArrivedAfterClose,
    /// The server requested the reset, because its reply could not be finished.
    Requested,
    /// The listener was closed with this client in its backlog, the accept or the connection
    /// failed, or the driver was dropped.
    ServerGone,
    /// The server closed while its socket held unread bytes.
    UnreadAtClose,
}

/// Observations and actions of a peer.
///
/// Times are virtual nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct PeerLog {
    /// When the peer connected.
    pub connected_at: Option<u64>,
    /// Whether the listener was closed when the peer connected.
    pub refused: bool,
    /// When the server's driver reported the connection.
    pub accepted_at: Option<u64>,
    /// Bytes that the peer has read.
    pub received: Vec<u8>,
    /// When the peer sent its first byte.
    pub first_sent_at: Option<u64>,
    /// When the peer last sent a segment.
    pub last_sent_at: Option<u64>,
    /// When the peer read the first byte of a reply.
    pub first_received_at: Option<u64>,
    /// When the peer read its last byte so far.
    pub last_received_at: Option<u64>,
    /// When the server's kernel last accepted bytes of a reply.
    pub last_taken_at: Option<u64>,
    /// When the peer had read all bytes up to the server's FIN.
    pub fin_at: Option<u64>,
    /// Whether that FIN arrived in one segment with data.
    pub fin_with_data: bool,
    /// When and why the server reset the connection.
    pub reset: Option<(u64, ResetCause)>,
    /// Bytes lost by that reset: sent by the server, not read by the peer.
    pub bytes_lost: usize,
    /// When and how the peer ended its own direction.
    pub own_end: Option<(u64, OwnEnd)>,
    /// Faults that affected this connection.
    pub faults: Vec<FaultKind>,
    /// When the server handed the connection over.
    pub handed_at: Option<u64>,
    /// When the server closed the connection or handed it over. After a hand-over, a close by the
    /// new owner replaces this time.
    pub closed_at: Option<u64>,
}

/// How a peer ended its own direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnEnd {
    /// FIN; still reading.
    HalfClosed,
    /// Closed both ways.
    Closed,
    /// RST.
    Reset,
}

impl PeerLog {
    /// Whether nothing more can happen to this peer: it left, or the server ended the connection.
    pub fn is_over(&self) -> bool {
        self.ended_by_server() || matches!(self.own_end, Some((_, OwnEnd::Closed | OwnEnd::Reset)))
    }

    /// Whether the peer saw the server end the connection.
    pub const fn ended_by_server(&self) -> bool {
        self.fin_at.is_some() || self.reset.is_some() || self.refused
    }
}

/// State of a peer's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerState {
    /// Not connected yet.
    Away,
    /// Connected, not accepted.
    Backlog,
    /// Accepted.
    Slot(SlotIndex),
    /// Handed over: arriving bytes wait for the new owner.
    Handed,
    /// Closed by the server, or refused.
    Closed,
}

/// A peer and both ends of its connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) listener: ListenerIndex,
    pub(super) addr: Option<IpAddr>,
    pub(super) script: VecDeque<PeerStep>,
    /// Whether a [`PeerStep::Await`] is the current step.
    pub(super) awaiting: bool,
    pub(super) reading: Reading,
    pub(super) window_len: usize,
    pub(super) ignores_fin: bool,
    pub(super) place: PeerState,
    pub(super) log: PeerLog,
    /// Bytes that have arrived at the server, unread.
    pub(super) rx: VecDeque<u8>,
    pub(super) rx_fin: bool,
    /// Set when the connection breaks: every later operation of the server returns this error.
    pub(super) broken: Option<Errno>,
    /// Bytes held back by the server's kernel under `MSG_MORE`.
    pub(super) corked: Vec<u8>,
    /// Number of the current cork, to match cork timers.
    pub(super) cork_serial: u64,
    /// Bytes accepted by the server's kernel and not yet read by the peer; they fill the window.
    pub(super) unread_len: usize,
    /// Whether the server has sent FIN.
    pub(super) tx_fin: bool,
    /// Whether the server's close becomes a reset.
    pub(super) reset_on_close: bool,
    /// Bytes that have arrived at the peer, unread.
    pub(super) inbox: VecDeque<u8>,
    pub(super) inbox_fin: bool,
    pub(super) read_scheduled: bool,
    /// Arrival of the last segment to the server: the next one is never earlier.
    pub(super) to_server_at: u64,
    /// Arrival of the last segment to the peer.
    pub(super) to_peer_at: u64,
}

impl Peer {
    pub(super) fn new(plan: PeerPlan) -> Self {
        Self {
            listener: plan.listener,
            addr: plan.addr,
            script: plan.script.into(),
            awaiting: false,
            reading: plan.reading,
            window_len: plan.window_len.max(1),
            ignores_fin: plan.ignores_fin,
            place: PeerState::Away,
            log: PeerLog::default(),
            rx: VecDeque::new(),
            rx_fin: false,
            broken: None,
            corked: Vec::new(),
            cork_serial: 0,
            unread_len: 0,
            tx_fin: false,
            reset_on_close: false,
            inbox: VecDeque::new(),
            inbox_fin: false,
            read_scheduled: false,
            to_server_at: 0,
            to_peer_at: 0,
        }
    }

    /// Whether a recv would complete.
    pub(super) fn readable(&self) -> bool {
        !self.rx.is_empty() || self.rx_fin || self.broken.is_some()
    }

    pub(super) fn window_free(&self) -> usize {
        self.window_len.saturating_sub(self.unread_len)
    }

    /// Whether a pending send is woken.
    pub(super) fn is_writable(&self) -> bool {
        self.broken.is_some() || self.window_free() > 0 && self.window_free() >= self.window_len / 3
    }

    /// Whether the peer has closed or is reset: segments to it are answered with RST.
    pub(super) const fn is_closed_or_reset(&self) -> bool {
        matches!(self.log.own_end, Some((_, OwnEnd::Closed | OwnEnd::Reset))) || self.log.reset.is_some()
    }
}
