//! Owns the system calls that the `io-uring` crate does not provide: registering the ring's
//! descriptor, entering through it, a close without cancellation point, and a flag of descriptors
//! without an owner.
#![expect(unsafe_code, reason = "system calls")]

use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};

use crate::Errno;

/// The descriptor of a ring, as passed to a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RingFd {
    Plain(RawFd),
    /// An index from `IORING_REGISTER_RING_FDS` (Linux 5.18), which avoids the descriptor look-up
    /// of each enter.
    Registered(u32),
}

/// Maximum timeout. The kernel uses signed seconds and would refuse the longest `Duration` as
/// negative.
const TIMEOUT_MAX: Duration = Duration::from_secs(1 << 31);
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct RsrcUpdate {
    offset: u32,
    resv: u32,
    data: u64,
}

/// Calls `io_uring_enter(2)`: submits, runs deferred work, waits for `wait_for` completions or
/// `timeout` (`None`: no limit). Returns the number of consumed entries.
#[inline]
pub(crate) fn enter(
    ring: RingFd,
    submit: u32,
    wait_for: u32,
    timeout: Option<Duration>,
) -> Result<u32, Errno> {
    let timespec = Timespec::from(timeout.unwrap_or_default().min(TIMEOUT_MAX));
    let args = SubmitArgs::new().timespec(&timespec);
    let (args_ptr, args_len) = match timeout {
        Some(_) => ((&raw const args).cast::<libc::c_void>(), size_of::<SubmitArgs<'_, '_>>()),
        None => (std::ptr::null(), 0),
    };
    let flags = ENTER_GETEVENTS | if timeout.is_some() { ENTER_EXT_ARG } else { 0 };
    let (fd, flags) = match ring {
        RingFd::Plain(fd) => (fd, flags),
        RingFd::Registered(index) => (index.cast_signed(), flags | ENTER_REGISTERED_RING),
    };
    // SAFETY: R-7, the structures live on this stack until the call returns. Submitted entries
    // contain only the addresses that R-3 allows.
    let result =
        unsafe { libc::syscall(libc::SYS_io_uring_enter, fd, submit, wait_for, flags, args_ptr, args_len) };
    if result < 0 { Err(Errno::last()) } else { Ok(u32::try_from(result).unwrap_or(0)) }
}

/// `close(2)` without the C library's cancellation point: a third of the instructions of
/// `libc::close`, for a call that each connection makes.
///
/// An error is ignored, as when dropping an `OwnedFd`.
#[inline]
pub fn close(fd: OwnedFd) {
    // SAFETY: R-11, `into_raw_fd` gives up the only owner of the descriptor.
    unsafe { rustix::io::close(fd.into_raw_fd()) };
}

/// Sets `FD_CLOEXEC` on a descriptor that the parent process passed, so that programs started by
/// this process do not inherit it.
///
/// # Errors
/// As `fcntl(2)`.
pub fn set_cloexec(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: R-7, integers only.
    let result = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    if result < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// Registers the ring's own descriptor for this thread.
pub(crate) fn register_ring_fd(fd: RawFd) -> Result<u32, Errno> {
    let mut update = RsrcUpdate { offset: u32::MAX, resv: 0, data: u64::from(fd.cast_unsigned()) };
    let update_ptr = &raw mut update;
    // SAFETY: R-7, the kernel writes the index into `update`, which lives until the call returns.
    let result =
        unsafe { libc::syscall(libc::SYS_io_uring_register, fd, REGISTER_RING_FDS, update_ptr, 1_u32) };
    if result < 0 { Err(Errno::last()) } else { Ok(update.offset) }
}

/// Reverses [`register_ring_fd`]; without this call a registered ring exists until its thread ends.
pub(crate) fn unregister_ring_fd(fd: RawFd, index: u32) -> Result<(), Errno> {
    let update = RsrcUpdate { offset: index, resv: 0, data: 0 };
    let update_ptr = &raw const update;
    // SAFETY: R-7, the kernel reads `update` during the call.
    let result =
        unsafe { libc::syscall(libc::SYS_io_uring_register, fd, UNREGISTER_RING_FDS, update_ptr, 1_u32) };
    if result < 0 { Err(Errno::last()) } else { Ok(()) }
}
