//! The router of a small server, for the benches of route look-ups.

use doorbell_http::Method;
use doorbell_http::router::{MethodSet, Route, Router};

/// Builds a router with GET routes for any host. The value of a route is the index of its path in
/// `paths`.
pub(crate) fn router(paths: [&str; 8]) -> Router<u32> {
    let mut builder = Router::builder();
    for (value, path) in (0..).zip(paths) {
        builder.add(Route {
            name: path.to_owned(),
            hosts: Vec::new(),
            path: path.to_owned(),
            methods: MethodSet::of(&[Method::Get]),
            value,
        });
    }
    builder.build().expect("the routes do not conflict")
}
