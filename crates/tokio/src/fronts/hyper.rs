//! A wrapper for hyper services that serves the probes.

use http::{Request, Response};
use hyper::service::Service;

use super::layer::{ReplyFuture, replied};
use super::{ProbeBody, WithProbes};
use crate::health::Health;

impl Health {
    /// Wraps a hyper or tower service: serves the probes and passes other requests to `inner`,
    /// which may have any response body whose data is [`Bytes`](bytes::Bytes); see [`ProbeBody`].
    /// Needs the feature `hyper`.
    pub fn service<S>(&self, inner: S) -> WithProbes<S> {
        WithProbes { health: self.clone(), inner }
    }
}

impl<S, B, R> Service<Request<B>> for WithProbes<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<ProbeBody<R>>;
    type Error = S::Error;
    type Future = ReplyFuture<S::Future, R, S::Error>;

    fn call(&self, request: Request<B>) -> Self::Future {
        replied(self.health.reply(&request), || self.inner.call(request))
    }
}
