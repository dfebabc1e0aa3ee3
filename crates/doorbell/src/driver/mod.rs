//! The driver contract: a completion-based interface, implemented by two kernel drivers and by a
//! simulation.
//!
//! A driver only moves bytes for a [`ConnId`].
//!
//! # What a driver provides and guarantees
//!
//! The contract is completion-based, because readiness can emulate completion but not the reverse.
//! Every operation completes at once ([`Step::Done`]) or later, through [`Driver::next`]. The
//! conformance suite (`crates/doorbell/tests/conformance`) checks each rule below on io_uring,
//! epoll and the simulator.
//!
//! - **D-1** [`Driver::arm_accept`] is idempotent. While armed, each new connection is reported
//!   once as [`Completion::Accepted`] with a slot that is not in use.
//! - **D-2** After [`Driver::disarm_accept`] exactly one [`Completion::AcceptEnded`] follows,
//!   possibly after further `Accepted` completions, whose connections must be served. `AcceptEnded`
//!   with an errno reports an accept that failed. Nothing is accepted until accept is armed again.
//! - **D-3** A connection has at most one `recv`, one `send` and one `close` in flight (invariant
//!   I-2); a second operation of the same kind is a bug of the caller and panics in debug builds.
//! - **D-4** A pending operation reports exactly once. A `recv` may report with [`Quick::Ready`],
//!   which contains no result and only means that the `recv` is no longer pending. After
//!   [`Driver::cancel`] an operation still reports: its result, if it has one, or
//!   [`Errno::CANCELED`].
//! - **D-5** `send` may be partial: the completion contains the number of bytes the kernel took,
//!   and returns the buffer.
//! - **D-6** `close` is called only with nothing in flight. When it completes, the slot is free and
//!   may be given to a new connection.
//! - **D-7** `send(more = true)` of a whole reply followed by `close` puts the reply and the FIN
//!   into one segment.
//! - **D-8** Received bytes stay readable until [`Driver::recycle`]; at most one chunk is lent at a
//!   time.
//! - **D-9** [`Driver::wait`] returns on a completion, on a wake-up by the [`Waker`], or after the
//!   timeout. It may also return early without such a cause. It may report only a part of what has
//!   happened; the next waits report the rest.
//! - **D-10** After [`Driver::reset_on_close`] the peer of a TCP connection with an ordinary
//!   descriptor sees a reset instead of a regular end.
//! - **D-11** `detach` is called only with nothing in flight. On success the slot is free as after
//!   a close, the connection continues on the returned descriptor (non-blocking, close-on-exec),
//!   and every byte that was not yet received can be read from that descriptor. On failure nothing
//!   has changed.
//! - **D-12** When [`Driver::unsent`] returns a value, it decreases as the peer acknowledges bytes,
//!   also while a `send` is pending. After [`Driver::find_unsent`] returned true, within a few
//!   waits either `unsent` returns a value or `find_unsent` returns false. A close or detach during
//!   these waits works as usual.
//! - **D-13** From a listener that other processes or workers share, a driver takes a client only
//!   when [`Driver::next`] or [`Driver::next_quick`] reports it. A client that was not reported
//!   stays available to the other processes and workers, even while the driver's thread is busy.
//! - **D-14** [`Driver::arm_datagrams`] is idempotent. While armed, each datagram in the queue of
//!   the socket is reported once, in the batch of a [`Completion::Datagrams`], with the address of
//!   its sender and the address to which it was sent. A datagram longer than the maximum of the
//!   socket is reported as truncated.
//! - **D-15** After [`Driver::disarm_datagrams`] exactly one [`Completion::DatagramsEnded`]
//!   follows, possibly after further batches, which must be handled. `DatagramsEnded` with an errno
//!   reports a receive that failed. A datagram that was not reported stays in the queue.
//! - **D-16** A batch has 1 to [`DATAGRAMS_MAX`] datagrams. The number of datagrams between two
//!   waits is limited, so a flood does not keep the driver from reporting other completions.
//! - **D-17** A batch stays readable until [`Driver::end_datagrams`]. At most one batch is lent at
//!   a time: the caller ends it before it takes the next completion.
//! - **D-18** [`Driver::send_datagrams`] does not wait. It counts each reply as sent or as failed.
//!   A reply leaves from the address that it names.
//! - **D-19** [`Driver::close_datagrams`] is called only while the socket is not armed, and returns
//!   the number of datagrams in its queue, if no other driver or process has the socket.
//! - **D-20** After [`Driver::release`] of a connection on which no operation was started, its slot
//!   is free. The connection continues in the driver that [adopts](Driver::adopt) the descriptor,
//!   as if that driver had accepted it. A driver with direct descriptors supports neither.
//! - **D-21** When [`Driver::has_input`] returns a value, it is true exactly if bytes have arrived
//!   that no receive has reported, or the stream has ended. It returns no value while only a pending
//!   `recv` can tell.
//!
//! The entry points are [`Driver`] and, to choose one, [`select`].

