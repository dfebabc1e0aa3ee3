//! A wrapper for hyper services that serves the probes.
//!
//! Does not know about: connections.

use std::future::{Ready, ready};

use bytes::Bytes;
use futures_util::future::Either;
use http::{Request, Response};
use hyper::service::Service;

use super::WithProbes;
use crate::health::Health;

impl Health {
    /// Wraps a hyper or tower service: serves the probes and passes other requests to `inner`. The
    /// response body must implement `From<Bytes>`, as `http_body_util::Full` does.
    pub fn service<S>(&self, inner: S) -> WithProbes<S> {
        WithProbes { health: self.clone(), inner }
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

    fn call(&self, request: Request<B>) -> Self::Future {
        match self.health.reply(&request) {
            Some(reply) => Either::Left(ready(Ok(reply.map(R::from)))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}
