//! Plain system calls on connections and listeners that both kernel drivers use.

use core::net::SocketAddr;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, Shutdown, getpeername, recv, send, shutdown};

use super::{Chunk, Received};

/// Maximum number of bytes per `recv(2)`; a shorter read means that the socket is empty. A request
/// head at its default limit fits.
pub(crate) const SCRATCH_LEN: usize = 16 * 1024;

/// Calls `recv(2)` without waiting. The bytes are in `scratch`; `None` means that no bytes have
/// arrived.
#[inline]
pub(crate) fn recv_now(fd: BorrowedFd<'_>, scratch: &mut [u8]) -> Option<Received> {
    loop {
        return match recv(fd, &mut *scratch, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Some(Received::Eof),
            Ok((len, _)) => {
                let chunk_len = u32::try_from(len).expect("the scratch buffer is far below 4 GiB");
                Some(Received::Data { chunk: Chunk::scratch(0, chunk_len), drained: len < scratch.len() })
            }
            Err(Errno::AGAIN) => None,
            Err(Errno::INTR) => continue,
            Err(errno) => Some(Received::Failed(errno)),
        };
    }
}

/// Calls `send(2)` without waiting and without SIGPIPE. `None` means that the socket is full.
#[inline]
pub(crate) fn send_now(fd: BorrowedFd<'_>, bytes: &[u8], more: bool) -> Option<Result<usize, Errno>> {
    let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if more {
        flags |= SendFlags::MORE;
    }
    loop {
        return match send(fd, bytes, flags) {
            Err(Errno::AGAIN) => None,
            Err(Errno::INTR) => continue,
            result => Some(result),
        };
    }
}

/// Makes a descriptor non-blocking, as epoll and the owner of a detached connection expect it, or
/// blocking, as the ring expects it.
pub(crate) fn set_non_blocking(fd: BorrowedFd<'_>, on: bool) -> Result<(), Errno> {
    rustix::io::ioctl_fionbio(fd, on)
}

/// Sends FIN after the bytes sent so far. Fails only if the connection is already gone.
pub(crate) fn shutdown_write(fd: BorrowedFd<'_>) {
    let _gone = shutdown(fd, Shutdown::Write);
}

/// Sets SO_LINGER to 0, so that the close sends RST (socket(7)).
pub(crate) fn reset_on_close(fd: BorrowedFd<'_>) {
    let _gone = set_socket_linger(fd, Some(Duration::ZERO));
}

/// Number of bytes that the peer has not acknowledged; on a Unix socket, the memory of the bytes
/// that the peer has not read.
pub(crate) fn unsent(fd: BorrowedFd<'_>) -> Option<u32> {
    doorbell_ring::sockopt::unacknowledged(fd).ok()
}

/// The peer's address. IPv4 clients of a dual-stack listener are returned as IPv4.
pub(crate) fn peer_addr(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    let any = getpeername(fd).ok().flatten()?;
    let addr = SocketAddr::try_from(any).ok()?;
    Some(SocketAddr::new(addr.ip().to_canonical(), addr.port()))
}

/// True if the descriptor is readable, without waiting. A listener is readable if a client waits in its backlog.
pub(crate) fn readable(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(n) if n > 0) && fds[0].revents().contains(PollFlags::IN)
}

/// Converts a `Duration` for the kernel; saturates at a value beyond any deadline.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
