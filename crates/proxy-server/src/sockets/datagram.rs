//! Sends messages and descriptors to the service manager (sd_pid_notify_with_fds(3)).

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, sendmsg, socket_with, sockopt,
};
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum time for which a message waits while the queue of the manager's socket is full. A
/// shutdown sends a few messages, and must not hang if the manager does.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a message could not be sent. Only the first failure is logged.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Address of the service manager's socket; `None` if `NOTIFY_SOCKET` is not set.
#[derive(Clone, Debug, Default)]
pub(super) struct Manager(Option<OsString>);

impl Manager {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    pub(super) fn of_env() -> Self {
        Self(std::env::var_os("NOTIFY_SOCKET"))
    }

    #[cfg(test)]
    pub(super) fn at(path: impl Into<OsString>) -> Self {
        Self(Some(path.into()))
    }

    /// Sends a message. Returns whether it was sent; the first failure is logged.
    pub(super) fn send(&self, text: &str, fds: &[BorrowedFd<'_>]) -> bool {
        let Some(path) = &self.0 else { return false };
        let sent = send(path, text, fds);
        if let Err(error) = &sent
            && !HAS_FAILED.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "cannot notify the service manager");
        }
        sent.is_ok()
    }

    /// Requests that the manager drops its copies with these names. Stops at the first failure,
    /// because each failure may take [`SEND_TIMEOUT`].
    pub(super) fn forget<'a>(&self, mut names: impl Iterator<Item = &'a str>) {
        let _sent = names.all(|name| self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}\n"), &[]));
    }
}

fn send(path: &OsStr, text: &str, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let addr = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddrUnix::new_abstract_name(name)?,
        None => SocketAddrUnix::new(OsStr::new(path))?,
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(SEND_TIMEOUT))?;
    connect(&socket, &addr)?;
    let rights = SendAncillaryMessage::ScmRights(fds);
    let mut space = vec![MaybeUninit::uninit(); rights.size()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(rights);
    }
    sendmsg(&socket, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    #[test]
    fn a_manager_that_does_not_read_gets_no_message() {
        let name = format!("doorbell-full-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let to_manager = Manager::at(format!("@{name}"));
        while to_manager.send("A=1\n", &[]) {}
        manager.recv(&mut [0; 8]).unwrap();
        assert!(to_manager.send("A=1\n", &[]), "the next message is sent if the manager reads again");
    }
}
