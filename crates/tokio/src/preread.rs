//! A stream some bytes of which were read before.
//!
//! Does not know about: who read them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use doorbell::Permit;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads first what was read before, then the stream; writes go to the stream. It keeps its place among the connections that are
/// handed over until it is dropped.
#[derive(Debug)]
pub struct Preread<S> {
    stream: S,
    /// Empty once all of it was read.
    bytes: Vec<u8>,
    at: usize,
    permit: Permit,
}

/// What a [`Preread`] consists of.
#[derive(Debug)]
pub struct Parts<S> {
    /// The stream.
    pub stream: S,
    /// What comes before anything the stream still gives.
    pub bytes: Vec<u8>,
    /// The place among the connections that are handed over: keep it as long as the stream.
    pub permit: Permit,
}

impl<S> Preread<S> {
    /// `bytes` before `stream`.
    pub const fn new(stream: S, bytes: Vec<u8>, permit: Permit) -> Self {
        Self { stream, bytes, at: 0, permit }
    }

    /// What was read before and is not read again yet: for whoever decides by it, and reads it later.
    pub fn preread(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The stream, for its options and addresses; not to read from.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// As [`Self::get_ref`].
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Its parts.
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
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Preread<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
