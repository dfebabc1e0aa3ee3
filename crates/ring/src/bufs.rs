//! Owns the provided-buffer ring: the memory of the ring and its buffers, and whether each buffer
//! is with the kernel or lent.
#![expect(unsafe_code, reason = "the buffers are memory the kernel writes")]

use std::mem::offset_of;

use crate::Errno;
use crate::bitmap::Bitmap;
use crate::memory::Region;

/// A received chunk of bytes.
///
/// Return it with `Ring::recycle`, or `Ring::recycle_datagram` if it contains a datagram; a dropped
/// buffer is missing from the pool until the ring is torn down.
#[derive(Debug)]
pub struct RecvBuf {
    ring: u32,
    len: u32,
    id: u16,
}

impl RecvBuf {
    /// Number of received bytes, at least one.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Always false: a buffer has at least one byte, because the end of a stream has no buffer.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// An entry of the buffer ring; the layout is that of `struct io_uring_buf`. The kernel reads the
/// tail of the ring from `resv` of the first entry.
#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    addr: u64,
    len: u32,
    id: u16,
    resv: u16,
}

const ENTRY_LEN: usize = size_of::<Entry>();
const TAIL_OFFSET: usize = offset_of!(Entry, resv);
const _: () = assert!(ENTRY_LEN == 16 && TAIL_OFFSET == 14, "the kernel's layout");

/// The pool of receive buffers. `count` is a power of two up to 32,768.
#[derive(Debug)]
pub(crate) struct RecvBufs {
    region: Region,
    lent: Bitmap,
    lent_now: u32,
    buf_len: u32,
    bufs_offset: usize,
    ring: u32,
    count: u16,
    tail: u16,
}

impl RecvBufs {
    /// Maps the memory and adds every buffer to the ring. `ring` is the number of this pool, unique
    /// in the process.
    pub(crate) fn map(count: u16, buf_len: u32, ring: u32) -> Result<Self, Errno> {
        assert!(count.is_power_of_two() && count <= 1 << 15, "the kernel's limit");
        let bufs_offset = (usize::from(count) * ENTRY_LEN).next_multiple_of(64 * 1024);
        let bufs_len = usize::from(count).checked_mul(buf_len as usize).ok_or(Errno(libc::EINVAL))?;
        let region = Region::map(bufs_offset.checked_add(bufs_len).ok_or(Errno(libc::EINVAL))?)?;
        let lent = Bitmap::new(u32::from(count));
        let mut bufs = Self { region, lent, lent_now: 0, buf_len, bufs_offset, ring, count, tail: 0 };
        for id in 0..count {
            bufs.put_entry(id);
        }
        bufs.publish_tail();
        Ok(bufs)
    }

    /// Start address of the ring of entries, for registration.
    pub(crate) fn ring_addr(&self) -> u64 {
        self.region.at(0, usize::from(self.count) * ENTRY_LEN).expose_provenance() as u64
    }

    pub(crate) const fn count(&self) -> u16 {
        self.count
    }

    pub(crate) const fn buf_len(&self) -> u32 {
        self.buf_len
    }

    /// Number of buffers that are lent now.
    pub(crate) const fn lent_now(&self) -> u32 {
        self.lent_now
    }

    /// Handles a completion that filled buffer `id`. Returns `None` if the completion is
    /// impossible.
    #[inline]
    pub(crate) fn lend(&mut self, id: u16, len: u32) -> Option<RecvBuf> {
        if len == 0 || len > self.buf_len || !self.lent.insert(u32::from(id)) {
            return None;
        }
        self.lent_now += 1;
        Some(RecvBuf { ring: self.ring, len, id })
    }

    /// Handles a completion that selected buffer `id` without filling it. Returns false if the
    /// completion is impossible.
    pub(crate) fn give_back(&mut self, id: u16) -> bool {
        if id >= self.count || self.lent.contains(u32::from(id)) {
            return false;
        }
        self.put_entry(id);
        self.publish_tail();
        true
    }

    /// The bytes of a lent buffer.
    ///
    /// # Panics
    /// If the buffer belongs to another pool.
    #[inline]
    pub(crate) fn received(&self, buf: &RecvBuf) -> &[u8] {
        self.check(buf);
        let offset = self.offset(buf.id);
        // SAFETY: R-6, the buffer is lent, so the kernel does not write it before it is recycled,
        // which needs `&mut self`.
        unsafe { self.region.bytes(offset, buf.len as usize) }
    }

    /// Returns a lent buffer to the kernel.
    ///
    /// # Panics
    /// If the buffer belongs to another pool.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "the handle must not outlive this call")]
    pub(crate) fn recycle(&mut self, buf: RecvBuf) {
        self.check(&buf);
        let was_lent = self.lent.remove(u32::from(buf.id));
        assert!(was_lent, "R-6: every handle names a lent buffer");
        self.lent_now -= 1;
        self.put_entry(buf.id);
        self.publish_tail();
    }

    /// Sets whether dropping the pool leaks its memory.
    pub(crate) const fn keep(&mut self, keep: bool) {
        self.region.keep(keep);
    }

    #[inline]
    fn check(&self, buf: &RecvBuf) {
        assert!(buf.ring == self.ring, "a buffer goes back to the ring it came from");
        debug_assert!(self.lent.contains(u32::from(buf.id)), "R-6");
    }

