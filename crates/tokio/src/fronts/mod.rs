//! Serves the probes of a `Health` in the program itself, for connections and protocols that the
//! ring threads do not read. The replies are the same as those of the ring threads.

mod body;
#[cfg(feature = "hyper")]
mod hyper;
mod layer;
#[cfg(feature = "axum")]
mod routes;

pub use body::ProbeBody;
use bytes::Bytes;
use doorbell::time::{Clock as _, OsClock};
use doorbell_probes::{PortableReply, PortableRequest};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
pub use layer::{ProbeLayer, WithProbes};

use crate::health::Health;

impl Health {
    /// The reply to a probe; `None` if the path is not a probe path. For frameworks without an
    /// integration in this crate, and for tests. Needs the feature `tower`.
    pub fn reply<B>(&self, request: &Request<B>) -> Option<Response<Bytes>> {
        let routes = self.probe_routes();
        routes.find(request.uri().path())?;
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let asked = PortableRequest { method: request.method().as_str(), target };
        let fields =
            request.headers().iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        PortableReply::of(routes, asked, fields, OsClock.now(), OsClock.unix_secs()).and_then(into_response)
    }
}

/// `None` if the status or a field is invalid, which does not occur for health routes.
fn into_response(reply: PortableReply) -> Option<Response<Bytes>> {
    let mut response = Response::new(reply.body);
    *response.status_mut() = StatusCode::from_u16(reply.status).ok()?;
    for (name, value) in reply.fields {
        let name = HeaderName::try_from(name).ok()?;
        response.headers_mut().append(name, HeaderValue::try_from(value).ok()?);
    }
    Some(response)
}
