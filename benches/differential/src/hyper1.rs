//! hyper's server, polled manually over bytes in memory, without a runtime or a socket.

use crate::framing::{End, Framing, Seen, error_status};
use hyper::body::{Body, Incoming};
use hyper::header::HOST;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Frames `stream`, which arrives in two pieces followed by the end of the connection.
pub fn frame(stream: &[u8], cut: usize) -> Framing {
    let requests = RefCell::new(Vec::new());
    let broken = Cell::new(None);
    let output = RefCell::new(Vec::new());
    let wire = Wire { input: stream, cut, at: 0, output: &output };
    let service = service_fn(|request| note(request, &requests, &broken));
    let result = {
        let mut conn = pin!(http1::Builder::new().half_close(true).serve_connection(wire, service));
        let mut cx = Context::from_waker(Waker::noop());
        (0..POLLS_MAX).find_map(|_| match conn.as_mut().poll(&mut cx) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        })
    };
    let refused = || End::Refused(error_status(&output.borrow()).unwrap_or(0));
    let end = match (broken.get(), result) {
        (Some(Broken::Short), _) => End::Inside,
        (Some(Broken::Malformed), _) => refused(),
        (None, Some(Ok(()))) => End::Between,
        (None, Some(Err(error))) if error.is_incomplete_message() => End::Inside,
        (None, _) => refused(),
    };
    Framing { requests: requests.take(), end }
}

/// Reasons why a body is incomplete.
#[derive(Clone, Copy, Debug)]
enum Broken {
    Malformed,
    Short,
}

async fn note(
    request: Request<Incoming>,
    requests: &RefCell<Vec<Seen>>,
    broken: &Cell<Option<Broken>>,
) -> Result<Response<String>, io::Error> {
    let (parts, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
        match frame {
            Ok(frame) => body.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Err(error) => {
                let short = error.is_incomplete_message() || is_eof(&error);
                broken.set(Some(if short { Broken::Short } else { Broken::Malformed }));
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
    let host = match parts.uri.authority() {
        Some(authority) => authority.as_str().as_bytes().to_vec(),
        None => parts.headers.get(HOST).map_or_else(Vec::new, |host| host.as_bytes().to_vec()),
    };
    let mut target = parts.uri.path().as_bytes().to_vec();
    if let Some(query) = parts.uri.query() {
        target.push(b'?');
        target.extend_from_slice(query.as_bytes());
    }
    let method = parts.method.as_str().as_bytes().to_vec();
    requests.borrow_mut().push(Seen { method, target, host, body });
    Ok(Response::new(String::new()))
}

/// Whether the stream ended inside a body.
fn is_eof(error: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Both directions of a connection.
struct Wire<'a> {
    input: &'a [u8],
    cut: usize,
    at: usize,
    output: &'a RefCell<Vec<u8>>,
}

impl Read for Wire<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let end = if self.at < self.cut { self.cut } else { self.input.len() };
        let end = end.min(self.at + buf.remaining());
        buf.put_slice(&self.input[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.output.borrow_mut().extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Maximum number of polls. hyper yields occasionally, but needs far fewer polls for a few hundred
/// bytes.
const POLLS_MAX: usize = 10_000;
