//! Limits the number of interim responses over HTTP/1.

use crate::finding::{Issue, Verdict};
use hyper::Request;
use hyper::ext::on_informational;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of interim responses (1xx, RFC 9110 15.2) before a response. Go permits five.
const INTERIM_MAX: usize = 8;

/// Counts the interim responses to one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterimCounter(Arc<AtomicUsize>);

/// A stream whose reads fail after too many interim responses.
#[derive(Debug)]
pub(crate) struct InterimLimit<S> {
    stream: S,
    counter: InterimCounter,
}

impl InterimCounter {
    pub(crate) fn of<B>(request: &mut Request<B>) -> Self {
        let counter = Self::default();
        let counted = counter.clone();
        on_informational(request, move |_response| {
            counted.0.fetch_add(1, Ordering::Relaxed);
        });
        counter
    }

    pub(crate) fn limit<S>(&self, stream: S) -> InterimLimit<S> {
        InterimLimit { stream, counter: self.clone() }
    }

    /// Fails if there were too many, even if a response has followed.
    pub(crate) fn check(&self) -> Verdict {
        if self.0.load(Ordering::Relaxed) <= INTERIM_MAX {
            return Ok(());
        }
        Err(Issue::failure(format!("more than {INTERIM_MAX} interim responses (1xx)")))
    }
}

#[cfg(feature = "websocket")]
impl<S> InterimLimit<S> {
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for InterimLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.counter.check() {
            Ok(()) => Pin::new(&mut self.stream).poll_read(cx, buf),
            Err(issue) => Poll::Ready(Err(io::Error::other(issue.reason))),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InterimLimit<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
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

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
