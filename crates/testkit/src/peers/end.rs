//! How a connection ended, as seen by its client; most guarantees depend on the difference between
//! a FIN and a reset.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// The last event on a connection, as seen by its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer sent FIN and nothing after it.
    Fin,
    /// FIN first, then a reset: harmless for most clients, but the peer did send a reset.
    LateReset,
    /// A reset without FIN.
    Reset,
    /// Neither within the time limit.
    Silence,
}

/// All bytes received by one client, and how the connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// All bytes received.
    pub bytes: Vec<u8>,
    /// How it ended.
    pub end: End,
    /// Duration of the exchange, without the connect.
    pub took: Duration,
}

/// Connects from a given loopback address, so that a test can act as many clients with different
/// addresses.
///
/// # Errors
/// As `connect(2)`.
pub fn connect_from(source: Ipv4Addr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // A local port in TIME_WAIT may be used again.
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect_timeout(&server.into(), super::PATIENCE)?;
    Ok(socket.into())
}

/// Connects, sends `request` in one write, reads until the end.
///
/// # Errors
/// When the connection cannot be made. A failed write is not an error: the reply may be on its way.
pub fn exchange(server: SocketAddr, request: &[u8]) -> io::Result<Exchange> {
    let mut stream = TcpStream::connect_timeout(&server, super::PATIENCE)?;
    stream.set_nodelay(true)?;
    let _ = stream.write_all(request);
    Ok(finish(&mut stream, super::PATIENCE))
}

/// Reads until FIN or reset, at most for `patience`.
pub fn finish(stream: &mut TcpStream, patience: Duration) -> Exchange {
    let start = Instant::now();
    let mut bytes = Vec::new();
    let mut buf = vec![0; 64 * 1024];
    let end = loop {
        let left = patience.saturating_sub(start.elapsed());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            break End::Silence;
        }
        match stream.read(&mut buf) {
            Ok(0) => break if was_reset(stream) { End::LateReset } else { End::Fin },
            Ok(n) => bytes.extend_from_slice(&buf[..n]),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => break End::Silence,
                _ => break End::Reset,
            },
        }
    };
    Exchange { bytes, end, took: start.elapsed() }
}

/// After FIN a reset shows only in `SO_ERROR` (as EPIPE); reads keep returning end of file.
fn was_reset(stream: &TcpStream) -> bool {
    matches!(stream.take_error(), Ok(Some(_)))
}
