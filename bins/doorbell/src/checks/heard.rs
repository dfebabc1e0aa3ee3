//! The first bytes that a server sends, beside whatever reads them.
//!
//! Does not know about: protocols above a connection, but for how a status line of HTTP/1 begins.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Known once something came.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstBytes(Arc<OnceLock<bool>>);

/// A stream whose first bytes are looked at.
#[derive(Debug)]
pub(super) struct Heard<S> {
    pub(super) stream: S,
    pub(super) first: FirstBytes,
}

impl FirstBytes {
    /// Whether they were those of a status line of HTTP/1.
    pub(super) fn is_http1(&self) -> bool {
        self.0.get().copied().unwrap_or(false)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
