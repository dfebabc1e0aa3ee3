//! Sends messages and descriptors to the service manager (sd_pid_notify_with_fds(3)).
//!
//! Does not know about: which sockets to store.

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, sendmsg, socket_with,
};
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;

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

    /// Sends a message; false without a manager.
    pub(super) fn send(&self, text: &str, fds: &[BorrowedFd<'_>]) -> io::Result<bool> {
        let Some(path) = &self.0 else { return Ok(false) };
        let addr = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddrUnix::new_abstract_name(name)?,
            None => SocketAddrUnix::new(OsStr::new(path))?,
        };
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &addr)?;
        let rights = SendAncillaryMessage::ScmRights(fds);
        let mut space = vec![MaybeUninit::uninit(); rights.size()];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(rights);
        }
        sendmsg(&socket, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
        Ok(true)
    }

    /// Requests that the manager drops its copies with this name.
    pub(super) fn forget(&self, name: &str) {
        if let Err(error) = self.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}\n"), &[]) {
            tracing::debug!(%error, "cannot notify the service manager");
        }
    }
}
