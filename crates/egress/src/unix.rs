//! Connects to Unix sockets within a time limit.

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Connects to the socket at `path` within `timeout`.
///
/// `UnixStream::connect` has no limit: it waits while the queue of the listener is full, for example
/// because the server hangs. The send timeout of a socket also limits `connect` (unix(7),
/// `SO_SNDTIMEO` in socket(7)).
///
/// # Errors
/// `TimedOut` if the queue stayed full; otherwise the error of socket(2) or connect(2).
#[expect(clippy::disallowed_methods, reason = "the caller waits in real time")]
pub fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let addr = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let start = Instant::now();
    let mut left = timeout;
    loop {
        // A timeout of zero would mean no limit.
        set_socket_timeout(&socket, Timeout::Send, Some(left.max(Duration::from_millis(1))))?;
        match connect(&socket, &addr) {
            Ok(()) => break,
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            // With a send timeout, a signal that stops the process also interrupts the call
            // (signal(7)).
            Err(Errno::INTR) => left = timeout.saturating_sub(start.elapsed()),
            Err(error) => return Err(error.into()),
        }
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{accept, bind, listen};
    use std::io::{BufRead as _, BufReader};
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    /// Path of the socket for [`child_that_connects`].
    const SOCKET: &str = "DOORBELL_TEST_SOCKET";

    fn server(name: &str) -> (PathBuf, OwnedFd) {
        let path = std::env::temp_dir().join(format!("doorbell-{name}-{}", std::process::id()));
        let server =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&server, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&server, 0).unwrap();
        (path, server)
    }

    #[test]
    fn child_that_connects() {
        let Some(path) = std::env::var_os(SOCKET) else { return };
        println!("connecting");
        connect_unix(Path::new(&path), Duration::from_secs(60)).unwrap();
    }

    /// A stop interrupts a call with a timeout, unlike one without.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the child must reach its call between two stops")]
    fn a_stop_of_the_process_does_not_end_the_call() {
        let (path, server) = server("stopped");
        let _queued = connect_unix(&path, Duration::from_millis(50)).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "unix::tests::child_that_connects", "--nocapture"]);
        let mut child = command.env(SOCKET, &path).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("connecting")));
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(10));
            let stop = format!("kill -STOP {0} && kill -CONT {0}", child.id());
            assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
        }
        let _accepted = accept(&server).unwrap();
        assert!(child.wait().unwrap().success());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_full_queue_is_no_hang() {
        let (path, _server) = server("full");
        let queued = connect_unix(&path, Duration::from_millis(50)).unwrap();
        assert_eq!(queued.write_timeout().unwrap(), None);
        let late = connect_unix(&path, Duration::from_millis(50)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        std::fs::remove_file(&path).unwrap();
        let missing = connect_unix(&path, Duration::ZERO).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
