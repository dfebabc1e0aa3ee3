//! The end of a connection that we began.
//!
//! Does not know about: what was said on it.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};

use doorbell_ring::sockopt::{self, TcpState};
use rustix::net::sockopt::set_socket_linger;

/// Closes a connection that is over so that nothing of it stays: no TIME-WAIT here, and no waiting.
///
/// If the peer has closed already, as `Connection: close` asks it to, this is an ordinary close and the peer keeps the TIME-WAIT. If not,
/// the connection is reset: call this when the reply was read completely or does not matter any more, because what is under way is
/// lost. Dropping the socket instead closes it as `SO_LINGER` says.
pub fn close(conn: impl Into<OwnedFd>) {
    let conn = conn.into();
    let peer_closed = sockopt::tcp_info(conn.as_fd()).is_ok_and(|info| info.state == TcpState::CloseWait);
    let linger = if peer_closed { None } else { Some(Duration::ZERO) };
    // A socket that does not take the option (UDP, Unix) has no TIME-WAIT either.
    let _ = set_socket_linger(&conn, linger);
}
