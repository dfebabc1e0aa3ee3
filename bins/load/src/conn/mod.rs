//! The life of one connection as a pure state machine: events in, next actions out.
//!
//! ```text
//! Free ─begin─► Handshake ─► Paused ─► Active ─► Idle (keep-alive) ─begin─► Active
//!   └──begin─────────────────────────────┘  └──► Tail (server closes) ─► Free
//! ```
//!
//! Every failure ends in `settle`, which closes the descriptor only when no operation on it is in
//! flight.

mod job;
mod receive;
#[cfg(test)]
mod tests;

use doorbell_ring::Errno;

pub(crate) use job::{Batch, Job};

use crate::clock::{NEVER, Nanos};
use crate::plan::{Closer, Flow};
use crate::reply::{Reader, Reply};
use crate::stats::{FailureKind, Stats};

/// The next action for the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the unfinished requests of the batch, and start to receive.
    SendRequests,
    /// Cancel the operations in flight. Their completions are handled as usual.
    Cancel,
    /// No operation is in flight: close the descriptor.
    Close(After),
    /// All replies are complete and the connection is open, so `begin` may follow.
    Idle,
    /// Wait for [`Job::gap`], then call `handle_gap_over`.
    Pause,
    /// Start to receive.
    Recv,
    /// Send the rest of the buffer.
    SendRest,
    /// Do nothing until the next event.
    Wait,
}

/// Next step after the descriptor is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Connect again and send the rest of the batch.
    Again,
    /// Take new work after a delay. Connecting failed, and an immediate retry would be a busy loop.
    BackOff,
    /// Take new work at once.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Active,
    Free,
    Handshake,
    Idle,
    Paused,
    /// The replies are complete, and the server is expected to close.
    Tail,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    phase: Phase,
    reader: Reader,
    batch: Batch,
    /// Set while an abandoned connection has operations in flight.
    ending: Option<After>,
    send_in_flight: bool,
    recv_in_flight: bool,
    /// Whether the handshake is done.
    connected: bool,
    /// Whether the first byte of the batch's first reply has arrived.
    first_byte_seen: bool,
    /// Time until the first byte of the reply. Not counted before that reply is known to be good.
    first_byte_after: Option<Nanos>,
    /// Number of completed batches on this connection.
    served: u32,
    connect_began: Nanos,
    deadline: Nanos,
    /// The complete reply, in state `Tail`.
    reply: Option<Reply>,
}

impl Default for Conn {
    fn default() -> Self {
        Self {
            phase: Phase::Free,
            reader: Reader::default(),
            batch: Batch::default(),
            ending: None,
            send_in_flight: false,
            recv_in_flight: false,
            connected: false,
            first_byte_seen: false,
            first_byte_after: None,
            served: 0,
            connect_began: 0,
            deadline: NEVER,
            reply: None,
        }
    }
}

impl Conn {
    /// Starts a batch. On a `Free` connection, the caller must then connect and call
    /// `handle_connecting`. On an idle connection, the next action is `SendRequests`.
    pub(crate) fn begin(&mut self, now: Nanos, batch: Batch, job: &Job) {
        debug_assert!(matches!(self.phase, Phase::Free | Phase::Idle) && batch.left() > 0);
        self.batch = batch;
        self.first_byte_seen = false;
        self.first_byte_after = None;
        self.deadline = now + job.timeout;
        if self.phase == Phase::Idle {
            self.phase = Phase::Active;
        }
    }

    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// The current batch.
    pub(crate) const fn batch(&self) -> &Batch {
        &self.batch
    }

    pub(crate) const fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Whether a send and a receive are in flight.
    pub(crate) const fn in_flight(&self) -> (bool, bool) {
        (self.send_in_flight, self.recv_in_flight)
    }

    /// Handles a successful start of `connect(2)`. `Wait` means that the caller must submit an
    /// empty send, which completes with the handshake.
    pub(crate) fn handle_connecting(&mut self, now: Nanos, job: &Job) -> Next {
        debug_assert!(self.phase == Phase::Free && self.ending.is_none());
        debug_assert!(!self.send_in_flight && !self.recv_in_flight);
        self.reader.reset();
        self.connected = false;
        self.served = 0;
        self.connect_began = now;
        self.deadline = now + job.timeout;
        let at_once = matches!(job.flow, Flow::New { .. }) && job.gap == 0;
        self.phase = if at_once { Phase::Active } else { Phase::Handshake };
        if at_once { Next::SendRequests } else { Next::Wait }
    }

