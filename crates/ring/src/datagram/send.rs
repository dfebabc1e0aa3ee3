//! Owns `sendmmsg(2)`.
#![expect(unsafe_code, reason = "a system call that reads from many buffers")]

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{CONTROL_LEN, NAME_LEN, addr, call_flags, short, zeroed_header};
use crate::Errno;

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The payload.
    pub payload: &'a [u8],
    /// The receiver.
    pub to: SocketAddr,
    /// The source address; with `None` the kernel chooses one.
    pub from: Option<IpAddr>,
}

/// The result of sending a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentBatch {
    /// Datagrams that the kernel accepted.
    pub sent: usize,
    /// Datagrams that the kernel refused, for example because the queue of the socket is full.
    pub failed: usize,
}

/// Memory for the headers of the datagrams that one system call sends.
#[derive(Debug)]
pub struct SendBatch {
    headers: Vec<libc::mmsghdr>,
    parts: Vec<Parts>,
}

/// The memory that a header points to, besides the payload.
#[derive(Debug)]
struct Parts {
    control: Control,
    name: [u8; NAME_LEN],
    vector: libc::iovec,
}

/// Control data, aligned like `struct cmsghdr`.
#[derive(Debug)]
#[repr(align(8))]
struct Control([u8; CONTROL_LEN]);

impl SendBatch {
    /// Reserves memory for `count` datagrams.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let count = count.max(1);
        Self { headers: Vec::with_capacity(count), parts: Vec::with_capacity(count) }
    }

    /// Sends datagrams, as many per system call as the batch can hold. Does not wait: a datagram
    /// that the kernel does not accept now is skipped and counted. `is_v6` is true for a socket of
    /// the family `AF_INET6`.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        is_v6: bool,
        datagrams: impl IntoIterator<Item = Outgoing<'a>>,
    ) -> SentBatch {
        let mut sum = SentBatch::default();
        let mut datagrams = datagrams.into_iter().peekable();
        while datagrams.peek().is_some() {
            // Both vectors may contain earlier datagrams, also if the iterator of an earlier call
            // panicked.
            self.parts.clear();
            self.headers.clear();
            let room = self.parts.capacity();
            for Outgoing { payload, to, from } in datagrams.by_ref().take(room) {
                let name = addr::encode_peer(to, is_v6);
                let control = addr::encode_local(from, is_v6);
                let mut header = zeroed_header();
                header.msg_namelen = short(name.len).into();
                header.msg_iovlen = 1;
                header.msg_controllen = short(control.len).into();
                let vector =
                    libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
                self.headers.push(libc::mmsghdr { msg_hdr: header, msg_len: 0 });
                self.parts.push(Parts { control: Control(control.bytes), name: name.bytes, vector });
            }
            self.send_parts(socket, &mut sum);
        }
        sum
    }

    /// Sends the datagrams in `parts`. The kernel stops at the first datagram that it refuses, and
    /// returns the error only if that datagram is the first of the call.
    fn send_parts(&mut self, socket: BorrowedFd<'_>, sum: &mut SentBatch) {
        for (header, parts) in self.headers.iter_mut().zip(&mut self.parts) {
            header.msg_hdr.msg_name = parts.name.as_mut_ptr().cast();
            header.msg_hdr.msg_iov = &raw mut parts.vector;
            header.msg_hdr.msg_control = parts.control.0.as_mut_ptr().cast();
        }
        let mut rest = self.headers.as_mut_slice();
        while !rest.is_empty() {
            let count = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            let flags = const { call_flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) }.into();
            // SAFETY: R-14, the headers point to their parts and payloads, which outlive this call.
            let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), count, flags) };
            let done = match usize::try_from(sent) {
                Ok(sent) => {
                    sum.sent += sent;
                    sent
                }
                Err(_) if Errno::last() == Errno(libc::EINTR) => 0,
                Err(_) => {
                    sum.failed += 1;
                    1
                }
            };
            rest = rest.get_mut(done..).unwrap_or_default();
        }
    }
}
