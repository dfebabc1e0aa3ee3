//! Owns `Ring`: one method per operation to push, and `next` to read the events.

mod enter;
mod reap;
mod tear_down;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, DestinationSlot, Fixed};
use io_uring::{IoUring, opcode};
use rustix::system::uname;

pub use enter::EnterError;
pub use tear_down::TearDown;

use crate::bitmap::Bitmap;
use crate::bufs::{RecvBuf, RecvBufs};
use crate::datagram::{self, Datagram};
use crate::event::{SendBuf, Target};
use crate::memory::Region;
use crate::sends::Sends;
use crate::setup::open;
use crate::sys::RingFd;
use crate::token::{Tag, pack};
use crate::{Errno, Op, Setup, SetupError, SetupReport, Token};
use reap::Cqe;

/// Number of the buffer group for streams.
pub(crate) const BUFFER_GROUP: u16 = 0;

/// Number of the buffer group for datagrams.
pub(crate) const DATAGRAM_GROUP: u16 = 1;

/// `IORING_RECVSEND_POLL_FIRST` (Linux 5.19).
const POLL_FIRST: u16 = 1;

/// The parts that set-up creates. Fields drop in this order, so the queues are closed before the
/// buffers are freed.
pub(crate) struct Parts {
    pub(crate) io: IoUring,
    pub(crate) ring_fd: RingFd,
    pub(crate) bufs: RecvBufs,
    pub(crate) datagrams: Option<DatagramPool>,
    pub(crate) report: SetupReport,
}

/// The memory of multishot receives of datagrams.
pub(crate) struct DatagramPool {
    pub(crate) bufs: RecvBufs,
    /// The message header that every multishot receive of datagrams uses.
    pub(crate) header: Region,
}

impl Parts {
    fn lent_now(&self) -> u64 {
        let datagrams = self.datagrams.as_ref().map_or(0, |pool| pool.bufs.lent_now());
        u64::from(self.bufs.lent_now()) + u64::from(datagrams)
    }

    /// Sets whether dropping the parts leaks the memory that the kernel may still write to.
    fn keep(&mut self, keep: bool) {
        self.bufs.keep(keep);
        if let Some(pool) = &mut self.datagrams {
            pool.bufs.keep(keep);
            pool.header.keep(keep);
        }
    }
}

/// Counters since the ring was opened; fields marked "now" are current values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Completions with an impossible result: an index outside its table or already in use, a
    /// buffer the kernel was not given, an invalid descriptor, an unknown tag. They are ignored, or
    /// reported as an error of their operation.
    pub bad_results: u64,
    /// Buffers lent to the caller now.
    pub buffers_lent: u64,
    /// Receives that found the pool empty (`ENOBUFS`).
    pub buffers_starved: u64,
    /// Completions read.
    pub cqes: u64,
    /// Completions that the kernel dropped for lack of memory, as counted by the kernel.
    pub cqes_dropped: u64,
    /// Calls of `io_uring_enter(2)` after which the kernel still held completions that did not fit
    /// into the completion queue.
    pub cq_overflows: u64,
    /// Calls of `io_uring_enter(2)`.
    pub enters: u64,
    /// Calls of `io_uring_enter(2)` that returned `EAGAIN` or `EBUSY`.
    pub enters_busy: u64,
    /// Operations in flight now: their final completion has not arrived.
    pub in_flight: u64,
    /// Submission entries that the kernel consumed.
    pub sqes: u64,
    /// Calls of `io_uring_enter(2)` that consumed fewer entries than were submitted.
    pub submits_short: u64,
}

/// An io_uring of one thread.
///
/// The [crate page](crate) documents its contract.
pub struct Ring {
    parts: Parts,
    sends: Sends,
    fixed_live: Bitmap,
    /// A completion that was read ahead and not yet processed.
    ahead: Option<Cqe>,
    /// Completions that were removed from the kernel's queue to make room, and error completions of
    /// operations that could not be submitted. Usually empty.
    spill: VecDeque<Cqe>,
    /// The duplicated descriptors that queued entries name.
    named: Vec<OwnedFd>,
    /// Whether this kernel may post a poll mask instead of a descriptor as the last result of a
    /// multishot accept.
    doubts_last_accept: bool,
    counters: RingCounters,
    in_flight: u64,
    fatal: Option<Errno>,
    setup: Setup,
    torn_down: bool,
    /// neither `Send` nor `Sync`.
    _one_thread: PhantomData<*mut ()>,
}

impl Ring {
    /// Opens a ring for the calling thread.
    ///
    /// # Errors
    /// The failed step, the errno and the likely cause.
    pub fn open(setup: &Setup) -> Result<Self, SetupError> {
        let parts = open(setup)?;
        Ok(Self {
            sends: Sends::new(setup.slots),
            fixed_live: Bitmap::new(parts.report.fixed_files),
            ahead: None,
            named: Vec::with_capacity(parts.report.sq_entries as usize),
            doubts_last_accept: reap::ends_accepts_with_masks(&uname().release().to_string_lossy()),
            parts,
            spill: VecDeque::new(),
            counters: RingCounters::default(),
            in_flight: 0,
            fatal: None,
            setup: setup.clone(),
            torn_down: false,
            _one_thread: PhantomData,
        })
    }

