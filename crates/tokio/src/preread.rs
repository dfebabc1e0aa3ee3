//! A stream with bytes that were already read from it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use doorbell::Permit;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::queue::Unread;

/// A stream with bytes that were already read from it.
///
/// Reads first return these bytes, then those of the stream. Writes go to the stream. The
/// connection counts towards the hand-over limit until this value is dropped.
#[derive(Debug)]
pub struct Preread<S> {
    stream: S,
    /// The bytes that were read before; empty once all of them were returned.
    bytes: Vec<u8>,
    at: usize,
    /// Dropped once all of `bytes` were returned, or at the first write.
    unread: Option<Unread>,
    permit: Permit,
}

/// The parts of a [`Preread`].
#[derive(Debug)]
pub struct Parts<S> {
    /// The stream.
    pub stream: S,
    /// Bytes that were already read and not returned yet. They precede the data of the stream.
    pub bytes: Vec<u8>,
    /// The connection counts towards the hand-over limit until the permit is dropped. Keep the
    /// permit as long as the stream.
    pub permit: Permit,
}

impl<S> Preread<S> {
    /// A stream that returns `bytes` before the data of `stream`.
    pub const fn new(stream: S, bytes: Vec<u8>, permit: Permit) -> Self {
        Self { stream, bytes, at: 0, unread: None, permit }
    }

    /// A connection that was taken from the queue.
    pub(crate) fn of_queue(stream: S, bytes: Vec<u8>, permit: Permit, unread: Unread) -> Self {
        let unread = (!bytes.is_empty()).then_some(unread);
        Self { unread, ..Self::new(stream, bytes, permit) }
    }

    /// The bytes that were read before and not returned yet, for inspection without consuming them.
    pub fn preread(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The stream, for its options and addresses. Do not read from it.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream, mutably; see [`Self::get_ref`].
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Splits the stream into its parts.
    pub fn into_parts(mut self) -> Parts<S> {
        self.bytes.drain(..self.at);
        Parts { stream: self.stream, bytes: self.bytes, permit: self.permit }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Preread<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let rest = self.preread();
        let len = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..len).unwrap_or_default());
        self.at += len;
        if self.at == self.bytes.len() {
            self.bytes = Vec::new();
            self.at = 0;
            self.unread = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Preread<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.unread = None;
        Pin::new(&mut self.stream).poll_write(cx, buf)
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
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unread = None;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
