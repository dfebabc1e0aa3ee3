//! Simulated clients: a script of what one does, and a log of what it saw.
//!
//! Does not know about: drivers, protocols. The [`World`](super::World) plays the scripts.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;

use doorbell::driver::Errno;
use doorbell::id::{ListenerIndex, SlotIndex};

use super::faults::FaultKind;

/// The name of a peer in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerIndex(pub usize);

/// What a peer waits for: true when everything received so far is enough.
pub type AwaitTest = Box<dyn Fn(&[u8]) -> bool>;

/// One thing a peer does. The next starts when it is done.
pub enum PeerStep {
    /// Waits until the test is true of everything received so far, or the connection is over.
    Await(AwaitTest),
    /// Sends FIN and goes on reading.
    HalfClose,
    /// Closes both directions; what arrives later is answered with RST.
    Leave,
    /// Sends RST.
    Reset,
    /// Sends these bytes as one segment.
    Send(Vec<u8>),
    /// Sends these bytes and FIN as one segment.
    SendAndFin(Vec<u8>),
    /// Does nothing for this long.
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
    /// Everything when it arrives.
    Eager,
    /// Nothing, ever.
    Never,
    /// So many bytes, then a pause.
    Slow {
        /// Bytes a read.
        len: usize,
        /// Time between reads.
        every: Duration,
    },
}

/// What a peer is and does.
#[derive(Debug)]
pub struct PeerPlan {
    /// Where it connects.
    pub listener: ListenerIndex,
    /// Its address; `None` as of a Unix socket.
    pub addr: Option<IpAddr>,
    /// When it connects, from now.
    pub connect_after: Duration,
    /// What it does then.
    pub script: Vec<PeerStep>,
    /// How it reads.
    pub reading: Reading,
    /// Bytes that fit between the server's `send` and the peer's read: both socket buffers together.
    pub window_len: usize,
    /// True when the script goes on although the server's FIN was read.
    pub ignores_fin: bool,
}

/// Why a peer saw a reset that was not its own or the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetCause {
    /// Bytes arrived after the server had closed.
    ArrivedAfterClose,
    /// The server asked for it: its reply could not be finished.
    Asked,
    /// The listener was closed with this client in its backlog, or the driver was dropped.
    ServerGone,
    /// The server closed with bytes unread in its socket.
    UnreadAtClose,
}

/// What a peer saw and did. Times are virtual nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct PeerLog {
    /// When it connected.
    pub connected_at: Option<u64>,
    /// True when it found the listener closed.
    pub refused: bool,
    /// When the server's driver reported it.
    pub accepted_at: Option<u64>,
    /// Every byte that it read.
    pub received: Vec<u8>,
    /// When its first byte left.
    pub first_sent_at: Option<u64>,
    /// When it last sent something.
    pub last_sent_at: Option<u64>,
    /// When the first byte of a reply was read.
    pub first_received_at: Option<u64>,
    /// When the last byte was read.
    pub last_received_at: Option<u64>,
    /// When the server's kernel last took bytes of a reply.
    pub last_taken_at: Option<u64>,
    /// When the server's FIN arrived.
    pub fin_at: Option<u64>,
    /// True when that FIN came in one segment with data.
    pub fin_with_data: bool,
    /// When and why the server reset it.
    pub reset: Option<(u64, ResetCause)>,
    /// Bytes lost by that reset: sent by the server, not read by the peer.
    pub bytes_lost: usize,
    /// When it ended its own direction, and how.
    pub own_end: Option<(u64, OwnEnd)>,
    /// Faults that broke or delayed this connection.
    pub faults: Vec<FaultKind>,
    /// When the server gave it to somebody else.
    pub handed_at: Option<u64>,
    /// When the slot was freed.
    pub closed_at: Option<u64>,
}

/// How a peer ended its own direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnEnd {
    /// FIN, still reading.
    HalfClosed,
    /// Closed both ways.
    Left,
    /// RST.
    Reset,
}

impl PeerLog {
    /// True when nothing more can happen to this peer: it left, or the server ended the connection.
    pub fn is_over(&self) -> bool {
        self.ended_by_server() || matches!(self.own_end, Some((_, OwnEnd::Left | OwnEnd::Reset)))
    }

    /// True when the peer saw the server end the connection.
    pub const fn ended_by_server(&self) -> bool {
        self.fin_at.is_some() || self.reset.is_some() || self.refused
    }
}

/// Where a peer's connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Not connected yet.
    Away,
    /// Connected, not accepted.
    Backlog,
    /// Accepted.
    Slot(SlotIndex),
    /// Handed over: what arrives waits for whoever has it.
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
    /// True while a [`PeerStep::Await`] is the current step.
    pub(super) awaiting: bool,
    pub(super) reading: Reading,
    pub(super) window_len: usize,
    pub(super) ignores_fin: bool,
    pub(super) place: Place,
    pub(super) log: PeerLog,
    /// Arrived at the server and not read by it.
    pub(super) rx: VecDeque<u8>,
    pub(super) rx_fin: bool,
    /// Set once the connection is dead: every later operation of the server says so.
    pub(super) broken: Option<Errno>,
    /// Taken by the server's kernel under `MSG_MORE` and held back.
    pub(super) corked: Vec<u8>,
    /// Which cork a cork timer belongs to.
    pub(super) cork_serial: u64,
    /// Taken by the server's kernel and not read by the peer: what fills the window.
    pub(super) unread_len: usize,
    /// True when the server sent FIN.
    pub(super) tx_fin: bool,
    /// True when the server's close is to be a reset.
    pub(super) reset_on_close: bool,
    /// Arrived at the peer and not read by it yet.
    pub(super) inbox: VecDeque<u8>,
    pub(super) inbox_fin: bool,
    pub(super) read_scheduled: bool,
    /// When the last segment to the server arrives: the next is never earlier.
    pub(super) to_server_at: u64,
    /// When the last segment to the peer arrives.
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
            place: Place::Away,
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

    /// True when a recv has something to report.
    pub(super) fn readable(&self) -> bool {
        !self.rx.is_empty() || self.rx_fin || self.broken.is_some()
    }

    pub(super) fn window_free(&self) -> usize {
        self.window_len.saturating_sub(self.unread_len)
    }

    /// True when whoever waits to send is woken.
    pub(super) fn is_writable(&self) -> bool {
        self.broken.is_some() || self.window_free() > 0 && self.window_free() >= self.window_len / 3
    }

    /// True when the peer no longer takes part: what reaches it is answered with RST.
    pub(super) const fn is_deaf(&self) -> bool {
        matches!(self.log.own_end, Some((_, OwnEnd::Left | OwnEnd::Reset))) || self.log.reset.is_some()
    }
}