mod alarm;
mod datagrams;
pub mod epoll;
pub mod examine;
pub mod select;
mod slots;
mod sock;
pub mod uring;
mod waker;

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::os::fd::OwnedFd;

pub use datagrams::{DATAGRAMS_MAX, Datagram, DatagramSocket, DriverSockets, Replies, SentBatch};
pub use doorbell_ring::{Payload, SendBuf};
pub use rustix::io::Errno;
pub use waker::{WakeSource, Waker};

use crate::id::{ConnId, DatagramIndex, ListenerIndex, SlotIndex};
use crate::time::Time;

/// The kernel's operations as a worker uses them. The [module](self) documents the contract.
pub trait Driver {
    /// Kind of this driver.
    fn kind(&self) -> DriverKind;

    /// Starts accepting on a listener. Does nothing if accept is already armed.
    fn arm_accept(&mut self, listener: ListenerIndex);

    /// Stops accepting; [`Completion::AcceptEnded`] confirms it. Does nothing if accept is not
    /// armed.
    fn disarm_accept(&mut self, listener: ListenerIndex);

    /// Closes the listening socket. Call it only while accept is not armed.
    fn close_listener(&mut self, listener: ListenerIndex);

    /// False if the listener is closed, even if it was closed before this driver was created.
    fn is_listening(&self, _listener: ListenerIndex) -> bool {
        true
    }

    /// True if a client waits in the backlog. Costs a system call, so it is for watchdogs and
    /// draining, and not for the hot path.
    fn accept_backlogged(&mut self, listener: ListenerIndex) -> bool;

    /// Switches to the next lower accept mode (multishot, single-shot, readiness) and returns it;
    /// `None` if there is none. Call it only while accept is not armed.
    fn downgrade_accept(&mut self, listener: ListenerIndex) -> Option<AcceptMode>;

    /// Receives bytes. `expect` states whether bytes have probably arrived.
    fn recv(&mut self, conn: ConnId, expect: Expect) -> Step<Received>;

    /// Sends the unsent part of `buf`. With `more`, the kernel may hold the bytes back until
    /// [`Driver::close`] (`MSG_MORE`).
    fn send(&mut self, conn: ConnId, buf: SendBuf, more: bool) -> Step<Sent>;

    /// Sends borrowed bytes if the kernel accepts all or a part of them without waiting. `None`
    /// means that nothing was sent: use [`Driver::send`]. Call it only with no send in flight. A
    /// driver without such a call always returns `None`.
    fn send_now(&mut self, _conn: ConnId, _bytes: &[u8], _more: bool) -> Option<Result<usize, Errno>> {
        None
    }

    /// Sends FIN after the bytes sent so far; the other direction stays open. There is no
    /// completion: a later close waits for the FIN. Call it only with no send in flight.
    fn shutdown_write(&mut self, conn: ConnId);

    /// Ends pending `recv` and `send` operations of a connection early; each still reports (D-4).
    fn cancel(&mut self, conn: ConnId);

    /// Turns the following close into a reset, so that the peer does not mistake a partial reply
    /// for a whole one. Has no effect on a direct descriptor, whose socket options cannot be set,
    /// unless [`Driver::find_unsent`] has created an ordinary descriptor for it.
    fn reset_on_close(&mut self, conn: ConnId);

    /// Closes a connection. Its slot is free when the close completes.
    fn close(&mut self, conn: ConnId) -> Step<()>;

    /// Removes a connection from the driver and returns its descriptor (D-11).
    fn detach(&mut self, conn: ConnId) -> Step<Result<OwnedFd, Errno>>;

    /// Removes a new connection, on which no operation was started, from the driver, so that
    /// another driver can adopt it (D-20). `None`, without a change, for a direct descriptor.
    fn release(&mut self, slot: SlotIndex) -> Option<OwnedFd>;

    /// Gives a slot to a connection that another driver, of any kind, has released (D-20). `None`
    /// if no slot is free, or with direct descriptors: the connection is then closed and counted in
    /// [`DriverCounters::accepts_dropped`].
    fn adopt(&mut self, fd: OwnedFd) -> Option<SlotIndex>;

