//! Connects to Unix sockets within a time limit.

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Connects to the socket at `path` within `timeout`.
///
/// `UnixStream::connect` has no limit: it waits while the queue of the listener is full, for example
/// because the server hangs. The send timeout of a socket also limits `connect` (unix(7),
/// `SO_SNDTIMEO` in socket(7)).
///
/// # Errors
/// `TimedOut` if the queue stayed full; otherwise the error of socket(2) or connect(2).
pub fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let addr = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // A timeout of zero would mean no limit.
    set_socket_timeout(&socket, Timeout::Send, Some(timeout.max(Duration::from_millis(1))))?;
    match connect(&socket, &addr) {
        Ok(()) => {}
        Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
        Err(error) => return Err(error.into()),
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen};

    #[test]
    fn a_full_queue_is_no_hang() {
        let path = std::env::temp_dir().join(format!("doorbell-full-{}", std::process::id()));
        let server =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&server, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&server, 0).unwrap();
        let queued = connect_unix(&path, Duration::from_millis(50)).unwrap();
        assert_eq!(queued.write_timeout().unwrap(), None);
        let late = connect_unix(&path, Duration::from_millis(50)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        std::fs::remove_file(&path).unwrap();
        let missing = connect_unix(&path, Duration::ZERO).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
