//! Closing an outgoing connection.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};

use doorbell_ring::sockopt::{self, TcpState};
use rustix::net::sockopt::set_socket_linger;

/// Closes a finished connection without a TIME-WAIT on this side, and without waiting.
///
/// If the peer has already closed, as it does after `Connection: close`, this is an ordinary close,
/// and the peer keeps the TIME-WAIT. Otherwise the connection is reset and data in flight is lost.
/// Call this function only after the response was read completely or is no longer needed. Dropping
/// the socket, in contrast, closes it according to `SO_LINGER`.
pub fn close(conn: impl Into<OwnedFd>) {
    let conn = conn.into();
    let peer_closed = sockopt::tcp_info(conn.as_fd()).is_ok_and(|info| info.state == TcpState::CloseWait);
    let linger = if peer_closed { None } else { Some(Duration::ZERO) };
    // Errors are ignored: setting the option fails only if `conn` is not a socket, and then there
    // is no TIME-WAIT to avoid.
    let _ = set_socket_linger(&conn, linger);
}