    /// True if bytes or the end of the stream wait to be received (D-21): a pending `recv` reports
    /// after one of the next waits. Costs a system call, so it is for draining. `None` for direct
    /// descriptors, and while a `recv` in a ring is pending, which may have taken the bytes.
    fn has_input(&self, conn: ConnId) -> Option<bool>;

    /// Number of bytes that the peer has not acknowledged. Costs a system call, so it is for checks
    /// after a deadline. `None` after an error, and for direct descriptors unless
    /// [`Driver::find_unsent`] succeeded.
    fn unsent(&self, conn: ConnId) -> Option<u32>;

    /// Makes [`Driver::unsent`] available for a connection for which it returns `None`. If the
    /// result is true, call `unsent` again after the next wait; if it is false, the number stays
    /// unknown. Uses a descriptor until the connection ends.
    fn find_unsent(&mut self, _conn: ConnId) -> bool {
        false
    }

    /// The peer's address; `None` for Unix sockets, direct descriptors and after an error.
    fn peer_addr(&self, conn: ConnId) -> Option<SocketAddr>;

    /// The bytes of a chunk.
    fn received(&self, chunk: &Chunk) -> &[u8];

    /// Gives the memory of a chunk back to the driver.
    fn recycle(&mut self, chunk: Chunk);

    /// Submits queued operations and waits for a completion, a wake-up or the timeout (`None`: no
    /// limit, zero: do not wait).
    ///
    /// # Errors
    /// [`Fault`] if the driver failed. The worker then switches to another driver or fails.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Fault>;

    /// Sets a timer, so that a wait that begins before `due` ends at `due` or earlier. Returns
    /// false if the driver has no timer: then pass timeouts to [`Driver::wait`].
    fn wake_by(&mut self, _now: Time, _due: Time) -> bool {
        false
    }

    /// Returns the next completion, if it is of a frequent kind that this driver can report at
    /// lower cost than with [`Driver::next`]. `None` does not imply that no completion is
    /// available.
    fn next_quick(&mut self) -> Option<Quick> {
        None
    }

    /// The next completion, if there is one.
    fn next(&mut self) -> Option<Completion>;

    /// The driver's counters, for the statistics.
    fn counters(&self) -> DriverCounters;

    /// Starts receiving datagrams on a socket. Does nothing if it is already armed.
    fn arm_datagrams(&mut self, socket: DatagramIndex);

    /// Stops receiving; [`Completion::DatagramsEnded`] confirms it. Does nothing if the socket is
    /// not armed.
    fn disarm_datagrams(&mut self, socket: DatagramIndex);

    /// Closes a socket. With `is_last`, no other process or driver receives from it, and the result
    /// is the number of datagrams that were not received (D-19); otherwise it is 0.
    fn close_datagrams(&mut self, socket: DatagramIndex, is_last: bool) -> u64;

    /// False if the socket is closed, even if it was closed before this driver was created.
    fn is_receiving(&self, socket: DatagramIndex) -> bool;

    /// True if a datagram waits in the queue of the socket. Costs a system call, so it is for
    /// watchdogs and draining.
    fn datagrams_queued(&mut self, socket: DatagramIndex) -> bool;

    /// Switches to the next lower mode (multishot, readiness) and returns it; `None` if there is
    /// none. Call it only while the socket is not armed.
    fn downgrade_datagrams(&mut self, socket: DatagramIndex) -> Option<AcceptMode>;

    /// A datagram of the lent batch; `None` if it has no readable sender.
    fn datagram(&self, index: usize) -> Option<Datagram<'_>>;

    /// Sends all replies and removes them. May be called several times per batch.
    fn send_datagrams(&mut self, socket: DatagramIndex, replies: &mut Replies) -> SentBatch;

    /// Ends the loan of the batch: the driver may reuse its memory (D-17).
    fn end_datagrams(&mut self);
}

/// Kinds of drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DriverKind {
    /// `epoll(7)`: readiness, plain system calls.
    Epoll,
    /// `io_uring(7)`.
    IoUring,
    /// A deterministic simulation, for tests.
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

/// The way in which a listener accepts, from the best mode to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptMode {
    /// One io_uring operation reports every connection.
    Multishot,
    /// One io_uring operation per connection.
    SingleShot,
    /// Wait until the listener is readable, then `accept4(2)`.
    Readiness,
}

/// Whether the bytes to receive have probably arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Probably not: wait for the bytes.
    Later,
    /// Probably: try a system call first, and wait only if there are no bytes.
    Now,
}

