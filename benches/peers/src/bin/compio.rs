//! compio's io_uring runtime with a small loop around httparse, because compio has no HTTP server.
#![forbid(unsafe_code)]

#[path = "../address.rs"]
mod address;

use std::error::Error;
use std::net::SocketAddr;

use compio::BufResult;
use compio::buf::{IntoInner, IoBuf};
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};
use httparse::{EMPTY_HEADER, Request, Status};

const BUFFER_LEN: usize = 4096;
const HEADERS_MAX: usize = 32;
const FOUND: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n";
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n";

fn main() -> Result<(), Box<dyn Error>> {
    compio::runtime::Runtime::new()?.block_on(serve(address::address()?))
}

async fn serve(addr: SocketAddr) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(addr).await?;
    loop {
        let (conn, _) = listener.accept().await?;
        compio::runtime::spawn(converse(conn)).detach();
    }
}

/// Replies to all complete requests of a read with one write. Closes the connection when the client
/// disconnects, sends an invalid request or exceeds the buffer.
async fn converse(mut conn: TcpStream) {
    let mut input = Vec::with_capacity(BUFFER_LEN);
    let mut replies = Vec::with_capacity(BUFFER_LEN);
    loop {
        let used = input.len();
        let BufResult(read, slice) = conn.read(input.slice(used..)).await;
        input = slice.into_inner();
        if !matches!(read, Ok(1..)) {
            return;
        }
        let Some(last) = answer(&mut input, &mut replies) else { return };
        let BufResult(written, buffer) = conn.write_all(replies).await;
        replies = buffer;
        replies.clear();
        if written.is_err() || last || input.len() == input.capacity() {
            return;
        }
    }
}

/// Removes complete requests from the start of `input`, and returns whether the last request ends
/// the connection. Returns `None` for an invalid request.
fn answer(input: &mut Vec<u8>, replies: &mut Vec<u8>) -> Option<bool> {
    let mut from = 0;
    let mut last = false;
    while !last && from < input.len() {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        let Status::Complete(len) = request.parse(&input[from..]).ok()? else { break };
        last = request.version != Some(1) || wants_close(&request);
        replies.extend_from_slice(if request.path == Some("/livez") { FOUND } else { NOT_FOUND });
        replies.extend_from_slice(if last { b"connection: close\r\n\r\nok\n" } else { b"\r\nok\n" });
        from += len;
    }
    input.drain(..from);
    Some(last)
}

fn wants_close(request: &Request<'_, '_>) -> bool {
    request.headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("connection") && header.value.eq_ignore_ascii_case(b"close")
    })
}
