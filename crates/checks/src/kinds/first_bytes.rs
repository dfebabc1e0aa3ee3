//! Records whether the first bytes that a server sends are HTTP/1, for diagnostics.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf, ReadHalf, WriteHalf};

/// Reason when the server responds to the HTTP/2 preface with a status line.
pub(crate) const HTTP1: &str = "the server speaks HTTP/1 here, not HTTP/2: is this the right port?";

/// Whether the first bytes were HTTP/1; set by the first read.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstBytes(Arc<OnceLock<bool>>);

/// Wraps a stream so that `first` records whether its first bytes are HTTP/1.
pub(crate) fn recording<S: AsyncRead + AsyncWrite>(
    stream: S,
    first: &FirstBytes,
) -> Join<RecordingReader<ReadHalf<S>>, WriteHalf<S>> {
    let (read, write) = tokio::io::split(stream);
    tokio::io::join(RecordingReader { stream: read, first: first.clone() }, write)
}

/// Records whether the first bytes that are read are HTTP/1.
#[derive(Debug)]
pub(crate) struct RecordingReader<R> {
    stream: R,
    first: FirstBytes,
}

impl FirstBytes {
    /// Whether the first bytes were those of an HTTP/1 status line.
    pub(crate) fn is_http1(&self) -> bool {
        self.0.get().copied().unwrap_or(false)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for RecordingReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let came = &buf.filled()[before..];
        if !came.is_empty() {
            // Assumes that the first six bytes of a status line arrive in one read. An HTTP/2 frame
            // begins with its length, whose first byte is not a letter.
            self.first.0.get_or_init(|| came.starts_with(b"HTTP/1"));
        }
        Poll::Ready(Ok(()))
    }
}