/// Immediate result of an operation.
#[derive(Debug)]
#[must_use]
pub enum Step<T> {
    /// Complete; no completion follows.
    Done(T),
    /// A completion will follow.
    Pending,
}

/// Result of a `recv`.
#[derive(Debug)]
pub enum Received {
    /// Bytes.
    Data {
        /// The bytes, read with [`Driver::received`].
        chunk: Chunk,
        /// True if the socket is empty after this receive.
        drained: bool,
    },
    /// The peer sent FIN.
    Eof,
    /// A socket error, or [`Errno::CANCELED`].
    Failed(Errno),
}

/// Received bytes in a buffer of the driver. Return them with [`Driver::recycle`], read or not.
#[derive(Debug)]
#[must_use = "a chunk that is not recycled starves the driver of buffers"]
pub struct Chunk {
    pub(crate) source: ChunkSource,
    pub(crate) len: u32,
}

#[derive(Debug)]
pub(crate) enum ChunkSource {
    /// A buffer of the ring's receive pool.
    Ring(doorbell_ring::RecvBuf),
    /// The only scratch buffer of a kernel driver, or a numbered buffer of a simulated driver.
    Scratch(u32),
}

impl Chunk {
    /// A chunk of `len` bytes in a numbered buffer of the driver; for drivers outside this crate.
    pub const fn scratch(number: u32, len: u32) -> Self {
        Self { source: ChunkSource::Scratch(number), len }
    }

    /// The number passed to [`Chunk::scratch`]; `None` for a buffer of the ring.
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

/// Result of a `send`.
#[derive(Debug)]
pub struct Sent {
    /// Number of bytes that the kernel accepted from the unsent part, at least 1, or an error.
    pub result: Result<usize, Errno>,
    /// The buffer of the call (`from` is not advanced).
    pub buf: SendBuf,
}

/// An operation that completed after its call returned.
#[derive(Debug)]
pub enum Completion {
    /// Accept is no longer armed.
    AcceptEnded {
        /// The listener.
        listener: ListenerIndex,
        /// The error that ended the accept; `None` if it ended on request or without an error.
        errno: Option<Errno>,
    },
    /// A new connection occupies `slot`.
    Accepted {
        /// The listener that accepted the connection.
        listener: ListenerIndex,
        /// The slot of the connection until its `close` completes.
        slot: SlotIndex,
    },
    /// A pending `close` completed; the slot is free.
    Closed {
        /// The connection.
        conn: ConnId,
    },
    /// Datagrams arrived. The batch must be ended before the next completion is taken (D-17).
    Datagrams {
        /// The socket.
        socket: DatagramIndex,
        /// Number of datagrams, for [`Driver::datagram`].
        len: u16,
    },
    /// The socket is no longer armed.
    DatagramsEnded {
        /// The socket.
        socket: DatagramIndex,
        /// The error that ended the receive; `None` if it ended on request.
        errno: Option<Errno>,
    },
    /// A pending `detach` completed.
    Detached {
        /// The connection.
        conn: ConnId,
        /// The connection's descriptor; after an error nothing has changed (D-11).
        result: Result<OwnedFd, Errno>,
    },
    /// A pending `recv` completed.
    Received {
        /// The connection.
        conn: ConnId,
        /// The result of the `recv`.
        received: Received,
    },
    /// A pending `send` completed.
    Sent {
        /// The connection.
        conn: ConnId,
        /// The result of the `send`.
        sent: Sent,
    },
}

/// The frequent completions, small enough for registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quick {
    /// A new connection, like [`Completion::Accepted`].
    Accepted(ListenerIndex, SlotIndex),
    /// A pending `recv` ended without a result. A new `recv` either completes at once or is pending
    /// again.
    Ready(ConnId),
}

/// A driver failed and cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {errno}")]
pub struct Fault {
    /// The call that failed.
    pub call: &'static str,
    /// The errno of the call.
    pub errno: Errno,
}

/// Counters of a driver; they include those of the driver that it replaced, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Accepted connections that were closed at once because no slot was free, and invalid
    /// completions of the ring.
    pub accepts_dropped: u64,
    /// Calls of `io_uring_enter(2)` after which completions were in the kernel's overflow list.
    pub cq_overflows: u64,
    /// `io_uring_enter(2)` or `epoll_wait(2)` calls.
    pub enters: u64,
    /// Receives that found no buffer and were retried.
    pub recv_bufs_starved: u64,
}