    #[inline]
    fn offset(&self, id: u16) -> usize {
        self.bufs_offset + usize::from(id) * self.buf_len as usize
    }

    /// Writes the next entry; the kernel does not read it before the tail is published. There are
    /// as many entries as buffers, so the kernel no longer uses the entry that is overwritten.
    #[inline]
    fn put_entry(&mut self, id: u16) {
        let addr = self.region.at(self.offset(id), self.buf_len as usize).expose_provenance() as u64;
        let at = usize::from(self.tail & (self.count - 1)) * ENTRY_LEN;
        // SAFETY: R-6, the kernel reads entries up to the tail only. These writes leave out the
        // last two bytes of an entry, which hold the tail in the first entry.
        unsafe { self.region.write(at + offset_of!(Entry, addr), addr) };
        // SAFETY: R-6, as above.
        unsafe { self.region.write(at + offset_of!(Entry, len), self.buf_len) };
        // SAFETY: R-6, as above.
        unsafe { self.region.write(at + offset_of!(Entry, id), id) };
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    fn publish_tail(&self) {
        // SAFETY: R-6, only this function writes the tail, always as an atomic.
        unsafe { self.region.publish(TAIL_OFFSET, self.tail) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entry `index` of the ring as the kernel reads it: (address, length, id).
    fn entry(bufs: &RecvBufs, index: usize) -> (u64, u32, u16) {
        // SAFETY: R-9, no kernel in this test.
        let bytes = unsafe { bufs.region.bytes(index * ENTRY_LEN, ENTRY_LEN) };
        (
            u64::from_ne_bytes(bytes[..8].try_into().unwrap()),
            u32::from_ne_bytes(bytes[8..12].try_into().unwrap()),
            u16::from_ne_bytes(bytes[12..14].try_into().unwrap()),
        )
    }

    fn tail(bufs: &RecvBufs) -> u16 {
        // SAFETY: R-9, no kernel in this test.
        u16::from_ne_bytes(unsafe { bufs.region.bytes(TAIL_OFFSET, 2) }.try_into().unwrap())
    }

    #[test]
    fn every_buffer_starts_with_the_kernel_and_none_overlap() {
        let bufs = RecvBufs::map(8, 3_000, 1).unwrap();
        assert_eq!(tail(&bufs), 8);
        for id in 0..8_u16 {
            let (addr, len, entry_id) = entry(&bufs, usize::from(id));
            assert_eq!((len, entry_id), (3_000, id));
            assert_eq!(addr - entry(&bufs, 0).0, u64::from(id) * 3_000);
        }
        assert!(entry(&bufs, 0).0 - bufs.ring_addr() >= 8 * 16, "buffers lie behind the entries");
        assert_eq!(bufs.ring_addr() % 4_096, 0);
    }

    #[test]
    fn lending_and_recycling_go_round_without_end() {
        let mut bufs = RecvBufs::map(2, 64, 1).unwrap();
        for turn in 0..100_000_u32 {
            let id = (turn % 2) as u16;
            let buf = bufs.lend(id, 1 + turn % 64).unwrap();
            assert_eq!(bufs.received(&buf).len(), buf.len());
            assert_eq!(bufs.lent_now(), 1);
            bufs.recycle(buf);
            assert_eq!(entry(&bufs, (turn % 2) as usize).2, id);
            assert_eq!(u32::from(tail(&bufs)), (turn + 3) % 65_536);
        }
        assert_eq!(bufs.lent_now(), 0);
    }

    #[test]
    fn what_cannot_be_true_is_not_believed() {
        let mut bufs = RecvBufs::map(4, 64, 1).unwrap();
        assert!(bufs.lend(4, 1).is_none(), "no such buffer");
        assert!(bufs.lend(0, 65).is_none(), "longer than a receive buffer");
        assert!(bufs.lend(0, 0).is_none(), "a completion without bytes");
        let held = bufs.lend(0, 64).unwrap();
        assert!(bufs.lend(0, 64).is_none(), "lent already");
        assert!(!bufs.give_back(0), "lent");
        assert!(!bufs.give_back(4), "no such buffer");
        assert_eq!(tail(&bufs), 4);
        assert!(bufs.give_back(1));
        assert_eq!((tail(&bufs), entry(&bufs, 0).2), (5, 1));
        assert_eq!(bufs.received(&held).len(), 64);
    }

    #[test]
    fn a_dropped_handle_stays_out() {
        let mut bufs = RecvBufs::map(1, 64, 1).unwrap();
        let _: RecvBuf = bufs.lend(0, 1).unwrap();
        assert_eq!(bufs.lent_now(), 1);
        assert!(bufs.lend(0, 1).is_none());
    }

    #[test]
    #[should_panic(expected = "the ring it came from")]
    fn a_buffer_of_another_ring_is_not_read() {
        let mut one = RecvBufs::map(1, 64, 1).unwrap();
        let two = RecvBufs::map(1, 64, 2).unwrap();
        let buf = one.lend(0, 8).unwrap();
        let _ = two.received(&buf);
    }

    #[test]
    #[should_panic(expected = "the ring it came from")]
    fn a_buffer_of_another_ring_is_not_recycled() {
        let mut one = RecvBufs::map(1, 64, 1).unwrap();
        let mut two = RecvBufs::map(1, 64, 2).unwrap();
        two.recycle(one.lend(0, 8).unwrap());
    }
}
