//! Listening sockets outside the workers, opened for a generation that may be rolled back.

use super::activation;
use crate::exit::{Exit, Failure};
use doorbell_config::At;
use doorbell_proxy_config::BoundAddr;
use doorbell_proxy_config::model::Config;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

/// Length of the accept queue.
const BACKLOG_LEN: i32 = 1024;

/// A bound address.
#[derive(Debug)]
pub(crate) enum Port {
    Bound(OwnedFd),
    Listening(TcpListener),
}

/// A configured address with its listener.
pub(crate) type Listening = (SocketAddr, TcpListener);

/// Time without an acknowledgement, or with a closed window, after which the kernel ends a
/// connection (tcp(7), `TCP_USER_TIMEOUT`). Connections of workers have the same default.
const USER_TIMEOUT_MS: u32 = 15_000;

/// Makes the kernel end a connection whose client does not read.
pub(crate) fn set_user_timeout(conn: &impl AsFd) {
    // On failure, the connection only stays open longer.
    let _best_effort = sockopt::set_tcp_user_timeout(conn, USER_TIMEOUT_MS);
}

impl Port {
    /// Binds an address. Clients cannot connect yet, and another socket can still take the address.
    pub(crate) fn bind(BoundAddr { addr, v6_only }: BoundAddr) -> io::Result<Self> {
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // Allows binding while earlier connections linger (socket(7)).
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if addr.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, v6_only)?;
        }
        rustix::net::bind(&socket, &addr)?;
        Ok(Self::Bound(socket))
    }

    /// Starts listening. The socket is non-blocking.
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

/// Listens at an address. Clients wait in the backlog, and are reset if the generation is rolled
/// back.
pub(crate) fn listen(addr: BoundAddr) -> io::Result<TcpListener> {
    Port::bind(addr)?.listen()
}

/// Listens at the addresses of this table. Sockets of `before` are taken over.
pub(crate) fn listen_all(
    config: &Config,
    table: &str,
    binds: &[At<SocketAddr>],
    before: &[Listening],
) -> Result<Vec<Listening>, Failure> {
    let mut held: Vec<&Listening> = before.iter().collect();
    let addrs = binds.iter().map(|bind| bind.value);
    addrs
        .map(|addr| {
            let listener = match held.iter().position(|(held, _)| *held == addr) {
                Some(at) => held.remove(at).1.try_clone(),
                None => listen(config.bound(addr)),
            };
            Ok((addr, listener.map_err(|error| cannot_listen(table, addr, &error))?))
        })
        .collect()
}

/// Duplicates the sockets of a table for the thread that accepts.
pub(crate) fn copies(table: &str, listeners: &[Listening]) -> Vec<TcpListener> {
    let copy = |(_, listener): &Listening| {
        let copy = listener.try_clone();
        copy.inspect_err(|error| tracing::error!(table, %error, "cannot accept connections")).ok()
    };
    listeners.iter().filter_map(copy).collect()
}

/// The bound addresses.
pub(crate) fn bound_addrs(listeners: &[Listening]) -> Vec<String> {
    let addr = |(addr, listener): &Listening| listener.local_addr().unwrap_or(*addr).to_string();
    listeners.iter().map(addr).collect()
}

/// The error for an address of this table that cannot be bound.
pub(crate) fn cannot_listen(table: &str, addr: SocketAddr, error: &io::Error) -> Failure {
    cannot_bind(&format!("{addr} of [{table}]"), &addr.to_string(), error)
}

/// Whether [`cannot_bind`] has a fix for this error.
pub(crate) fn is_about_address(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
    matches!(error.kind(), AddrInUse | AddrNotAvailable | PermissionDenied)
}

/// The error for an address that cannot be bound, with a fix. `what` names the address.
pub(crate) fn cannot_bind(what: &str, addr: &str, error: &io::Error) -> Failure {
    let addr: Option<SocketAddr> = addr.parse().ok();
    let (exit, message) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            Exit::AddressInUse,
            match addr.and_then(activation::holder_of) {
                Some(holder) => format!("cannot bind {what}: address in use: {holder}"),
                None => format!(
                    "cannot bind {what}: address in use; stop the process that listens there (see `ss -ltnp`; systemd for a .socket unit), or use another address"
                ),
            },
        ),
        io::ErrorKind::PermissionDenied if addr.is_none() => (
            Exit::NoPermission,
            format!(
                "cannot bind {what}: permission denied; use a directory in which doorbell may create files"
            ),
        ),
        io::ErrorKind::PermissionDenied => (
            Exit::NoPermission,
            format!(
                "cannot bind {what}: permission denied; grant CAP_NET_BIND_SERVICE or use a port above 1023"
            ),
        ),
        io::ErrorKind::AddrNotAvailable => (
            Exit::Failure,
            format!(
                "cannot bind {what}: not an address of this machine; use one of `ip addr`, or [::]:PORT for all"
            ),
        ),
        _ => (Exit::Failure, format!("cannot bind {what}: {error}")),
    };
    Failure::new(exit, message)
}
