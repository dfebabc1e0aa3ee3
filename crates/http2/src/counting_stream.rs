//! A stream that counts HTTP/2 frames, and ends with GOAWAY if a limit is exceeded. After a normal
//! end it lingers, that is, reads and drops input: closing the socket immediately could cause a TCP
//! reset, which discards data that the client has not read.

use super::flood_limits::{Abuse, FloodLimits};
use doorbell::time::{Clock as _, OsClock};
use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// The shared frame counters of a connection.
#[derive(Clone, Debug)]
pub(super) struct Account(Arc<Mutex<AccountState>>);

#[derive(Debug)]
pub(super) struct AccountState {
    pub(super) limits: FloodLimits,
    /// Why the connection is ended.
    pub(super) abuse: Option<Abuse>,
}

/// A stream that counts the frames of a connection.
#[derive(Debug)]
pub(super) struct CountingStream<S> {
    stream: S,
    account: Account,
    linger: Linger,
}

/// Maximum number of bytes to drop while lingering.
const LINGER_LEN_MAX: usize = 64 << 10;

#[derive(Debug)]
enum Linger {
    /// The stream is not shut down yet. Contains the linger time.
    Later(Duration),
    Now {
        over: Pin<Box<Sleep>>,
        len_left: usize,
    },
}

impl Account {
    pub(super) fn new(limits: FloodLimits) -> Self {
        Self(Arc::new(Mutex::new(AccountState { limits, abuse: None })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, AccountState> {
        // No code that can panic runs while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> CountingStream<S> {
    /// `linger` is the maximum time to wait for the client's FIN after the FIN of the server.
    pub(super) const fn new(stream: S, account: Account, linger: Duration) -> Self {
        Self { stream, account, linger: Linger::Later(linger) }
    }

    fn note_blocked(&self, is_blocked: bool) {
        self.account.lock().limits.block(is_blocked, OsClock.now());
    }

    fn count_sent(&self, bytes: &[u8]) {
        let mut state = self.account.lock();
        if let Err(abuse) = state.limits.handle_sent(bytes, OsClock.now()) {
            // Takes effect at the next read, because the writer may be in the middle of a frame.
            state.abuse.get_or_insert(abuse);
        }
    }
}

/// Encodes a GOAWAY with ENHANCE_YOUR_CALM (RFC 9113 6.8 and 7).
fn goaway(last_stream: u32) -> [u8; 17] {
    let [a, b, c, d] = last_stream.to_be_bytes();
    [0, 0, 8, 7, 0, 0, 0, 0, 0, a, b, c, d, 0, 0, 0, 11]
}

impl<S: AsyncRead + AsyncWrite + Unpin> CountingStream<S> {
    /// Ends the connection, with a GOAWAY if the frame can be written now.
    fn end(&mut self, cx: &mut Context<'_>) -> io::Error {
        let (is_between, last_stream) = {
            let state = self.account.lock();
            (state.limits.is_between_sent(), state.limits.last_stream())
        };
        if is_between && Pin::new(&mut self.stream).poll_write(cx, &goaway(last_stream)).is_ready() {
            let _flushed = Pin::new(&mut self.stream).poll_flush(cx);
        }
        io::ErrorKind::ConnectionAborted.into()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for CountingStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.account.lock().abuse.is_some() {
            return Poll::Ready(Err(self.end(cx)));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let abuse = {
            let mut state = self.account.lock();
            let fresh = buf.filled().get(before..).unwrap_or_default();
            let counted = state.limits.handle_received(fresh, OsClock.now());
            state.abuse = state.abuse.or_else(|| counted.err());
            state.abuse
        };
        if abuse.is_some() {
            buf.set_filled(before);
            return Poll::Ready(Err(self.end(cx)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for CountingStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note_blocked(written.is_pending());
        let written = ready!(written)?;
        self.count_sent(buf.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note_blocked(written.is_pending());
        let written = ready!(written)?;
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
        let Self { stream, linger, .. } = &mut *self;
        loop {
            match linger {
                Linger::Later(time) => {
                    ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
                    let over = Box::pin(tokio::time::sleep(*time));
                    *linger = Linger::Now { over, len_left: LINGER_LEN_MAX };
                }
                Linger::Now { over, len_left } => {
                    let mut dropped = [0; 1024];
                    let mut buf = ReadBuf::new(&mut dropped);
                    let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(cx, &mut buf) else {
                        return over.as_mut().poll(cx).map(Ok);
                    };
                    let len = buf.filled().len();
                    *len_left = len_left.saturating_sub(len);
                    if read.is_err() || len == 0 || *len_left == 0 {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}
