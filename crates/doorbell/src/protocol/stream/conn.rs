//! The engine's state of a connection of a stream protocol: its deadline, its counters and its end.

use doorbell_http::Next;

use crate::error::CloseReason;
use crate::id::ConnId;
use crate::time::Time;

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// The first byte.
    First,
    /// The rest of a frame.
    Frame,
    /// The first byte of the next frame.
    Idle,
    /// The result of a job.
    Job,
}

/// Actions that the handler requested while it handled one event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requested {
    pub(super) close: bool,
    pub(super) hand_over: bool,
    pub(super) writable: bool,
    pub(super) deadline: Option<Time>,
}

impl Requested {
    pub(super) const fn stops(&self) -> bool {
        self.close || self.hand_over || self.writable
    }
}

/// The engine's part of the state of a connection.
#[derive(Debug)]
pub struct StreamConn {
    /// `None` until the worker sets the identity, before the first event.
    pub(super) id: Option<ConnId>,
    /// The time of the accept or, over TLS, of the end of the handshake.
    pub(super) opened: Time,
    pub(super) deadline: Time,
    /// True if the handler or a job has set the deadline.
    pub(super) is_own_deadline: bool,
    /// Number of consumed frames; 1 if the handler closed with output before the first frame.
    pub(super) requests: u32,
    pub(super) reason: CloseReason,
    pub(super) wait: Wait,
    /// The last step, once the handler or a limit has ended the connection.
    pub(super) ending: Option<Next>,
    /// Length of the output at the beginning of the current event.
    pub(super) earlier_len: usize,
    /// True if the handler is to be called when all output is sent: its reply is incomplete.
    pub(super) wants_writable: bool,
    /// True while the output of earlier frames must be sent before the connection continues.
    pub(super) is_busy: bool,
    /// True once a pushed message was handled.
    pub(super) was_pushed: bool,
    /// True once the end of input was received.
    pub(super) peer_finished: bool,
    /// True once the end of input was reported to the handler.
    pub(super) end_handled: bool,
}

/// The event after which a connection continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Bytes have arrived, or all output was sent.
    Data,
    /// The peer's FIN.
    End,
    /// A message.
    Message,
    /// The accept of the connection.
    Open,
    /// The expiry of the deadline.
    Timeout,
}

impl StreamConn {
    pub(super) const fn new(opened: Time, deadline: Time) -> Self {
        Self {
            id: None,
            opened,
            deadline,
            is_own_deadline: false,
            requests: 0,
            reason: CloseReason::Done,
            wait: Wait::First,
            ending: None,
            earlier_len: 0,
            wants_writable: false,
            is_busy: false,
            was_pushed: false,
            peer_finished: false,
            end_handled: false,
        }
    }

    /// Ends the connection for this reason, unless it is already ending.
    pub(super) fn end(&mut self, next: Next, reason: CloseReason) {
        if self.ending.is_none() {
            self.ending = Some(next);
            self.reason = reason;
        }
    }
}
