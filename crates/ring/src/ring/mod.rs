//! Owns `Ring`: operations in by one push each, events out by `next`.
//! Does not know about: what a connection is; when to enter (the caller's turn decides).

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
use crate::event::{SendBuf, Target};
use crate::sends::Sends;
use crate::setup::open;
use crate::sys::RingFd;
use crate::token::{Tag, pack};
use crate::{Errno, Op, Setup, SetupError, SetupReport, Token};
use reap::Cqe;

/// The only buffer group of a ring.
pub(crate) const BUFFER_GROUP: u16 = 0;

/// `IORING_RECVSEND_POLL_FIRST` (5.19).
const POLL_FIRST: u16 = 1;

/// What set-up makes. The queues are closed before the buffers are freed: fields drop in this order.
pub(crate) struct Parts {
    pub(crate) io: IoUring,
    pub(crate) ring_fd: RingFd,
    pub(crate) bufs: RecvBufs,
    pub(crate) report: SetupReport,
}

/// Counters since the ring was opened, except where it says "now".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Completions whose result could not be true: an index outside its table or live already, a buffer we did not give, a
    /// descriptor that is not one, an unknown tag. None of them was believed.
    pub bad_results: u64,
    /// Buffers out with the caller now.
    pub buffers_lent: u64,
    /// Receives that found the pool empty (`ENOBUFS`).
    pub buffers_starved: u64,
    /// Completions read.
    pub cqes: u64,
    /// Completions the kernel dropped for lack of memory, as it counts them.
    pub cqes_dropped: u64,
    /// Calls of `enter` that left completions parked outside the queue.
    pub cq_overflows: u64,
    /// Calls of `io_uring_enter(2)`.
    pub enters: u64,
    /// Of these, answered by `EAGAIN` or `EBUSY`.
    pub enters_busy: u64,
    /// Operations without their final completion, now.
    pub in_flight: u64,
    /// Entries the kernel consumed.
    pub sqes: u64,
    /// Calls of `io_uring_enter(2)` that consumed fewer entries than were given.
    pub submits_short: u64,
}

/// An io_uring of one thread. See the crate page for its contract.
pub struct Ring {
    parts: Parts,
    sends: Sends,
    fixed_live: Bitmap,
    /// A completion that was looked at and not yet worked off.
    ahead: Option<Cqe>,
    /// Completions that had to be taken out of the queue before their turn, and those of operations that could not be
    /// submitted. Empty except on a kernel in trouble; bounded by what is in flight.
    spill: VecDeque<Cqe>,
    /// Duplicates of the descriptors that entries in the queue name.
    named: Vec<OwnedFd>,
    /// Whether the last result of a multishot accept may be something else than a descriptor.
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
    /// The step that failed, the errno and the likely cause.
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

    /// What is in force and why it is not more.
    #[must_use]
    pub const fn report(&self) -> &SetupReport {
        &self.parts.report
    }

    /// Accepts from a listener: one connection, or with `multishot` one event for each until it ends
    /// (`Event::more` false). With `direct` they arrive as indices of the table and not as descriptors.
    ///
    /// # Panics
    /// If `direct` and the ring has no table.
    pub fn accept(&mut self, token: Token, listener: BorrowedFd<'_>, multishot: bool, direct: bool) {
        assert!(
            !direct || self.parts.report.fixed_files > 0,
            "direct accept needs a table of direct descriptors"
        );
        // SOCK_CLOEXEC has no meaning for a direct descriptor and is refused there.
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

    /// Receives once, into a buffer of the pool. `poll_first`: wait for bytes before trying; wrong where they are there
    /// already.
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

    /// Sends what remains of `buf`, once; `more` holds the last segment back for what follows (`MSG_MORE`), for example a
    /// close. The ring keeps `buf` until the event.
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

    /// Closes a direct descriptor. From here on the index may come back with a new connection.
    ///
    /// # Panics
    /// If the index is outside the table.
    pub fn close_fixed(&mut self, token: Token, index: u32) {
        assert!(index < self.fixed_live.len(), "index {index} is beyond the table of direct descriptors");
        self.fixed_live.remove(index);
        self.push(Tag::Close, token, opcode::Close::new(Fixed(index)).build());
    }

    /// As [`Ring::close_fixed`], without an event (`IOSQE_CQE_SKIP_SUCCESS`, 5.17): it is done with the next `enter`, and a failure, which
    /// only a wrong index can cause, is counted in [`RingCounters::bad_results`].
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

    /// Makes an ordinary descriptor of a direct one, close-on-exec, which stays open beside it (`FIXED_FD_INSTALL`, 6.8). Where
    /// [`SetupReport::fd_install`] is false it fails.
    pub fn install_fixed(&mut self, token: Token, index: u32) {
        self.push(Tag::Install, token, opcode::FixedFdInstall::new(Fixed(index), 0).build());
    }

    /// Ends the sending side of a direct descriptor. Always a kernel worker thread: not for the hot path. That thread looks the index up when it
    /// gets to it, so wait for the event before the index is closed, or whoever has it next is shut down.
    pub fn shutdown_fixed(&mut self, token: Token, index: u32) {
        self.push(Tag::ShutDown, token, opcode::Shutdown::new(Fixed(index), libc::SHUT_WR).build());
    }

    /// One event each time `fd` becomes readable, until it ends (`Event::more` false).
    pub fn poll_readable(&mut self, token: Token, fd: BorrowedFd<'_>) {
        let events = u32::from(libc::POLLIN.cast_unsigned());
        self.push_of(Tag::PollReadable, token, fd, |fd| opcode::PollAdd::new(fd, events).multi(true).build());
    }

    /// One event each time bytes or the end of the stream arrive at a connection, until it ends (`Event::more` false). What is
    /// there already makes the first one. While it is armed the ring keeps the socket open: cancel it, wait for the last event, then
    /// close.
    pub fn poll_conn(&mut self, token: Token, fd: BorrowedFd<'_>) {
        let events = u32::from((libc::POLLIN | libc::POLLRDHUP).cast_unsigned());
        self.push_of(Tag::PollConn, token, fd, |fd| opcode::PollAdd::new(fd, events).multi(true).build());
    }

    /// Cancels the operation pushed with `op` and `token`, if it still runs. It has its own final event either way; the cancel
    /// has none.
    pub fn cancel(&mut self, op: Op, token: Token) {
        for tag in Tag::of(op) {
            self.push(Tag::Cancel, token, opcode::AsyncCancel::new(pack(*tag, token)).build());
        }
    }

    /// The bytes of a received buffer.
    ///
    /// # Panics
    /// If the buffer came from another ring.
    #[inline]
    #[must_use]
    pub fn received(&self, buf: &RecvBuf) -> &[u8] {
        self.parts.bufs.received(buf)
    }

    /// Gives a received buffer back to the pool.
    ///
    /// # Panics
    /// If the buffer came from another ring.
    #[inline]
    pub fn recycle(&mut self, buf: RecvBuf) {
        self.parts.bufs.recycle(buf);
    }

    /// A snapshot.
    #[must_use]
    pub fn counters(&self) -> RingCounters {
        RingCounters {
            buffers_lent: u64::from(self.parts.bufs.lent_now()),
            in_flight: self.in_flight,
            ..self.counters
        }
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
