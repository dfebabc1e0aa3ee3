//! An HTTP/2 connection as a channel for tonic.

use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::Service;

/// The sending half of an HTTP/2 connection, and the header fields that are added to each call.
#[derive(Clone, Debug)]
pub(crate) struct Channel(pub(crate) http2::SendRequest<Body>, pub(crate) Arc<[(HeaderName, HeaderValue)]>);

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    /// Always ready: a closed connection fails the call instead, with an error that has a source.
    /// From an error of this method, tonic would make a status without a source, which could not be
    /// told from a status that the server sent.
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        for (name, value) in &*self.1 {
            request.headers_mut().append(name, value.clone());
        }
        Box::pin(self.0.send_request(request))
    }
}
