//! An address that is taken before anybody is let in, for what may not come to serve.
//!
//! Does not know about: who will listen there.

use super::activation;
use crate::exit::{Exit, Failure};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

/// Clients that may wait to be accepted.
const BACKLOG_LEN: i32 = 1024;

/// See the [module](self).
#[derive(Debug)]
pub(crate) enum Port {
    Bound(OwnedFd),
    Listening(TcpListener),
}

/// An address as it is written down, and who listens there.
pub(crate) type Listening = (SocketAddr, TcpListener);

/// After this long without an acknowledgement, or with a window that stays closed, the kernel ends a connection (tcp(7),
/// `TCP_USER_TIMEOUT`), as those of the rings.
const USER_TIMEOUT_MS: u32 = 15_000;

/// Whoever does not read what he asked for does not keep his place.
pub(crate) fn leave_silent(conn: &impl AsFd) {
    // Without it he keeps it for longer.
    let _best_effort = sockopt::set_tcp_user_timeout(conn, USER_TIMEOUT_MS);
}

impl Port {
    /// Takes an address; nobody can connect yet.
    pub(crate) fn bind(addr: SocketAddr) -> io::Result<Self> {
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // Connections of before that linger are no reason not to listen again (socket(7)).
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &addr)?;
        Ok(Self::Bound(socket))
    }

    /// Lets clients connect. Whoever accepts them must not wait for them.
    pub(crate) fn listen(self) -> io::Result<TcpListener> {
        match self {
            Self::Bound(socket) => {
                rustix::net::listen(&socket, BACKLOG_LEN)?;
                Ok(socket.into())
            }
            Self::Listening(listener) => Ok(listener),
        }
    }
}

/// What whoever starts it is told of an address in this table of the file.
pub(crate) fn cannot_listen(table: &str, addr: SocketAddr, error: &io::Error) -> Failure {
    let (exit, why) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            Exit::AddressInUse,
            match activation::holder_of(addr) {
                Some(holder) => format!("{addr} of [{table}] is in use: {holder}"),
                None => format!(
                    "{addr} of [{table}] is in use: stop the process that listens there (ss -ltnp; for a .socket unit that is systemd), or choose another address"
                ),
            },
        ),
        io::ErrorKind::PermissionDenied => (
            Exit::NoPermission,
            format!(
                "no permission to listen on {addr} of [{table}]: a port below 1024 needs CAP_NET_BIND_SERVICE or root"
            ),
        ),
        _ => (Exit::Failure, format!("{addr} of [{table}] cannot be listened on: {error}")),
    };
    Failure::new(exit, why)
}
