//! The plain system calls that both kernel drivers make on a connection or a listener.
//!
//! Does not know about: slots, readiness, rings.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, Shutdown, getpeername, recv, send, shutdown};

use super::{Chunk, Received};

/// Bytes one `recv(2)` can bring: a whole head at its default limit, so that a short read means an empty socket.
pub(crate) const SCRATCH_LEN: usize = 16 * 1024;

/// `recv(2)` that never waits; `None` when there is nothing yet. Data is in `scratch`.
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

/// `send(2)` that never waits and never raises SIGPIPE; `None` when the socket takes nothing now.
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

/// The descriptor as it leaves a driver: the next owner does not expect to wait in a call.
pub(crate) fn set_non_blocking(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::io::ioctl_fionbio(fd, true)
}

/// FIN after what was sent. A connection that is gone already needs none.
pub(crate) fn shutdown_write(fd: BorrowedFd<'_>) {
    let _gone = shutdown(fd, Shutdown::Write);
}

/// SO_LINGER with a time of 0: the close sends RST (socket(7)).
pub(crate) fn reset_on_close(fd: BorrowedFd<'_>) {
    let _gone = set_socket_linger(fd, Some(Duration::ZERO));
}

/// Bytes that the peer has not acknowledged; on a Unix socket, memory of those that it has not read.
pub(crate) fn unsent(fd: BorrowedFd<'_>) -> Option<u32> {
    doorbell_ring::sockopt::unacknowledged(fd).ok()
}

/// The peer's IP address, with IPv4 clients of a dual-stack listener as IPv4.
pub(crate) fn peer_addr(fd: BorrowedFd<'_>) -> Option<IpAddr> {
    let any = getpeername(fd).ok().flatten()?;
    let addr = SocketAddr::try_from(any).ok()?;
    Some(addr.ip().to_canonical())
}

/// True when the descriptor is readable now; for a listener: when a client waits in its backlog.
pub(crate) fn readable(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(n) if n > 0) && fds[0].revents().contains(PollFlags::IN)
}

/// A `Duration` as the kernel takes it; far beyond any deadline it saturates.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
