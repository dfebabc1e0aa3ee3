//! Owns the conversion of completions to events, and the checks that reject impossible completions.
#![expect(unsafe_code, reason = "a number becomes an owned descriptor")]

use std::os::fd::{FromRawFd, OwnedFd};

use io_uring::cqueue;

use super::Ring;
use crate::event::{Accepted, Event, EventKind, Quick, Ready, Received};
use crate::token::{Tag, Token, pack, split, unpack};
use crate::{Errno, RecvBuf, sockopt};

/// A copied completion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cqe {
    pub(super) user_data: u64,
    pub(super) result: i32,
    pub(super) flags: u32,
}

/// `POLLIN | POLLRDNORM`: the bits that the poll mask of a readable listener always has.
const POLL_MASK_READABLE: i32 = 0x41;
/// All bits that a listener's poll mask can have: those above, and `POLLPRI`, `POLLERR`, `POLLHUP`,
/// `POLLRDBAND`, `POLLRDHUP`.
const POLL_MASK_ALL: i32 = POLL_MASK_READABLE | 0x02 | 0x08 | 0x10 | 0x80 | 0x2000;

impl Ring {
    /// The next event, or `None` when the kernel has no more for now.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "`None` is not final: more events follow after the next enter"
    )]
    pub fn next(&mut self) -> Option<Event> {
        loop {
            let cqe = self.take()?;
            if let Some(event) = self.decode(cqe) {
                return Some(event);
            }
        }
    }

    /// The next event if it is of a frequent kind, at lower cost than `next`. `None` means that the
    /// next event, if any, must be read with `next`.
    #[inline]
    pub fn next_quick(&mut self) -> Option<(Token, Quick)> {
        let cqe = self.take()?;
        if cqueue::more(cqe.flags) && cqe.result >= 0 {
            let (tag, token) = split(cqe.user_data);
            if tag == Tag::AcceptMultiFd as u8 {
                // SAFETY: R-8, as in `decode_accept_fd`.
                return Some((token, Quick::Accepted(unsafe { OwnedFd::from_raw_fd(cqe.result) })));
            }
            if tag == Tag::PollConn as u8 {
                return Some((token, Quick::Ready(ready(cqe.result.cast_unsigned()))));
            }
        }
        self.ahead = Some(cqe);
        None
    }

    /// The next event if it is a datagram of a receive that was pushed with `token` and stays
    /// armed. `None` means that the next event, if any, must be read with `next`.
    #[inline]
    pub fn next_datagram(&mut self, token: Token) -> Option<RecvBuf> {
        let cqe = self.take()?;
        if cqueue::more(cqe.flags)
            && cqe.user_data == pack(Tag::RecvDatagrams, token)
            && let (Ok(len), Some(id)) = (number(cqe), cqueue::buffer_select(cqe.flags))
            && let Some(pool) = &mut self.parts.datagrams
            && let Some(buf) = pool.bufs.lend(id, len)
        {
            return Some(buf);
        }
        self.ahead = Some(cqe);
        None
    }

    /// Whether completions removed from the kernel's queue are still unprocessed.
    pub(super) fn has_unread(&self) -> bool {
        self.ahead.is_some() || !self.spill.is_empty()
    }

    /// Removes the oldest completion. Completions that were removed from the kernel's queue earlier
    /// come first.
    #[inline]
    fn take(&mut self) -> Option<Cqe> {
        if self.has_unread() {
            return self.ahead.take().or_else(|| self.spill.pop_front());
        }
        let entry = self.parts.io.completion().next()?;
        self.counters.cqes += 1;
        Some(Cqe::from(entry))
    }

    /// Moves all completions from the kernel's queue to `spill`.
    #[cold]
    pub(super) fn spill_queue(&mut self) {
        let before = self.spill.len();
        self.spill.extend(self.parts.io.completion().map(Cqe::from));
        self.counters.cqes += (self.spill.len() - before) as u64;
    }

    #[inline]
    fn decode(&mut self, cqe: Cqe) -> Option<Event> {
        let (tag, token) = unpack(cqe.user_data);
        let more = cqueue::more(cqe.flags);
        if tag == Some(Tag::CloseQuiet) {
            return self.stray();
        }
        if !more {
            // With nothing in flight, a second final completion of an operation makes the count
            // wrap. The count then never reaches zero, so tear-down leaks the memory, which
            // is safe.
            self.in_flight = self.in_flight.wrapping_sub(1);
        }
        let kind = match tag {
            Some(Tag::Recv) => EventKind::Received(self.decode_recv(cqe)),
            Some(Tag::Send) => {
                let Some(buf) = self.sends.take(token.slot) else {
                    return self.surplus(more);
                };
                EventKind::Sent { result: number(cqe), buf }
            }
            Some(Tag::AcceptFd | Tag::AcceptMultiFd) => {
                let last_of_many = tag == Some(Tag::AcceptMultiFd) && !more;
                EventKind::Accepted(self.decode_accept_fd(cqe, last_of_many))
            }
            Some(Tag::AcceptFixed | Tag::AcceptMultiFixed) => {
                EventKind::Accepted(self.decode_accept_fixed(cqe))
            }
            Some(Tag::Close) => EventKind::Closed(number(cqe).map(drop)),
            Some(Tag::Install) => EventKind::Installed(Self::decode_install(cqe)),
            Some(Tag::RecvDatagrams) => EventKind::Datagram(self.decode_datagram(cqe)),
            Some(Tag::PollConn) => EventKind::Ready(number(cqe).map(ready)),
            Some(Tag::PollReadable) => EventKind::Readable(number(cqe).map(drop)),
            Some(Tag::ShutDown) => EventKind::ShutDown(number(cqe).map(drop)),
            Some(Tag::Cancel) => return None,
            Some(Tag::CloseQuiet) | None => return self.surplus(more),
        };
        debug_assert!(more || self.in_flight != u64::MAX, "every final completion has a push");
        Some(Event { token, kind, more })
    }

    #[inline]
    fn decode_recv(&mut self, cqe: Cqe) -> Result<Received, Errno> {
        let id = cqueue::buffer_select(cqe.flags);
        let more_queued = cqueue::sock_nonempty(cqe.flags);
        match (number(cqe), id) {
            (Ok(len @ 1..), Some(id)) => {
                let Some(buf) = self.parts.bufs.lend(id, len) else {
                    return Err(self.bad(Errno::IO));
                };
                Ok(Received { buf: Some(buf), more_queued })
            }
            (Ok(1..), None) => Err(self.bad(Errno::IO)),
            (Ok(0), None) => Ok(Received { buf: None, more_queued }),
            (result, Some(id)) => {
                // The kernel selected a buffer and did not fill it: at the end of a stream, and on
                // some kernels after an error.
                if !self.parts.bufs.give_back(id) {
                    self.bad(Errno::IO);
                }
                result.map(|_| Received { buf: None, more_queued })
            }
            (Err(errno), None) => {
                self.counters.buffers_starved += u64::from(errno == Errno::NOBUFS);
                Err(errno)
            }
        }
    }

    fn decode_datagram(&mut self, cqe: Cqe) -> Result<RecvBuf, Errno> {
        let Some(pool) = &mut self.parts.datagrams else { return Err(self.bad(Errno::IO)) };
        match (number(cqe), cqueue::buffer_select(cqe.flags)) {
            (Ok(len), Some(id)) => pool.bufs.lend(id, len).ok_or_else(|| self.bad(Errno::IO)),
            (Ok(_), None) => Err(self.bad(Errno::IO)),
            (Err(errno), id) => {
                // As in `decode_recv`: some kernels report the buffer that they did not fill.
                if id.is_some_and(|id| !pool.bufs.give_back(id)) {
                    self.bad(Errno::IO);
                }
                self.counters.buffers_starved += u64::from(errno == Errno::NOBUFS);
                Err(errno)
            }
        }
    }

    /// Decodes the result of an accept.
    ///
    /// The last event of a multishot accept is trusted only if its number is a connected socket. If
    /// this kernel may post a poll mask in that event, a number that looks like a mask is refused
    /// too. In rare cases this loses a connection and leaves its descriptor open, but trusting a
    /// mask could close an unrelated descriptor.
    #[inline]
    fn decode_accept_fd(&mut self, cqe: Cqe, last_of_many: bool) -> Result<Accepted, Errno> {
        number(cqe)?;
        let is_mask = self.doubts_last_accept && looks_like_poll_mask(cqe.result);
        if last_of_many && (is_mask || !sockopt::is_connected_socket(cqe.result)) {
            return Err(self.bad(Errno::BADF));
        }
        // SAFETY: R-8, a successful accept made this descriptor for this ring, and its completion
        // is read once.
        let fd = unsafe { OwnedFd::from_raw_fd(cqe.result) };
        Ok(Accepted::Fd(fd))
    }

    #[inline]
    fn decode_accept_fixed(&mut self, cqe: Cqe) -> Result<Accepted, Errno> {
        let index = number(cqe)?;
        if self.fixed_live.insert(index) { Ok(Accepted::Fixed(index)) } else { Err(self.bad(Errno::BADF)) }
    }

    fn decode_install(cqe: Cqe) -> Result<OwnedFd, Errno> {
        number(cqe)?;
        // SAFETY: R-8, the operation made this descriptor for this ring, and its completion is read
        // once.
        Ok(unsafe { OwnedFd::from_raw_fd(cqe.result) })
    }

    #[cold]
    const fn bad(&mut self, errno: Errno) -> Errno {
        self.counters.bad_results += 1;
        errno
    }

    /// Ignores a completion of no operation in flight, which therefore ends none.
    #[cold]
    fn surplus(&mut self, more: bool) -> Option<Event> {
        self.in_flight = self.in_flight.wrapping_add(u64::from(!more));
        self.stray()
    }

    #[cold]
    const fn stray(&mut self) -> Option<Event> {
        self.counters.bad_results += 1;
        None
    }
}

