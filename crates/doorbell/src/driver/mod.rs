//! The contract of a driver: the kernel (or a simulation of it) as operations that complete.
//!
//! Does not know about: connections' states, protocols, handlers. A driver moves bytes for a [`ConnId`] and nothing else.
//!
//! # What a backend supplies, and what it promises
//!
//! The contract is completion-shaped, because readiness can imitate completion and not the reverse. Every operation may
//! complete at once ([`Step::Done`]) or later, through [`Driver::next`]. The conformance suite
//! (`crates/doorbell/tests/conformance`) runs each line below on io_uring, epoll and the simulator by name.
//!
//! - **D-1** [`Driver::arm_accept`] is idempotent. While armed, each new connection is reported once as
//!   [`Completion::Accepted`] with a slot that is not in use.
//! - **D-2** After [`Driver::disarm_accept`] exactly one [`Completion::AcceptEnded`] follows (possibly after more
//!   `Accepted`, which must be served). The same completion, with an errno, ends an accept that failed. Nothing is accepted
//!   until it is armed again.
//! - **D-3** A connection has at most one `recv`, one `send` and one `close` in flight (invariant I-2); a second is a
//!   programmer's error and panics in debug builds.
//! - **D-4** A pending operation reports exactly once; a `recv` may do so by [`Quick::Ready`], which only says that it is not
//!   pending any more. After [`Driver::cancel`] it still reports, with what it achieved or
//!   [`Errno::CANCELED`].
//! - **D-5** `send` may be short: the completion tells how many bytes the kernel took. The buffer comes back with it.
//! - **D-6** `close` is asked only with nothing in flight. When it is done the slot is free and may be given to a new
//!   connection.
//! - **D-7** `send(more = true)` of a whole reply followed by `close` puts the reply and the FIN into one segment.
//! - **D-8** Received bytes stay readable until [`Driver::recycle`]; only one chunk is out at a time.
//! - **D-9** [`Driver::wait`] returns when there is a completion, when the [`Waker`] was used, or after the timeout. It may return
//!   early with nothing.
//! - **D-10** After [`Driver::reset_on_close`] the peer of a TCP connection sees a reset, not the end of a whole reply.
//! - **D-11** `detach` is asked only with nothing in flight. When it succeeds the slot is free as after a close, the connection goes on
//!   under the descriptor (non-blocking, close-on-exec), and nothing that was not received before is lost. When it fails nothing has
//!   changed.
//! - **D-12** Where [`Driver::unsent`] is known it falls when the peer takes bytes, also while a `send` is pending. After
//!   [`Driver::find_unsent`] said true it is known, or that says false, within a few waits; a close or detach meanwhile is as any.
//! - **D-13** From a listener that others accept from too a driver takes a client only when its [`Driver::next`] or
//!   [`Driver::next_quick`] reports it: what it has not reported is there for the others, also while its thread is busy.
//!
//! The entry points are [`Driver`] and, to choose one, [`select`].

mod alarm;
pub mod epoll;
pub mod examine;
pub mod select;
mod slots;
mod sock;
pub mod uring;
mod waker;

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::os::fd::OwnedFd;

pub use doorbell_ring::{Payload, SendBuf};
pub use rustix::io::Errno;
pub use waker::{WakeSource, Waker};

use crate::id::{ConnId, ListenerIndex, SlotIndex};
use crate::time::Time;

/// The kernel as a worker sees it. See the [module](self) for the contract.
pub trait Driver {
    /// Which of the backends this is.
    fn kind(&self) -> DriverKind;

    /// Starts (or goes on) accepting on a listener.
    fn arm_accept(&mut self, listener: ListenerIndex);

    /// Asks for an end of accepting; [`Completion::AcceptEnded`] confirms it. Nothing happens when it was not armed.
    fn disarm_accept(&mut self, listener: ListenerIndex);

    /// Closes the listening socket. Only while accept is not armed.
    fn close_listener(&mut self, listener: ListenerIndex);

    /// False once the listener is closed, also where it was before this driver was made.
    fn is_listening(&self, _listener: ListenerIndex) -> bool {
        true
    }

    /// True when a client waits in the backlog right now. A system call: for watchdogs and draining, not for the hot path.
    fn accept_backlogged(&mut self, listener: ListenerIndex) -> bool;

