//! The probes as routes of axum.

use std::future::ready;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any};

use crate::health::Health;

impl Health {
    /// The probes as routes, for `Router::merge`: each endpoint at `/NAME`, and each of its checks
    /// at `/NAME/CHECK`.
    ///
    /// The replies are the same as those of [`Probes`](crate::Probes). `merge` panics if a path
    /// exists in both. Needs the feature `axum`.
    pub fn routes<S: Clone + Send + Sync + 'static>(&self) -> Router<S> {
        let mut router = Router::new();
        for path in self.paths() {
            // `{*check}` does not match an empty name, which gets a 404.
            for path in [path, &format!("{path}/"), &format!("{path}/{{*check}}")] {
                router = router.route(path, self.route());
            }
        }
        router
    }

    fn route<S: Clone + Send + Sync + 'static>(&self) -> MethodRouter<S> {
        let health = self.clone();
        any(move |request: Request| ready(serve(&health, &request)))
    }
}

fn serve(health: &Health, request: &Request) -> Response {
    match health.reply(request) {
        Some(reply) => reply.map(Body::from),
        // Only in a nested router, which strips the prefix of the path.
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
