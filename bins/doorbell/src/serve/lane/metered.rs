//! A stream whose frames are counted on their way, and that ends with GOAWAY when they are too many.
//!
//! Does not know about: what is too much.

use super::meter::{Abuse, Meter};
use doorbell::time::{Clock as _, OsClock};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection's account, for all who know the connection.
#[derive(Clone, Debug)]
pub(super) struct Account(Arc<Mutex<Kept>>);

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) meter: Meter,
    /// Why the connection ends, once it does.
    pub(super) abuse: Option<Abuse>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    account: Account,
}

impl Account {
    pub(super) fn new(meter: Meter) -> Self {
        Self(Arc::new(Mutex::new(Kept { meter, abuse: None })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing that can panic happens while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Metered<S> {
    pub(super) const fn new(stream: S, account: Account) -> Self {
        Self { stream, account }
    }

    fn count_sent(&self, bytes: &[u8]) {
        let mut kept = self.account.lock();
        if let Err(abuse) = kept.meter.handle_sent(bytes, OsClock.now()) {
            // Told when it is read next: the writer is in the middle of something.
            kept.abuse.get_or_insert(abuse);
        }
    }
}

/// GOAWAY with ENHANCE_YOUR_CALM (RFC 9113 6.8 and 7).
fn goaway(last_stream: u32) -> [u8; 17] {
    let [a, b, c, d] = last_stream.to_be_bytes();
    [0, 0, 8, 7, 0, 0, 0, 0, 0, a, b, c, d, 0, 0, 0, 11]
}

impl<S: AsyncRead + AsyncWrite + Unpin> Metered<S> {
    /// Ends the connection, with a word if there is room for it now.
    fn end(&mut self, cx: &mut Context<'_>) -> io::Error {
        let (is_between, last_stream) = {
            let kept = self.account.lock();
            (kept.meter.is_between_sent(), kept.meter.last_stream())
        };
        if is_between && Pin::new(&mut self.stream).poll_write(cx, &goaway(last_stream)).is_ready() {
            let _flushed = Pin::new(&mut self.stream).poll_flush(cx);
        }
        io::ErrorKind::ConnectionAborted.into()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let abuse = {
            let mut kept = self.account.lock();
            let fresh = buf.filled().get(before..).unwrap_or_default();
            let counted = kept.meter.handle_received(fresh, OsClock.now());
            kept.abuse = kept.abuse.or_else(|| counted.err());
            kept.abuse
        };
        if abuse.is_some() {
            buf.set_filled(before);
            return Poll::Ready(Err(self.end(cx)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.count_sent(buf.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs))?;
        let mut left = written;
        for buf in bufs {
            let len = left.min(buf.len());
            self.count_sent(buf.get(..len).unwrap_or_default());
            left -= len;
        }
        Poll::Ready(Ok(written))
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