    /// Goes one step down in how connections are accepted (multishot, single-shot, readiness) and says where it is now.
    /// Only while accept is not armed. `None`: there is no lower step.
    fn downgrade_accept(&mut self, listener: ListenerIndex) -> Option<AcceptMode>;

    /// Asks for bytes. `expect` says whether they are probably here already.
    fn recv(&mut self, conn: ConnId, expect: Expect) -> Step<Received>;

    /// Sends the unsent part of `buf`. With `more` the kernel may hold the bytes back until [`Driver::close`] (`MSG_MORE`).
    fn send(&mut self, conn: ConnId, buf: SendBuf, more: bool) -> Step<Sent>;

    /// Sends borrowed bytes if the kernel takes them without waiting; it may take a part. `None`: nothing was sent, use
    /// [`Driver::send`]. With no send in flight only. A driver that has no such way always says `None`.
    fn send_now(&mut self, _conn: ConnId, _bytes: &[u8], _more: bool) -> Option<Result<usize, Errno>> {
        None
    }

    /// Sends FIN after what was sent; the other direction stays open. No completion: a close that comes before it is done waits. With no send in flight only.
    fn shutdown_write(&mut self, conn: ConnId);

    /// Ends pending `recv` and `send` operations of the connection early; each still reports (D-4).
    fn cancel(&mut self, conn: ConnId);

    /// Makes the coming close a reset, so that the peer sees that a reply is not whole. Direct descriptors have no socket options: there
    /// the close is an ordinary one, unless [`Driver::find_unsent`] has got a descriptor.
    fn reset_on_close(&mut self, conn: ConnId);

    /// Closes the connection and frees its slot once done.
    fn close(&mut self, conn: ConnId) -> Step<()>;

    /// Gives the connection away as a descriptor of its own (D-11).
    fn detach(&mut self, conn: ConnId) -> Step<Result<OwnedFd, Errno>>;

    /// What the kernel holds for the peer and the peer has not taken. A system call: for a look when a deadline has passed. `None` after
    /// an error, and with direct descriptors unless [`Driver::find_unsent`] has made it known.
    fn unsent(&self, conn: ConnId) -> Option<u32>;

    /// Has the driver find out what [`Driver::unsent`] does not know. True: ask that again after the next wait. False: it will not be
    /// known. Takes a descriptor for as long as the connection lives.
    fn find_unsent(&mut self, _conn: ConnId) -> bool {
        false
    }

    /// The peer's address; `None` for Unix sockets, direct descriptors and after an error.
    fn peer_addr(&self, conn: ConnId) -> Option<IpAddr>;

    /// The bytes of a chunk.
    fn received(&self, chunk: &Chunk) -> &[u8];

    /// Gives a chunk's memory back.
    fn recycle(&mut self, chunk: Chunk);

    /// Submits what is queued and waits for a completion, a wake-up or the timeout (`None`: no limit, zero: only look).
    ///
    /// # Errors
    /// [`Fault`] when the backend cannot go on. The worker then changes to another driver or fails.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Fault>;

    /// Makes a wait end no later than `due`, this one or a later one; it may end earlier. False when the driver cannot: then pass
    /// timeouts to [`Driver::wait`].
    fn wake_by(&mut self, _now: Time, _due: Time) -> bool {
        false
    }

    /// The next completion, if it is one of those that most are and this driver can tell more cheaply than by [`Driver::next`].
    /// `None` says nothing about what comes next.
    fn next_quick(&mut self) -> Option<Quick> {
        None
    }

    /// The next completion, if there is one.
    fn next(&mut self) -> Option<Completion>;

    /// What the backend counted, for the statistics.
    fn counters(&self) -> DriverCounters;
}

/// The backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriverKind {
    /// `epoll(7)`: readiness, plain system calls.
    Epoll,
    /// `io_uring(7)`.
    IoUring,
    /// A simulation with a seed, for tests.
    Simulated,
}

impl DriverKind {
    /// The name used in logs, metrics and configuration: `epoll`, `io_uring`, `simulated`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
            Self::Simulated => "simulated",
        }
    }
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a listener accepts, from the best step down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptMode {
    /// One io_uring operation reports every connection.
    Multishot,
    /// One io_uring operation a connection.
    SingleShot,
    /// Wait until the listener is readable, then `accept4(2)`.
    Readiness,
}

