//! An address that is taken before anybody is let in, for what may not come to serve.
//!
//! Does not know about: who will listen there.

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

/// Clients that may wait to be accepted.
const BACKLOG_LEN: i32 = 1024;

/// See the [module](self).
#[derive(Debug)]
pub(super) enum Port {
    Bound(OwnedFd),
    Listening(TcpListener),
}

/// An address as it is written down, and who listens there.
pub(super) type Listening = (SocketAddr, TcpListener);

impl Port {
    /// Takes an address; nobody can connect yet.
    pub(super) fn bind(addr: SocketAddr) -> io::Result<Self> {
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // Connections of before that linger are no reason not to listen again (socket(7)).
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &addr)?;
        Ok(Self::Bound(socket))
    }

    /// Lets clients connect. Whoever accepts them must not wait for them.
    pub(super) fn listen(self) -> io::Result<TcpListener> {
        match self {
            Self::Bound(socket) => {
                rustix::net::listen(&socket, BACKLOG_LEN)?;
                Ok(socket.into())
            }
            Self::Listening(listener) => Ok(listener),
        }
    }
}