/// The result of a completion: a count, an index or an errno.
#[inline]
const fn number(cqe: Cqe) -> Result<u32, Errno> {
    if cqe.result < 0 { Err(Errno(-cqe.result)) } else { Ok(cqe.result.cast_unsigned()) }
}

/// Decodes a poll mask.
const fn ready(mask: u32) -> Ready {
    let end = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
    Ready { hung_up: mask & end.cast_unsigned() as u32 != 0 }
}

/// Whether a kernel of this release may post a poll mask instead of a descriptor as the last result
/// of a multishot accept whose completion overflowed. Observed from 6.6 to 6.8-rc4, not in 6.2.
/// Releases from 6.3 to 6.5, and those that cannot be parsed, count as affected.
pub(super) fn ends_accepts_with_masks(release: &str) -> bool {
    let mut numbers = release.split(['.', '-', '+', '_']).map_while(|number| number.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else { return true };
    match (major, minor) {
        (6, 3..=7) => true,
        (6, 8) => release.contains("-rc"),
        _ => false,
    }
}

const fn looks_like_poll_mask(result: i32) -> bool {
    result & POLL_MASK_READABLE == POLL_MASK_READABLE && result & !POLL_MASK_ALL == 0
}

impl From<cqueue::Entry> for Cqe {
    #[inline]
    fn from(entry: cqueue::Entry) -> Self {
        Self { user_data: entry.user_data(), result: entry.result(), flags: entry.flags() }
    }
}
