//! The probes as a layer of tower.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::TryFutureExt as _;
use futures_util::future::{Either, MapOk};
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::ProbeBody;
use crate::health::Health;

/// Future of the reply to a probe, or of the response of the inner service: `F` is that service's
/// future, `R` its body.
pub(super) type ReplyFuture<F, R, E> =
    Either<Ready<Result<Response<ProbeBody<R>>, E>>, MapOk<F, fn(Response<R>) -> Response<ProbeBody<R>>>>;

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
    /// The probes as a layer, for instance for `Router::layer` of axum or `Server::layer` of tonic,
    /// around services with any response body whose data is [`Bytes`]; see [`ProbeBody`].
    ///
    /// It serves probes that the ring threads do not see, with the same replies: those that follow
    /// a request for the program on a kept connection, and those over HTTP/2. Needs the feature
    /// `tower`.
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
{
    type Response = Response<ProbeBody<R>>;
    type Error = S::Error;
    type Future = ReplyFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        replied(self.health.reply(&request), || self.inner.call(request))
    }
}

/// The reply to a probe or, if there is none, the response of the inner service.
pub(super) fn replied<F, R, E>(
    probe: Option<Response<Bytes>>,
    inner: impl FnOnce() -> F,
) -> ReplyFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    match probe {
        Some(reply) => Either::Left(ready(Ok(reply.map(ProbeBody::from)))),
        None => Either::Right(inner().map_ok(|response| response.map(ProbeBody::inner))),
    }
}
