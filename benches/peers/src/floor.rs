//! The listener of the floor programs: deferred accept, nothing else that differs from the defaults.
//!
//! Does not know about: what is answered.

use std::error::Error;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_reuseaddr, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen as start, socket_with};

/// As many as nginx and HAProxy are given.
const BACKLOG: i32 = 4096;
/// Until a connection without data is handed out.
const DEFER_S: u32 = 5;
/// No client can hold the one thread longer.
const RECEIVE_MAX: Duration = Duration::from_secs(5);

/// A blocking listener on `addr`.
pub(crate) fn listen(addr: SocketAddr) -> Result<OwnedFd, Box<dyn Error>> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let listener = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&listener, true)?;
    // Connections inherit it.
    set_socket_timeout(&listener, Timeout::Recv, Some(RECEIVE_MAX))?;
    doorbell_ring::sockopt::set_tcp_defer_accept(listener.as_fd(), DEFER_S)
        .map_err(|error| format!("deferred accept: {error:?}"))?;
    bind(&listener, &addr)?;
    start(&listener, BACKLOG)?;
    Ok(listener)
}
