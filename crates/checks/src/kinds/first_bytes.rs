//! The first bytes that a server sends, beside whatever reads them.
//!
//! Does not know about: protocols above a connection, but for how a status line of HTTP/1 begins.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf, ReadHalf, WriteHalf};

/// Known once something came.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstBytes(Arc<OnceLock<bool>>);

/// A stream whose first bytes are noted in `first`.
pub(crate) fn noting<S: AsyncRead + AsyncWrite>(
    stream: S,
    first: &FirstBytes,
) -> Join<Heard<ReadHalf<S>>, WriteHalf<S>> {
    let (read, write) = tokio::io::split(stream);
    tokio::io::join(Heard { stream: read, first: first.clone() }, write)
}

/// The reading side.
#[derive(Debug)]
pub(crate) struct Heard<R> {
    stream: R,
    first: FirstBytes,
}

impl FirstBytes {
    /// Whether they were those of a status line of HTTP/1.
    pub(crate) fn is_http1(&self) -> bool {
        self.0.get().copied().unwrap_or(false)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Heard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let came = &buf.filled()[before..];
        if !came.is_empty() {
            // A status line comes whole; a frame of HTTP/2 begins with its length, which is no letter.
            self.first.0.get_or_init(|| came.starts_with(b"HTTP/1"));
        }
        Poll::Ready(Ok(()))
    }
}
