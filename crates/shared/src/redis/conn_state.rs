//! A limit for the replies of a server, and the reason for the end of a connection.
//!
//! The protocol library accepts replies of any length, and does not report why its connection ended
//! while no command waits for a reply.

use crate::store::StoreError;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf, join, split};

/// Maximum cost of the bytes received until a reply is complete; sufficient for the list of many
/// thousand instances.
const COST_MAX: usize = 32 << 20;

/// Cost of a line end, in addition to 1 for each byte. A parsed value takes more memory than its
/// bytes, and each value has a line end.
const LINE_COST: usize = 256;

/// State that the stream of a connection and its user share.
#[derive(Debug, Default)]
pub(super) struct ConnState {
    cost: AtomicUsize,
    ended: OnceLock<StoreError>,
}

/// A stream whose received bytes are limited.
pub(super) type LimitedStream = Join<Reader, Box<dyn AsyncWrite + Unpin + Send>>;

/// Limits the received bytes.
pub(super) struct Reader {
    stream: Box<dyn AsyncRead + Unpin + Send>,
    state: Arc<ConnState>,
}

impl ConnState {
    /// Records a complete reply or message.
    pub(super) fn replied(&self) {
        self.cost.store(0, Ordering::Relaxed);
    }

    /// Records why the connection ends, and returns the first reason.
    pub(super) fn end(&self, why: StoreError) -> StoreError {
        self.ended.get_or_init(|| why).clone()
    }

    /// Why the connection ended, if it did.
    pub(super) fn ended(&self) -> Option<StoreError> {
        self.ended.get().cloned()
    }

    fn fail(&self, why: String) -> io::Error {
        io::Error::other(self.end(StoreError(why)))
    }

    fn received(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            self.end(StoreError("the server closed the connection".to_owned()));
            return Ok(());
        }
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
        let cost = bytes.len() + lines * LINE_COST;
        if self.cost.fetch_add(cost, Ordering::Relaxed) + cost > COST_MAX {
            return Err(self.fail("the reply is too long".to_owned()));
        }
        Ok(())
    }
}

pub(super) fn limited(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    state: &Arc<ConnState>,
) -> LimitedStream {
    let (reader, writer) = split(stream);
    join(Reader { stream: Box::new(reader), state: Arc::clone(state) }, Box::new(writer))
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        Poll::Ready(match ready!(Pin::new(&mut self.stream).poll_read(cx, buf)) {
            Ok(()) => self.state.received(&buf.filled()[before..]),
            Err(error) => Err(self.state.fail(format!("cannot receive: {error}"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn replies_are_limited_by_their_bytes_and_lines() {
        for (byte, len_max) in [(b'a', COST_MAX), (b'\n', COST_MAX / (LINE_COST + 1))] {
            let state = Arc::new(ConnState::default());
            let mut stream = limited(join(tokio::io::repeat(byte), tokio::io::sink()), &state);
            let mut reply = vec![0; len_max];
            for _ in 0..2 {
                stream.read_exact(&mut reply).await.expect("it is short enough");
                state.replied();
            }
            stream.read_exact(&mut reply).await.expect("it is short enough");
            let error = stream.read_exact(&mut [0; LINE_COST]).await.expect_err("another reply");
            assert_eq!(error.to_string(), "the reply is too long");
            assert_eq!(state.ended(), Some(StoreError("the reply is too long".into())));
        }
    }
}
