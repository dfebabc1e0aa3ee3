//! The probes as a layer of tower.
//!
//! Does not know about: routes, connections.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::Either;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::health::Health;

/// A tower layer that serves the probes of a [`Health`]. Created by [`Health::layer`].
#[derive(Clone, Debug)]
pub struct ProbeLayer {
    health: Health,
}

/// A service that serves the probes of a [`Health`] and passes other requests to the inner service.
#[derive(Clone, Debug)]
pub struct WithProbes<S> {
    pub(super) health: Health,
    pub(super) inner: S,
}

impl Health {
    /// The probes as a layer, for instance for `Router::layer`. The response body must implement
    /// `From<Bytes>`, as axum's `Body` and `http_body_util::Full` do.
    ///
    /// It serves probes that the ring threads do not see, with the same replies: those that follow
    /// a request for the program on a kept connection, and those over HTTP/2.
    pub fn layer(&self) -> ProbeLayer {
        ProbeLayer { health: self.clone() }
    }
}

impl<S> Layer<S> for ProbeLayer {
    type Service = WithProbes<S>;

    fn layer(&self, inner: S) -> WithProbes<S> {
        WithProbes { health: self.health.clone(), inner }
    }
}

impl<S, B, R> Service<Request<B>> for WithProbes<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<R>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.health.reply(&request) {
            Some(reply) => Either::Left(ready(Ok(reply.map(R::from)))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}
