//! Steps of binding that all kinds of sockets have in common.

use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;

/// The call that failed, and its error.
pub(crate) type Failure = (&'static str, io::Error);

/// Maximum time to wait for an address that is in use, so that an immediate restart after a crash
/// succeeds. The kernel closes the ring of a killed process, and the ring's sockets, only after the
/// process has ended: 8 ms later, or 40 ms later with 5,000 connections on a busy machine (Linux
/// 6.18; at once with epoll).
const IN_USE_MAX: Duration = Duration::from_millis(500);

/// Retries to bind while the address is in use, for at most [`IN_USE_MAX`].
#[expect(
    clippy::disallowed_methods,
    reason = "runs on the thread that starts a server, not on a ring thread"
)]
pub(crate) fn patient<T>(mut bind: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    const PAUSE: Duration = Duration::from_millis(20);
    for _ in 0..IN_USE_MAX.as_millis() / PAUSE.as_millis() {
        match bind() {
            Err((_, error)) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(PAUSE),
            bound => return bound,
        }
    }
    bind()
}

/// `workers` descriptors of one socket.
pub(crate) fn copies(fd: OwnedFd, workers: u16) -> io::Result<Vec<OwnedFd>> {
    let mut fds = Vec::with_capacity(usize::from(workers));
    for _ in 1..workers {
        fds.push(fd.try_clone()?);
    }
    fds.push(fd);
    Ok(fds)
}
