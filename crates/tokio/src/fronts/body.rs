//! The response body of a service with probes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The response body of [`WithProbes`](crate::WithProbes): the body of the inner service, or
    /// the reply to a probe.
    #[derive(Debug)]
    pub struct ProbeBody<B> {
        // `None` for the reply to a probe.
        #[pin]
        inner: Option<B>,
        reply: Bytes,
    }
}

impl<B> ProbeBody<B> {
    pub(super) const fn inner(body: B) -> Self {
        Self { inner: Some(body), reply: Bytes::new() }
    }
}

impl<B> From<Bytes> for ProbeBody<B> {
    fn from(reply: Bytes) -> Self {
        Self { inner: None, reply }
    }
}

/// An empty body, for layers that reply without the service, such as a timeout.
impl<B> Default for ProbeBody<B> {
    fn default() -> Self {
        Self::from(Bytes::new())
    }
}

impl<B> Body for ProbeBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        match this.inner.as_pin_mut() {
            Some(inner) => inner.poll_frame(cx),
            None if this.reply.is_empty() => Poll::Ready(None),
            None => Poll::Ready(Some(Ok(Frame::data(std::mem::take(this.reply).into())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().map_or_else(|| self.reply.is_empty(), B::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(self.reply.len() as u64), B::size_hint)
    }
}
