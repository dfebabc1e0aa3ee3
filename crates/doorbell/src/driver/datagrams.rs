//! Datagram sockets: the memory of a batch and of its replies, and system calls on them that both
//! kernel drivers use.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};

pub use doorbell_ring::datagram::{Datagram, SentBatch};
use doorbell_ring::datagram::{Outgoing, RecvBatch, SendBatch};
use rustix::io::Errno;

use super::sock;
use crate::id::DatagramIndex;

/// Maximum number of datagrams of a batch (D-16).
pub const DATAGRAMS_MAX: usize = 64;

/// Memory for the payloads of a batch. It limits a batch of long datagrams to fewer than
/// [`DATAGRAMS_MAX`].
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Memory for replies; the replies are sent when the next one may not fit. The longest payload over
/// IPv4 fits.
const REPLY_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of datagrams that a close takes from a queue to count them.
const COUNTED_MAX: u64 = 1 << 16;

/// A socket that receives datagrams.
#[derive(Debug)]
pub struct DatagramSocket {
    /// The socket: bound, non-blocking, and reporting destination addresses.
    pub fd: OwnedFd,
    /// True if the family of the socket is `AF_INET6`.
    pub is_v6: bool,
    /// Maximum length of a datagram; longer ones are reported as truncated.
    pub size_max: usize,
}

/// The sockets of a driver. `None` stands for a socket that was closed by an earlier driver.
#[derive(Debug, Default)]
pub struct DriverSockets {
    /// Listening sockets by [`ListenerIndex`](crate::id::ListenerIndex).
    pub listeners: Vec<Option<OwnedFd>>,
    /// Datagram sockets by [`DatagramIndex`].
    pub datagrams: Vec<Option<DatagramSocket>>,
}

impl From<Vec<OwnedFd>> for DriverSockets {
    fn from(listeners: Vec<OwnedFd>) -> Self {
        Self { listeners: listeners.into_iter().map(Some).collect(), datagrams: Vec::new() }
    }
}

/// Replies to the datagrams of a batch, in memory of a fixed size.
#[derive(Debug)]
pub struct Replies {
    bytes: Box<[u8]>,
    used: usize,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    to: SocketAddr,
    from: Option<IpAddr>,
    payload: Range<usize>,
}

impl Default for Replies {
    /// Reserves the memory.
    fn default() -> Self {
        Self {
            bytes: vec![0; REPLY_BYTES_MAX].into_boxed_slice(),
            used: 0,
            entries: Vec::with_capacity(DATAGRAMS_MAX),
        }
    }
}

impl Replies {
    /// True if a reply of `len` bytes fits beside the earlier replies.
    pub fn fits(&self, len: usize) -> bool {
        self.entries.len() < DATAGRAMS_MAX && len <= self.bytes.len() - self.used
    }

    /// Memory for the next reply; shorter than `len_max` if less is free.
    pub fn room(&mut self, len_max: usize) -> &mut [u8] {
        let free = self.bytes.get_mut(self.used..).unwrap_or_default();
        let len = len_max.min(free.len());
        &mut free[..len]
    }

    /// Adds the first `len` bytes of [`Self::room`] as a reply to `to`, from the address `from`.
    ///
    /// # Panics
    /// If the room is shorter than `len`.
    pub fn push(&mut self, to: SocketAddr, from: Option<IpAddr>, len: usize) {
        let payload = self.used..self.used + len;
        assert!(payload.end <= self.bytes.len(), "a reply is written into the room for it");
        self.used = payload.end;
        self.entries.push(Entry { to, from, payload });
    }

    /// Number of replies.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no reply.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The replies in order.
    pub fn iter(&self) -> impl Iterator<Item = Outgoing<'_>> {
        self.entries.iter().map(|entry| Outgoing {
            payload: &self.bytes[entry.payload.clone()],
            to: entry.to,
            from: entry.from,
        })
    }

    /// Removes all replies.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.used = 0;
    }
}

/// The datagram sockets of a kernel driver, and memory for one batch that a system call receives.
#[derive(Debug)]
pub(super) struct Datagrams {
    sockets: Vec<Option<DatagramSocket>>,
    /// `None` if there are no sockets, or no memory for a batch.
    recv: Option<RecvBatch>,
    send: SendBatch,
    /// The socket of the batch in `recv`.
    lent: Option<DatagramIndex>,
}

impl Datagrams {
    pub(super) fn new(sockets: Vec<Option<DatagramSocket>>) -> Self {
        let size_max = size_max(&sockets);
        let recv = (!sockets.is_empty()).then(|| RecvBatch::new(batch_len(size_max), size_max).ok());
        let send = SendBatch::new(if sockets.is_empty() { 0 } else { DATAGRAMS_MAX });
        Self { sockets, recv: recv.flatten(), send, lent: None }
    }