    /// Handles a failed `socket(2)`, or a `connect(2)` that failed at once.
    pub(crate) fn handle_no_connect(&mut self, now: Nanos, errno: Errno, stats: &mut Stats) -> Next {
        self.fail(now, FailureKind::Connect, Some(errno), stats)
    }

    /// Notes that a send was submitted to the ring.
    pub(crate) fn note_send(&mut self) {
        debug_assert!(!self.send_in_flight, "I-2");
        self.send_in_flight = true;
    }

    /// Notes that a receive was submitted to the ring.
    pub(crate) fn note_recv(&mut self) {
        debug_assert!(!self.recv_in_flight, "I-2");
        self.recv_in_flight = true;
    }

    /// Handles the completion of a send. `left` bytes of its buffer are unsent.
    pub(crate) fn handle_sent(
        &mut self,
        now: Nanos,
        result: Result<(), Errno>,
        left: usize,
        job: &Job,
        stats: &mut Stats,
    ) -> Next {
        self.send_in_flight = false;
        if let Some(after) = self.ending {
            return self.when_quiet(after);
        }
        match result {
            Ok(()) => {}
            Err(errno) if !self.connected => return self.fail(now, FailureKind::Connect, Some(errno), stats),
            // The server has closed. The receive reports the data sent before the close, and the
            // kind of close.
            Err(Errno(EPIPE)) if self.recv_in_flight => return Next::Wait,
            Err(errno) => return self.fail(now, FailureKind::Reset, Some(errno), stats),
        }
        if !self.connected {
            self.connected = true;
            stats.connects += 1;
            stats.connects_in_time += u64::from(now <= job.measured_until);
            stats.connect.record(now - self.connect_began);
        }
        if self.phase == Phase::Handshake {
            return self.handle_established(now, job);
        }
        if left > 0 { Next::SendRest } else { Next::Wait }
    }

    /// Handles the end of [`Job::gap`].
    pub(crate) fn handle_gap_over(&mut self, now: Nanos, job: &Job) -> Next {
        debug_assert_eq!(self.phase, Phase::Paused);
        self.phase = Phase::Active;
        self.deadline = now + job.timeout;
        Next::SendRequests
    }

    /// Handles the deadline. The caller repeats this call until all operations in flight have
    /// ended.
    pub(crate) fn handle_deadline(&mut self, now: Nanos, stats: &mut Stats) -> Next {
        if self.ending.is_some() {
            return Next::Cancel;
        }
        self.fail(now, FailureKind::Timeout, None, stats)
    }

    /// Number of unfinished requests, for a run that is stopped.
    pub(crate) const fn requests_under_way(&self) -> u64 {
        match self.phase {
            _ if !self.batch.is_measured => 0,
            Phase::Free | Phase::Idle => 0,
            Phase::Tail => 1,
            Phase::Active | Phase::Handshake | Phase::Paused => self.batch.left() as u64,
        }
    }

    fn handle_established(&mut self, now: Nanos, job: &Job) -> Next {
        if matches!(job.flow, Flow::Keep { .. }) {
            // The time to open a kept connection does not count for its first request, unless that
            // request has a due time.
            if self.batch.step == 0 {
                self.batch.base = now;
            }
            self.phase = Phase::Active;
            return Next::SendRequests;
        }
        // The intended start of the request is one gap after the intended start of the connection.
        self.batch.base += job.gap;
        self.phase = Phase::Paused;
        self.deadline = NEVER;
        Next::Pause
    }

    /// Counts every unfinished request as failed, and at least one.
    fn fail(&mut self, now: Nanos, kind: FailureKind, errno: Option<Errno>, stats: &mut Stats) -> Next {
        if self.batch.is_measured {
            let count = if self.phase == Phase::Tail { 1 } else { self.batch.left().max(1) };
            for _ in 0..count {
                stats.failures.count(kind, errno);
            }
            stats.last_done = now;
        }
        self.settle(if kind == FailureKind::Connect { After::BackOff } else { After::Done })
    }

    fn settle(&mut self, after: After) -> Next {
        self.reply = None;
        if self.send_in_flight || self.recv_in_flight {
            self.ending = Some(after);
            return Next::Cancel;
        }
        self.when_quiet(after)
    }

    fn when_quiet(&mut self, after: After) -> Next {
        if self.send_in_flight || self.recv_in_flight {
            return Next::Wait;
        }
        self.ending = None;
        self.phase = Phase::Free;
        self.deadline = NEVER;
        Next::Close(after)
    }
}

const EPIPE: i32 = rustix::io::Errno::PIPE.raw_os_error();

impl Closer {
    /// Whether the server must end the stream.
    const fn waits_for_end(self) -> bool {
        matches!(self, Self::Server)
    }
}
