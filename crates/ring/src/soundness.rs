//! Soundness: the numbered claims (`R-n`) from which the safety of every `unsafe` block follows.
//!
//! `doorbell-ring` is the only crate of the workspace that contains `unsafe`, and it exports no
//! unsafe function. Whatever a safe caller does with tokens, slots and buffers, the worst result is
//! a panic, an error event or an operation on the wrong connection; two owners never write the same
//! memory. Every `// SAFETY:` comment of the crate names one of these claims.
//!
//! - **R-1** A [`Ring`] stays on the thread that opened it (neither `Send` nor `Sync`), and both
//!   queues are reached through `&mut Ring` only. So the submission tail has one writer, and the
//!   completion head has one writer.
//! - **R-2** `user_data` holds integers: operation tag, generation, slot. No part of a completion
//!   is used as an address. Every index is compared with its table, and with the live entries of
//!   the table, before it is used.
//! - **R-3** Two operations carry a user address: a send and a receive of datagrams. A
//!   receive names the buffer group. An accept requests no peer address. A poll, a close, an
//!   install, a shutdown and a cancel name integers only.
//! - **R-4** A send payload lives in the send table from the push until its final completion. There
//!   is at most one payload per slot (asserted), and it is moved out only when that completion is
//!   read. A table that is dropped early leaks its payloads: the cells are `MaybeUninit` and have
//!   no destructor. `Vec<u8>` and `Bytes` keep their bytes in place when they are moved.
//! - **R-5** The receive region is mapped before it is registered, and unmapped only when nothing
//!   is in flight and the ring is closed. If that cannot be proved in time, the region is leaked.
//! - **R-6** A receive buffer is either with the kernel (in the buffer ring) or lent (one bit set,
//!   one [`RecvBuf`] that cannot be cloned and names its pool), never both. Neither the kernel nor
//!   this crate writes to a lent buffer. The kernel reads the entries of the buffer ring up to its
//!   tail, which is published with `Release`; the kernel never writes the entries.
//! - **R-7** Arguments of system calls are plain data on the caller's stack, or memory of the
//!   argument's type behind a live reference. The kernel reads or writes them only before the call
//!   returns, and keeps no address.
//! - **R-8** An accepted or installed descriptor becomes an `OwnedFd` once: by the one completion
//!   that delivered it. A completion of a multishot accept that looks wrong (see
//!   [`RingCounters::bad_results`]) is rejected. The kernel resolves the number of a borrowed
//!   descriptor at the next [`Ring::enter`], when the borrow has ended. So the number in an entry
//!   is that of a duplicate, which the ring keeps open until the kernel has consumed the entry. If
//!   no duplicate can be made, the entry is consumed before the push returns, or the ring is broken
//!   and never enters the kernel again.
//! - **R-9** Addresses inside a mapped region come from its base and an offset that was checked
//!   against its length. The region has an inaccessible page on both sides.
//! - **R-10** (tests only) A counting allocator passes every call on to the system's allocator,
//!   unchanged.
//! - **R-11** [`close`] takes a descriptor out of the one value that owns it and closes it once; no
//!   other code knows its number.
//! - **R-12** A private mapping of a file holds the contents of the file if the mapping is not
//!   writable and has no modified page. The kernel may drop its pages at any time and reads them
//!   again, so dropping them changes no byte. The code of a loaded object is such a mapping, and
//!   remains one while `dl_iterate_phdr(3)` holds the loader's lock.
//! - **R-13** The region of a [`RecvBatch`] holds message headers and the buffers that they point
//!   to, at offsets that do not overlap. No code outside the batch has a pointer into the region.
//!   The kernel writes to it during `recvmmsg(2)` only, which needs `&mut RecvBatch`; it writes no
//!   more bytes to a buffer than the header states, and it changes no address in a header.
//! - **R-14** Each header of a [`SendBatch`] points to the address, the control data and the vector
//!   in the element of `parts` with the same index. The elements are not moved from the time when
//!   the header gets their addresses until `sendmmsg(2)` returns. The vector points to a payload
//!   that the caller of `send` has borrowed for longer than the call. The kernel reads elements and
//!   payloads during the call, keeps no address, and writes only the length field of a header.
//! - **R-15** A multishot receive of datagrams carries the address of one message header per ring.
//!   The header contains lengths and no address. It lies in a region that is written before the
//!   first such receive, never afterwards, and that is unmapped or leaked together with the buffers
//!   . The buffers of these receives are lent and returned like all others.
//!
//! [`Ring`]: crate::Ring
//! [`Ring::enter`]: crate::Ring::enter
//! [`RecvBatch`]: crate::datagram::RecvBatch
//! [`RecvBuf`]: crate::RecvBuf
//! [`RingCounters::bad_results`]: crate::RingCounters::bad_results
//! [`SendBatch`]: crate::datagram::SendBatch
//! [`close`]: crate::close()