    /// The effective settings, and the reason for each reduction.
    #[must_use]
    pub const fn report(&self) -> &SetupReport {
        &self.parts.report
    }

    /// Accepts one connection from a listener, or with `multishot` one connection per event until
    /// the operation ends (`Event::more` false). With `direct`, a connection is an index of the
    /// table of direct descriptors instead of an ordinary descriptor.
    ///
    /// # Panics
    /// If `direct` is set and the ring has no table of direct descriptors.
    pub fn accept(&mut self, token: Token, listener: BorrowedFd<'_>, multishot: bool, direct: bool) {
        assert!(
            !direct || self.parts.report.fixed_files > 0,
            "direct accept needs a table of direct descriptors"
        );
        // SOCK_CLOEXEC has no meaning for a direct descriptor and the kernel refuses it.
        let flags = if direct { 0 } else { libc::SOCK_CLOEXEC };
        self.push_of(Tag::accept(multishot, direct), token, listener, |fd| {
            if multishot {
                opcode::AcceptMulti::new(fd).allocate_file_index(direct).flags(flags).build()
            } else {
                let index = direct.then(DestinationSlot::auto_target);
                let none = std::ptr::null_mut();
                opcode::Accept::new(fd, none, none.cast()).file_index(index).flags(flags).build()
            }
        });
    }

    /// Receives once, into a buffer of the pool. With `poll_first` the kernel waits until the
    /// socket is readable before its first attempt. Use it only if no bytes are expected yet: it
    /// saves the attempt that would find none.
    #[inline]
    pub fn recv(&mut self, token: Token, target: Target<'_>, poll_first: bool) {
        let len = self.parts.bufs.buf_len();
        let ioprio = if poll_first { POLL_FIRST } else { 0 };
        let none = std::ptr::null_mut();
        let entry = |recv: opcode::Recv| {
            recv.buf_group(BUFFER_GROUP).ioprio(ioprio).build().flags(Flags::BUFFER_SELECT)
        };
        match target {
            Target::Fd(fd) => {
                self.push_of(Tag::Recv, token, fd, |fd| entry(opcode::Recv::new(fd, none, len)));
            }
            Target::Fixed(index) => {
                self.push(Tag::Recv, token, entry(opcode::Recv::new(Fixed(index), none, len)));
            }
        }
    }

    /// Receives datagrams, each into a buffer of its own, until the operation ends (`Event::more`
    /// false). Linux before 6.0 ends it at once with `EINVAL`.
    ///
    /// # Panics
    /// If [`Setup::datagram_bufs`] is 0.
    pub fn recv_datagrams(&mut self, token: Token, socket: BorrowedFd<'_>) {
        let pool = self.parts.datagrams.as_ref().expect("receiving datagrams needs buffers for them");
        let header = pool.header.at(0, size_of::<libc::msghdr>()).cast_const().cast();
        self.push_of(Tag::RecvDatagrams, token, socket, |fd| {
            opcode::RecvMsgMulti::new(fd, header, DATAGRAM_GROUP).build()
        });
    }

