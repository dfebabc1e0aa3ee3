//! The listener of the floor programs, with deferred accept and otherwise default options.

use std::error::Error;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_reuseaddr, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen as start, socket_with};

/// Length of the listen backlog, as for nginx and HAProxy.
const BACKLOG: i32 = 4096;
/// Seconds after which a connection without data is accepted.
const DEFER_S: u32 = 5;
/// Maximum time for which a client can block the only thread.
const RECEIVE_MAX: Duration = Duration::from_secs(5);

/// Opens a blocking listener on `addr`.
pub(crate) fn listen(addr: SocketAddr) -> Result<OwnedFd, Box<dyn Error>> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let listener = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&listener, true)?;
    // Connections inherit the timeout.
    set_socket_timeout(&listener, Timeout::Recv, Some(RECEIVE_MAX))?;
    doorbell_ring::sockopt::set_tcp_defer_accept(listener.as_fd(), DEFER_S)
        .map_err(|error| format!("deferred accept: {error:?}"))?;
    bind(&listener, &addr)?;
    start(&listener, BACKLOG)?;
    Ok(listener)
}
