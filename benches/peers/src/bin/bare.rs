//! The floor for a connection: blocking calls of accept, receive, send and close, without parsing
//! the request.
//!
//! Every connection gets the same bytes.
#![forbid(unsafe_code)]

#[path = "../address.rs"]
mod address;
#[path = "../floor.rs"]
mod floor;

use std::error::Error;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

const REPLY: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n";

fn main() -> Result<(), Box<dyn Error>> {
    let listener = floor::listen(address::address()?)?;
    let mut request = [0_u8; 4096];
    loop {
        let conn = match accept_with(&listener, SocketFlags::CLOEXEC) {
            Ok(conn) => conn,
            // The accept timed out, or the client has disconnected.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => continue,
            Err(error) => return Err(error.into()),
        };
        // With `MSG_MORE`, the kernel holds the reply back until the close, and sends it together
        // with the FIN in one segment.
        if matches!(recv(&conn, &mut request, RecvFlags::empty()), Ok((_, 1..))) {
            // The send may fail, because a client that has disconnected needs no reply.
            let _ = send(&conn, REPLY, SendFlags::MORE | SendFlags::NOSIGNAL);
        }
        // Dropping a connection closes it.
    }
}