    pub(super) fn into_sockets(self) -> Vec<Option<DatagramSocket>> {
        self.sockets
    }

    pub(super) fn get(&self, socket: DatagramIndex) -> Option<&DatagramSocket> {
        self.sockets.get(socket.index())?.as_ref()
    }

    /// True if a datagram waits.
    pub(super) fn is_queued(&self, socket: DatagramIndex) -> bool {
        self.get(socket).is_some_and(|socket| sock::readable(&socket.fd))
    }

    /// Receives a batch by system call. Returns the number of datagrams, and whether it is the
    /// maximum of a batch; `None` if no datagram waits.
    pub(super) fn recv(&mut self, socket: DatagramIndex) -> Option<Result<(u16, bool), Errno>> {
        debug_assert!(self.lent.is_none(), "D-17: one batch is lent at a time");
        let fd = self.sockets.get(socket.index())?.as_ref()?.fd.as_fd();
        let Some(batch) = &mut self.recv else { return Some(Err(Errno::NOMEM)) };
        loop {
            return match batch.recv(fd) {
                Ok(0) => None,
                Ok(len) => {
                    self.lent = Some(socket);
                    let short = u16::try_from(len).expect("a batch is short");
                    Some(Ok((short, len == batch.capacity())))
                }
                Err(errno) => match Errno::from_raw_os_error(errno.0) {
                    Errno::AGAIN => None,
                    Errno::INTR => continue,
                    errno => Some(Err(errno)),
                },
            };
        }
    }

    /// A datagram of the batch that a system call received.
    #[inline]
    pub(super) fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        let datagram = self.recv.as_ref()?.get(index)?;
        Some(self.cut(self.lent?, datagram))
    }

    /// Cuts a datagram that is longer than its socket allows.
    #[inline]
    pub(super) fn cut<'a>(&self, socket: DatagramIndex, mut datagram: Datagram<'a>) -> Datagram<'a> {
        if let Some(socket) = self.get(socket)
            && let Some(short) = datagram.payload.get(..socket.size_max)
            && short.len() < datagram.payload.len()
        {
            datagram.payload = short;
            datagram.is_truncated = true;
        }
        datagram
    }

    pub(super) fn send(&mut self, socket: DatagramIndex, replies: &mut Replies) -> SentBatch {
        let sent = match self.sockets.get(socket.index()) {
            Some(Some(socket)) => self.send.send(socket.fd.as_fd(), socket.is_v6, replies.iter()),
            Some(None) | None => SentBatch { sent: 0, failed: replies.len() },
        };
        replies.clear();
        sent
    }

    pub(super) const fn end(&mut self) {
        self.lent = None;
    }

    /// Closes a socket. With `is_last`, no other process or driver has the socket, and the result
    /// is the number of datagrams in its queue, up to about [`COUNTED_MAX`]; otherwise it is 0.
    pub(super) fn close(&mut self, socket: DatagramIndex, is_last: bool) -> u64 {
        let mut dropped = 0;
        while is_last
            && dropped < COUNTED_MAX
            && let Some(Ok((len, is_full))) = self.recv(socket)
        {
            self.end();
            dropped += u64::from(len);
            if !is_full {
                break;
            }
        }
        if let Some(socket) = self.sockets.get_mut(socket.index()) {
            *socket = None;
        }
        dropped
    }
}

/// The longest datagram of any socket.
pub(super) fn size_max(sockets: &[Option<DatagramSocket>]) -> usize {
    sockets.iter().flatten().map(|socket| socket.size_max).max().unwrap_or(0)
}

/// Number of datagrams of a batch that its memory allows.
fn batch_len(size_max: usize) -> usize {
    (BATCH_BYTES_MAX / size_max.max(1)).clamp(1, DATAGRAMS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_stay_within_their_memory() {
        let mut replies = Replies::default();
        let to = SocketAddr::from(([192, 0, 2, 1], 53));
        assert!(replies.fits(REPLY_BYTES_MAX) && !replies.fits(REPLY_BYTES_MAX + 1));
        replies.room(3).copy_from_slice(b"one");
        replies.push(to, None, 3);
        assert_eq!(replies.room(5).len(), 5);
        replies.room(5)[..2].copy_from_slice(b"no");
        replies.push(to, None, 2);
        let payloads: Vec<_> = replies.iter().map(|reply| reply.payload.to_vec()).collect();
        assert_eq!(payloads, [b"one".to_vec(), b"no".to_vec()]);
        assert_eq!(replies.room(REPLY_BYTES_MAX).len(), REPLY_BYTES_MAX - 5);
        assert!(!replies.fits(REPLY_BYTES_MAX - 4));
        replies.clear();
        assert!(replies.is_empty() && replies.fits(REPLY_BYTES_MAX));
        (0..DATAGRAMS_MAX).for_each(|_| replies.push(to, None, 0));
        assert!(!replies.fits(0));
    }
}
