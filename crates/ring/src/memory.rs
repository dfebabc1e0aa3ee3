//! Owns `Region`, mapped memory between two inaccessible pages, and access to it.
#![expect(unsafe_code, reason = "mmap, and access to memory the kernel writes")]

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::Errno;

/// Zeroed memory that is unmapped on drop unless `keep` is set.
#[derive(Debug)]
pub(crate) struct Region {
    map: NonNull<u8>,
    map_len: usize,
    len: usize,
    keep: bool,
}

/// Length of each guard: the largest page size of any supported architecture, so that the page size
/// need not be queried.
const GUARD_LEN: usize = 64 * 1024;

impl Region {
    /// Maps `len` bytes. A page becomes resident when it is first written.
    pub(crate) fn map(len: usize) -> Result<Self, Errno> {
        let len = len.max(1).checked_next_multiple_of(GUARD_LEN).ok_or(Errno(libc::EINVAL))?;
        let map_len = len.checked_add(2 * GUARD_LEN).ok_or(Errno(libc::EINVAL))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: R-9, a new anonymous mapping at an address that the kernel picks overlaps no
        // memory in use.
        let map = unsafe { libc::mmap(ptr::null_mut(), map_len, libc::PROT_NONE, flags, -1, 0) };
        if map == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let map = NonNull::new(map.cast::<u8>()).ok_or(Errno(libc::ENOMEM))?;
        let region = Self { map, map_len, len, keep: false };
        let base = region.at(0, len).cast();
        // SAFETY: R-9, the range is the inside of the mapping made above, whose address no other
        // code has.
        if unsafe { libc::mprotect(base, len, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(Errno::last());
        }
        Ok(region)
    }

    /// Returns the address of `offset`, for an access to `len` bytes.
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub(crate) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "inside the region");
        self.map.as_ptr().wrapping_add(GUARD_LEN + offset)
    }

    /// Writes a plain value.
    ///
    /// # Safety
    /// The value's bytes must not be read or written concurrently.
    pub(crate) unsafe fn write<T: Copy>(&mut self, offset: usize, value: T) {
        let at = self.at(offset, size_of::<T>()).cast::<T>();
        // SAFETY: R-9 for the address; the caller guarantees exclusive access to the bytes.
        // Volatile: the reader is outside the program.
        unsafe { at.write_volatile(value) }
    }

    /// Reads a plain value.
    ///
    /// # Safety
    /// The bytes are a valid `T`, and must not be written concurrently.
    pub(crate) unsafe fn read<T: Copy>(&self, offset: usize) -> T {
        let at = self.at(offset, size_of::<T>()).cast::<T>();
        // SAFETY: R-9 for the address; the caller guarantees the contents.
        unsafe { at.read_volatile() }
    }

    /// Publishes a number to the kernel: when the kernel reads it, all earlier writes are visible.
    ///
    /// # Safety
    /// The two bytes must only ever be used as an atomic, except by the kernel.
    pub(crate) unsafe fn publish(&self, offset: usize, value: u16) {
        let at = self.at(offset, size_of::<u16>()).cast::<u16>();
        assert!(at.is_aligned(), "an atomic is aligned");
        // SAFETY: R-9 for the address, aligned by the assert; the caller uses it as an atomic only.
        unsafe { AtomicU16::from_ptr(at) }.store(value, Ordering::Release);
    }

    /// Borrows `len` bytes from `offset` on.
    ///
    /// # Safety
    /// The bytes must not be written while the slice lives.
    pub(crate) unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        let at = self.at(offset, len);
        // SAFETY: R-9, the bytes are inside the mapping and were zeroed or written; the caller
        // guarantees that nothing writes them while the slice lives.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// Sets whether a drop leaks the mapping, which is required while the kernel may still write to
    /// it.
    pub(crate) const fn keep(&mut self, keep: bool) {
        self.keep = keep;
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // SAFETY: R-5, this value owns the mapping, and the kernel no longer uses it.
        let failed = unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_len) };
        debug_assert_eq!(failed, 0, "munmap of a whole mapping succeeds");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_keeps_what_is_written() {
        let mut region = Region::map(100_000).unwrap();
        // SAFETY: R-9, the test is the only user.
        assert!(unsafe { region.bytes(0, 100_000) }.iter().all(|byte| *byte == 0));
        // SAFETY: R-9, the test is the only user.
        unsafe { region.write(99_996, 0x0403_0201_u32) };
        // SAFETY: R-9, the test is the only user.
        assert_eq!(unsafe { region.bytes(99_996, 4) }, 0x0403_0201_u32.to_ne_bytes());
        // SAFETY: R-9, the test is the only user.
        unsafe { region.publish(14, 0x1234) };
        // SAFETY: R-9, the test is the only user.
        assert_eq!(unsafe { region.bytes(14, 2) }, 0x1234_u16.to_ne_bytes());
    }

    #[test]
    #[should_panic(expected = "inside the region")]
    fn a_range_over_the_end_is_refused() {
        let region = Region::map(GUARD_LEN).unwrap();
        region.at(GUARD_LEN - 1, 2);
    }

    #[test]
    #[should_panic(expected = "inside the region")]
    fn an_offset_that_wraps_is_refused() {
        let region = Region::map(1).unwrap();
        region.at(usize::MAX, 2);
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        assert!(Region::map(usize::MAX).is_err());
        assert_eq!(Region::map(1 << 60).unwrap_err(), Errno(libc::ENOMEM));
    }
}
