//! The probes of [`crate::Probes`] as a layer, for connections and protocols that the ring threads
//! do not read.
//!
//! Does not know about: routes, connections.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use futures_util::future::Either;
use tower_layer::Layer;
use tower_service::Service;

use crate::health::Health;

/// A layer that serves the probes of a [`Health`] in front of a service of the program.
///
/// [`crate::Probes`] does the same in front of the hand-over. Created by [`Health::layer`].
#[derive(Clone, Debug)]
pub struct ProbeLayer {
    health: Health,
}

/// A service behind a [`ProbeLayer`].
#[derive(Clone, Debug)]
pub struct ProbeService<S> {
    health: Health,
    inner: S,
}

impl Health {
    /// The probes as a layer, for `Router::layer`.
    ///
    /// It gives the same replies to requests that the ring threads do not see: those that follow a
    /// request for the program on a kept connection, and those over HTTP/2.
    pub fn layer(&self) -> ProbeLayer {
        ProbeLayer { health: self.clone() }
    }
}

impl<S> Layer<S> for ProbeLayer {
    type Service = ProbeService<S>;

    fn layer(&self, inner: S) -> ProbeService<S> {
        ProbeService { health: self.health.clone(), inner }
    }
}

impl<S, B, R> Service<Request<B>> for ProbeService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default + From<&'static str>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<R>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(verdict) = self.health.ask(request.uri().path()) else {
            return Either::Right(self.inner.call(request));
        };
        let reply = match *request.method() {
            Method::GET | Method::HEAD | Method::OPTIONS => {
                let mut reply = Response::new(R::from(verdict.body()));
                *reply.status_mut() =
                    StatusCode::from_u16(verdict.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
                let text = HeaderValue::from_static("text/plain; charset=utf-8");
                reply.headers_mut().insert(CONTENT_TYPE, text);
                reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                reply
            }
            _ => {
                let mut reply = Response::new(R::default());
                *reply.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
                reply
            }
        };
        Either::Left(ready(Ok(reply)))
    }
}