    /// The datagram in a buffer. `None` if the kernel has left impossible contents, or the sender
    /// has no IP address.
    ///
    /// # Panics
    /// If the buffer does not belong to this ring, or contains no datagram.
    #[must_use]
    pub fn datagram(&self, buf: &RecvBuf) -> Option<Datagram<'_>> {
        let pool = self.parts.datagrams.as_ref().expect("the ring has received datagrams");
        datagram::parse(pool.bufs.received(buf))
    }

    /// Returns the buffer of a datagram to the pool.
    ///
    /// # Panics
    /// If the buffer does not belong to this ring, or contains no datagram.
    pub fn recycle_datagram(&mut self, buf: RecvBuf) {
        self.parts.datagrams.as_mut().expect("the ring has received datagrams").bufs.recycle(buf);
    }

    /// Sends the unsent part of `buf` with one operation. With `more`, TCP holds back the last
    /// segment until more data or a close follows (`MSG_MORE`). The event returns `buf`.
    ///
    /// # Panics
    /// If the slot is not below `Setup::slots` or has a send in flight.
    #[inline]
    pub fn send(&mut self, token: Token, target: Target<'_>, buf: SendBuf, more: bool) {
        let (addr, len) = self.sends.put(token.slot, buf);
        let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
        match target {
            Target::Fd(fd) => {
                self.push_of(Tag::Send, token, fd, |fd| opcode::Send::new(fd, addr, len).flags(flags).build())
            }
            Target::Fixed(index) => {
                let entry = opcode::Send::new(Fixed(index), addr, len).flags(flags).build();
                self.push(Tag::Send, token, entry);
            }
        }
    }

    /// Closes a direct descriptor. The index may be reused for a new connection before the event of
    /// the close arrives.
    ///
    /// # Panics
    /// If the index is outside the table.
    pub fn close_fixed(&mut self, token: Token, index: u32) {
        assert!(index < self.fixed_live.len(), "index {index} is beyond the table of direct descriptors");
        self.fixed_live.remove(index);
        self.push(Tag::Close, token, opcode::Close::new(Fixed(index)).build());
    }

    /// Closes a direct descriptor without an event (`IOSQE_CQE_SKIP_SUCCESS`, Linux 5.17). The
    /// close takes effect with the next `enter`. Only a wrong index can make the close fail;
    /// [`RingCounters::bad_results`] counts that.
    ///
    /// # Panics
    /// If the index is outside the table.
    pub fn close_fixed_quietly(&mut self, token: Token, index: u32) {
        assert!(index < self.fixed_live.len(), "index {index} is beyond the table of direct descriptors");
        self.fixed_live.remove(index);
        let entry = opcode::Close::new(Fixed(index)).build().flags(Flags::SKIP_SUCCESS);
        let user_data = pack(Tag::CloseQuiet, token);
        self.push_entry(user_data, &entry.user_data(user_data));
    }

    /// Creates an ordinary, close-on-exec descriptor for a direct descriptor, which stays open
    /// (`FIXED_FD_INSTALL`, Linux 6.8). The operation fails if [`SetupReport::fd_install`] is
    /// false.
    pub fn install_fixed(&mut self, token: Token, index: u32) {
        self.push(Tag::Install, token, opcode::FixedFdInstall::new(Fixed(index), 0).build());
    }

    /// Shuts down the sending side of a direct descriptor. The operation always runs on a kernel
    /// worker thread, so it is too expensive for the hot path. That thread resolves the index when
    /// it runs: wait for the event before closing the index, otherwise the shutdown may affect the
    /// next connection with that index.
    pub fn shutdown_fixed(&mut self, token: Token, index: u32) {
        self.push(Tag::ShutDown, token, opcode::Shutdown::new(Fixed(index), libc::SHUT_WR).build());
    }

    /// Delivers an event each time `fd` becomes readable, until the operation ends (`Event::more`
    /// false).
    pub fn poll_readable(&mut self, token: Token, fd: BorrowedFd<'_>) {
        let events = u32::from(libc::POLLIN.cast_unsigned());
        self.push_of(Tag::PollReadable, token, fd, |fd| opcode::PollAdd::new(fd, events).multi(true).build());
    }

    /// Delivers an event each time bytes or the end of the stream arrive at a connection, until the
    /// operation ends (`Event::more` false). Bytes that have already arrived cause the first event.
    /// While the poll is armed, the ring keeps the socket open: cancel the poll, wait for its last
    /// event, then close the socket.
    pub fn poll_conn(&mut self, token: Token, fd: BorrowedFd<'_>) {
        let events = u32::from((libc::POLLIN | libc::POLLRDHUP).cast_unsigned());
        self.push_of(Tag::PollConn, token, fd, |fd| opcode::PollAdd::new(fd, events).multi(true).build());
    }

    /// Cancels the operation pushed with `op` and `token`, if it is still running. The operation
    /// has a final event whether or not it is cancelled; the cancel itself has no event.
    pub fn cancel(&mut self, op: Op, token: Token) {
        for tag in Tag::of(op) {
            self.push(Tag::Cancel, token, opcode::AsyncCancel::new(pack(*tag, token)).build());
        }
    }

    /// The bytes of a received buffer.
    ///
    /// # Panics
    /// If the buffer belongs to another ring, or contains a datagram.
    #[inline]
    #[must_use]
    pub fn received(&self, buf: &RecvBuf) -> &[u8] {
        self.parts.bufs.received(buf)
    }

    /// Returns a received buffer to the pool.
    ///
    /// # Panics
    /// If the buffer belongs to another ring, or contains a datagram.
    #[inline]
    pub fn recycle(&mut self, buf: RecvBuf) {
        self.parts.bufs.recycle(buf);
    }

    /// A snapshot of the counters.
    #[must_use]
    pub fn counters(&self) -> RingCounters {
        RingCounters { buffers_lent: self.parts.lent_now(), in_flight: self.in_flight, ..self.counters }
    }

    fn cancel_everything(&mut self) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.push(Tag::Cancel, Token::new(0, 0), entry);
    }

    #[inline]
    fn push(&mut self, tag: Tag, token: Token, entry: Entry) {
        let user_data = pack(tag, token);
        self.in_flight += 1;
        self.push_entry(user_data, &entry.user_data(user_data));
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("report", &self.parts.report)
            .field("in_flight", &self.in_flight)
            .field("fatal", &self.fatal)
            .finish_non_exhaustive()
    }
}