/// Whether the bytes asked for are probably there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Not yet: wait for them.
    Later,
    /// Probably: try a system call first, wait only if it finds nothing.
    Now,
}

/// The immediate answer to an operation.
#[derive(Debug)]
#[must_use]
pub enum Step<T> {
    /// It is complete; no completion will follow.
    Done(T),
    /// A completion will follow.
    Pending,
}

/// What a `recv` brought.
#[derive(Debug)]
pub enum Received {
    /// Bytes. `drained` is true when the kernel had no more of them at that moment.
    Data {
        /// Where the bytes are.
        chunk: Chunk,
        /// True when nothing was left in the socket.
        drained: bool,
    },
    /// The peer sent FIN.
    Eof,
    /// An error of the socket, or [`Errno::CANCELED`].
    Failed(Errno),
}

/// Received bytes that a driver still holds. It is given back with [`Driver::recycle`], read or not.
#[derive(Debug)]
#[must_use = "a chunk that is not recycled starves the driver of buffers"]
pub struct Chunk {
    pub(crate) source: ChunkSource,
    pub(crate) len: u32,
}

#[derive(Debug)]
pub(crate) enum ChunkSource {
    /// A buffer of the ring's pool.
    Ring(doorbell_ring::RecvBuf),
    /// The driver's one scratch buffer, or a simulated driver's number for it.
    Scratch(u32),
}

impl Chunk {
    /// A chunk of `len` bytes in a driver's own numbered buffer; for drivers outside this crate.
    pub const fn scratch(number: u32, len: u32) -> Self {
        Self { source: ChunkSource::Scratch(number), len }
    }

    /// The number given to [`Chunk::scratch`]; `None` for a ring's buffer.
    pub const fn scratch_number(&self) -> Option<u32> {
        match self.source {
            ChunkSource::Ring(_) => None,
            ChunkSource::Scratch(number) => Some(number),
        }
    }

    /// Bytes in the chunk; never 0.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Always false: an empty read is [`Received::Eof`].
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// What a `send` achieved.
#[derive(Debug)]
pub struct Sent {
    /// Bytes the kernel took from the unsent part, at least 1, or an error.
    pub result: Result<usize, Errno>,
    /// The buffer, as it was given (`from` is not advanced).
    pub buf: SendBuf,
}

/// An operation that completed after its call returned.
#[derive(Debug)]
pub enum Completion {
    /// Accept is not armed any more: `None` as asked or without a reason, else the error that ended it.
    AcceptEnded {
        /// The listener.
        listener: ListenerIndex,
        /// Why, if it was not asked for.
        errno: Option<Errno>,
    },
    /// A new connection lives in `slot`.
    Accepted {
        /// The listener it came from.
        listener: ListenerIndex,
        /// The slot it occupies until its `close` is done.
        slot: SlotIndex,
    },
    /// A pending `close` is done; the slot is free.
    Closed {
        /// The connection.
        conn: ConnId,
    },
    /// A pending `detach` is done.
    Detached {
        /// The connection.
        conn: ConnId,
        /// Its descriptor.
        result: Result<OwnedFd, Errno>,
    },
    /// A pending `recv` is done.
    Received {
        /// The connection.
        conn: ConnId,
        /// What it brought.
        received: Received,
    },
    /// A pending `send` is done.
    Sent {
        /// The connection.
        conn: ConnId,
        /// What it achieved.
        sent: Sent,
    },
}

/// The usual completions, small enough for registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quick {
    /// As [`Completion::Accepted`].
    Accepted(ListenerIndex, SlotIndex),
    /// A pending `recv` is over without a result: asked again now, it completes at once, or is pending again.
    Ready(ConnId),
}

/// A backend that cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {errno}")]
pub struct Fault {
    /// The call that failed.
    pub call: &'static str,
    /// Its errno.
    pub errno: Errno,
}

/// What a backend counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Accepted connections closed at once because no slot or descriptor index could be trusted.
    pub accepts_dropped: u64,
    /// Completions that arrived in the kernel's overflow list.
    pub cq_overflows: u64,
    /// `io_uring_enter(2)` or `epoll_wait(2)` calls.
    pub enters: u64,
    /// Receives that found no buffer and were asked again.
    pub recv_bufs_starved: u64,
}
