//! A safe io_uring that owns every byte the kernel may touch: set-up with reasons, operations in,
//! events out, tear-down.
//! Does not know about: connections, HTTP, policy.
//! Start at [`Ring::open`]; a turn is [`Ring::enter`] and then [`Ring::next`] until it returns
//! `None`.
//!
//! # Soundness
//!
//! This is the only crate of the workspace that contains `unsafe`, and it exports no unsafe
//! function. Whatever a safe caller does with tokens, slots and buffers, the worst result is a
//! panic, an error event or an operation on the wrong connection, never memory that two owners
//! write. Every `// SAFETY:` in the crate names one of these claims.
//!
//! - **R-1** A [`Ring`] stays on the thread that opened it (neither `Send` nor `Sync`), and both
//!   queues are reached through `&mut Ring` only. So there is one writer of the submission tail and
//!   one of the completion head.
//! - **R-2** `user_data` holds integers: operation tag, generation, slot. No part of a completion
//!   is used as an address; every index is compared with its table, and with the live entries in
//!   it, before it is used.
//! - **R-3** The only operation that carries a user address is a send. A receive names the buffer
//!   group, an accept requests no peer address, a poll, a close, a shutdown and a cancel name
//!   integers only.
//! - **R-4** A send payload lives in the send table from the push until its final completion. There
//!   is at most one per slot (asserted), it is moved out only when that completion is seen, and a
//!   table that is dropped early leaks it: the table's cells are `MaybeUninit` and have no
//!   destructor. `Vec<u8>` and `Bytes` keep their bytes in place when they are moved.
//! - **R-5** The receive region is mapped before it is registered and unmapped only when nothing is
//!   in flight and the ring is closed. If that cannot be proved in time it is leaked.
//! - **R-6** A receive buffer is either with the kernel (in the buffer ring) or lent (one bit set,
//!   one [`RecvBuf`] that cannot be cloned and names its ring), never both. The bytes of a lent
//!   buffer are not written. The kernel reads the entries of the buffer ring up to its tail, which
//!   is published with `Release`; it never writes them.
//! - **R-7** Arguments of system calls are plain data on the caller's stack, or memory of the
//!   argument's type behind a live reference. The kernel copies them before the call returns and
//!   keeps no address.
//! - **R-8** An accepted or installed descriptor becomes an `OwnedFd` once: by the one completion
//!   that delivered it. A completion of a multishot accept that looks wrong (see
//!   [`RingCounters::bad_results`]) is rejected. The kernel resolves the number of a borrowed
//!   descriptor at the next [`Ring::enter`], when the borrow has ended: so the number in an entry
//!   is that of a duplicate, which the ring keeps open until the entry was consumed. If no
//!   duplicate can be made, the entry is consumed before the push returns, or the ring is broken
//!   and never enters the kernel again.
//! - **R-9** Addresses inside a mapped region come from its base and an offset that was checked
//!   against its length; the region has an inaccessible page on both sides.
//! - **R-10** (tests only) A counting allocator passes every call on to the system's, unchanged.
//! - **R-11** [`close`] takes a descriptor out of the one value that owns it and closes it once; no
//!   other code knows its number.
//! - **R-12** A private mapping of a file that is not writable and has no modified page holds the
//!   contents of the file: the kernel may drop its pages at any time and reads them again, so
//!   dropping them changes no byte. The code of a loaded object is such a mapping, and remains one
//!   while `dl_iterate_phdr(3)` holds the loader's lock.
//!
//! # What a caller must know
//!
//! - `O_NONBLOCK` makes no difference: every operation waits inside the kernel until it can proceed
//!   or is cancelled.
//! - A [`RecvBuf`] that is dropped and not recycled stays out of the pool until the ring is torn
//!   down; this is safe, and [`RingCounters::buffers_lent`] shows it.
//! - A push that names a plain descriptor duplicates it until the next `enter`: closing it before
//!   that does not close the connection yet.

mod bitmap;
mod bufs;
mod code;
mod errno;
mod event;
mod memory;
mod ring;
pub mod sandbox;
pub mod selftest;
mod sends;
mod setup;
pub mod sockopt;
mod sys;
mod token;

pub use bufs::RecvBuf;
pub use code::forget_code_pages;
pub use errno::Errno;
pub use event::{Accepted, Event, EventKind, Payload, Quick, Ready, Received, SendBuf, Target};
pub use ring::{EnterError, Ring, RingCounters, TearDown};
pub use setup::{Hint, Lever, Levers, Setup, SetupError, SetupReport, Step, StepDown, opcodes};
pub use sys::close;
pub use token::{Op, Token};
