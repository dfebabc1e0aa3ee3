//! Owns the memory of received datagrams, and `recvmmsg(2)`.
#![expect(unsafe_code, reason = "a system call that writes to many buffers")]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::{CONTROL_LEN, Datagram, NAME_LEN, addr, call_flags, short, zeroed_header};
use crate::Errno;
use crate::memory::Region;

/// Memory for the datagrams that one system call receives.
#[derive(Debug)]
pub struct RecvBatch {
    region: Region,
    layout: Layout,
    /// Number of datagrams received by the last call.
    len: usize,
}

/// The offsets of the parts of the region: the headers for the kernel, then the buffers that they
/// point to.
#[derive(Clone, Copy, Debug)]
struct Layout {
    count: usize,
    payload_len: usize,
}

const HEADER_LEN: usize = size_of::<libc::mmsghdr>();
const VECTOR_LEN: usize = size_of::<libc::iovec>();
const NAME_STEP: usize = NAME_LEN.next_multiple_of(align_of::<libc::sockaddr_in6>() * 2);

impl Layout {
    const fn header(self, index: usize) -> usize {
        index * HEADER_LEN
    }

    const fn vector(self, index: usize) -> usize {
        self.count * HEADER_LEN + index * VECTOR_LEN
    }

    const fn control(self, index: usize) -> usize {
        self.vector(self.count) + index * CONTROL_LEN
    }

    const fn name(self, index: usize) -> usize {
        self.control(self.count) + index * NAME_STEP
    }

    const fn payload(self, index: usize) -> usize {
        self.name(self.count) + index * self.payload_len
    }
}

impl RecvBatch {
    /// Maps memory for `count` datagrams of up to `payload_len` bytes. A page becomes resident when
    /// it is first used.
    ///
    /// # Errors
    /// As `mmap(2)`; `EINVAL` if the lengths are impossible.
    pub fn new(count: usize, payload_len: usize) -> Result<Self, Errno> {
        let a_datagram = payload_len.checked_add(HEADER_LEN + VECTOR_LEN + CONTROL_LEN + NAME_STEP);
        let bytes = a_datagram.and_then(|len| len.checked_mul(count)).ok_or(Errno(libc::EINVAL))?;
        let layout = Layout { count, payload_len };
        let mut batch = Self { region: Region::map(bytes)?, layout, len: 0 };
        for index in 0..count {
            let vector = libc::iovec {
                iov_base: batch.region.at(layout.payload(index), payload_len).cast(),
                iov_len: payload_len,
            };
            // SAFETY: R-13, no other code has an address in the region.
            unsafe { batch.region.write(layout.vector(index), vector) };
            batch.write_header(index);
        }
        Ok(batch)
    }

    /// Writes the header at `index`: in `new`, and after the kernel has overwritten it.
    #[inline]
    fn write_header(&mut self, index: usize) {
        let Self { region, layout, .. } = self;
        let mut header = zeroed_header();
        header.msg_name = region.at(layout.name(index), NAME_LEN).cast();
        header.msg_namelen = short(NAME_LEN).into();
        header.msg_iov = region.at(layout.vector(index), VECTOR_LEN).cast();
        header.msg_iovlen = 1;
        header.msg_control = region.at(layout.control(index), CONTROL_LEN).cast();
        header.msg_controllen = short(CONTROL_LEN).into();
        let header = libc::mmsghdr { msg_hdr: header, msg_len: 0 };
        // SAFETY: R-13, as in `new`.
        unsafe { region.write(layout.header(index), header) };
    }

    /// Receives the datagrams that wait in the queue of `socket`, as many as the batch can hold,
    /// and returns their number. Does not wait. The datagrams of the previous call are dropped.
    ///
    /// # Errors
    /// As `recvmmsg(2)`; `EAGAIN` if no datagram waits.
    pub fn recv(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        for index in 0..std::mem::take(&mut self.len) {
            self.write_header(index);
        }
        let headers = self.region.at(0, self.layout.count * HEADER_LEN).cast();
        let count = u32::try_from(self.layout.count).unwrap_or(u32::MAX);
        let flags = const { call_flags(libc::MSG_DONTWAIT) }.into();
        // SAFETY: R-13, every header points to buffers of the region, with their lengths.
        let received = unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, count, flags, ptr::null_mut()) };
        self.len = usize::try_from(received).map_err(|_| Errno::last())?;
        Ok(self.len)
    }

    /// Number of datagrams received by the last call.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Maximum number of datagrams per call.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.layout.count
    }

    /// Whether the last call received no datagram.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The datagram at `index`; `None` beyond the end, or if its sender has no IP address.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Datagram<'_>> {
        if index >= self.len {
            return None;
        }
        let Self { region, layout, .. } = self;
        // SAFETY: R-13, the kernel has filled the header, and writes only during a call of `recv`.
        let header: libc::mmsghdr = unsafe { region.read(layout.header(index)) };
        let received_len = u8::try_from(header.msg_hdr.msg_controllen).unwrap_or(0);
        let payload_len = (header.msg_len as usize).min(layout.payload_len);
        // SAFETY: R-13, as above.
        let name = unsafe { region.bytes(layout.name(index), NAME_LEN) };
        // SAFETY: R-13, as above.
        let control = unsafe { region.bytes(layout.control(index), received_len.into()) };
        // SAFETY: R-13, as above.
        let payload = unsafe { region.bytes(layout.payload(index), payload_len) };
        Some(Datagram {
            payload,
            peer: addr::peer(name)?,
            local: addr::local(control),
            is_truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }
}
