//! Misbehaving clients, one function for each kind of misbehaviour.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use super::end::{Exchange, finish};
use super::reply::Reply;

/// Sends `request`, then FIN, then reads to the end: a client that half-closes.
///
/// # Errors
/// When connecting or writing fails.
pub fn half_close(server: SocketAddr, request: &[u8]) -> io::Result<Exchange> {
    let mut stream = TcpStream::connect_timeout(&server, super::PATIENCE)?;
    stream.write_all(request)?;
    stream.shutdown(Shutdown::Write)?;
    Ok(finish(&mut stream, super::PATIENCE))
}

/// Sends `request` and closes immediately without reading, with a reset or with FIN.
///
/// # Errors
/// When connecting fails.
pub fn send_and_leave(server: SocketAddr, request: &[u8], by_reset: bool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, super::PATIENCE)?;
    let _ = stream.write_all(request);
    if by_reset { reset(&stream) } else { Ok(()) }
}

/// Makes the next close of `stream` a reset.
///
/// # Errors
/// As `setsockopt(2)`.
pub fn reset(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

/// Sends `request` one byte per write, without Nagle so that every byte is a segment, then reads to
/// the end.
///
/// # Errors
/// When connecting fails.
pub fn byte_by_byte(server: SocketAddr, request: &[u8]) -> io::Result<Exchange> {
    let mut stream = TcpStream::connect_timeout(&server, super::PATIENCE)?;
    stream.set_nodelay(true)?;
    for byte in request {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
    }
    Ok(finish(&mut stream, super::PATIENCE))
}

/// Sends `count` copies of `request` in one write and reads that many replies.
///
/// # Errors
/// When the connection ends before the last reply.
pub fn pipelined(server: SocketAddr, request: &[u8], count: usize) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, super::PATIENCE)?;
    stream.write_all(&request.repeat(count))?;
    read_replies(&mut stream, count, false)
}

/// A valid but large request head of about `bytes` bytes: many fields of 64 bytes.
pub fn header_flood(path: &str, bytes: usize) -> Vec<u8> {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: flood\r\n").into_bytes();
    let mut n = 0;
    while request.len() + 2 < bytes {
        request.extend_from_slice(format!("X-Flood-{n:06}: {:046}\r\n", n).as_bytes());
        n += 1;
    }
    request.extend_from_slice(b"\r\n");
    request
}

/// Reads exactly `count` replies and leaves the connection open.
///
/// # Errors
/// When the peer closes or stops sending before the last one.
pub fn read_replies(stream: &mut TcpStream, count: usize, to_head: bool) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(super::PATIENCE))?;
    let mut bytes = Vec::new();
    let mut buf = vec![0; 64 * 1024];
    let (mut seen, mut from) = (0, 0);
    while seen < count {
        match stream.read(&mut buf) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => bytes.extend_from_slice(&buf[..n]),
            // The kernel does not restart an interrupted read on a socket with a timeout. A ring
            // that this thread has closed may cause the interruption.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        while let Some(reply) = Reply::parse(&bytes[from..], to_head) {
            from += reply.len;
            seen += 1;
        }
    }
    Ok(bytes)
}
