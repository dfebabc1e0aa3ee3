//! The default configuration: health routes at all common paths.

use super::model::{Config, Grpc, Health, Listener, Route, links_to};
use super::resolve::default_grpc_route;
use doorbell_config::Link;

/// Liveness and startup paths of Kubernetes (`/livez`, `/healthz`), MicroProfile (`/health/live`),
/// Spring (`/actuator/health/liveness`) and linkerd (`/live`). Startup paths report `livez` too,
/// because a process that replies has started. No default path reports a single check, because
/// default routes show no details.
const LIVE_PATHS: [&str; 7] = [
    "/livez",
    "/healthz",
    "/health/live",
    "/live",
    "/actuator/health/liveness",
    "/startupz",
    "/health/started",
];

/// Readiness paths of Kubernetes, MicroProfile, linkerd and Spring, and `/`, the default of
/// HAProxy's `option httpchk` and of cloud load balancers.
const READY_PATHS: [&str; 5] = ["/readyz", "/health/ready", "/ready", "/actuator/health/readiness", "/"];

/// The configuration of an instance without a configuration file, apart from its admin listener.
#[must_use]
pub fn default_config() -> Config {
    let mut config = Config {
        listeners: vec![Listener::local()].into(),
        health: ["livez", "readyz"].map(Health::named).to_vec().into(),
        grpc: Grpc::of(1),
        ..Config::default()
    };
    config.routes = default_routes(&config.listeners, &config.health).into();
    let grpc = default_grpc_route(&config.listeners, &config.routes);
    config.routes.extend(grpc);
    config
}

/// Default health routes, on every HTTP listener.
pub(crate) fn default_routes(listeners: &[Listener], health: &[Health]) -> Vec<Route> {
    let http1 = |&n: &usize| listeners[n].is_http();
    let listeners = links_to(listeners, (0..listeners.len()).filter(http1));
    if listeners.is_empty() {
        return Vec::new();
    }
    let route = |name: &str, paths: &[&str]| {
        let position = health.iter().position(|known| known.name == name)?;
        let route = Route {
            name: name.into(),
            listeners: listeners.clone(),
            paths: paths.iter().map(|path| (*path).to_owned().into()).collect(),
            health: Some(Link { name: name.into(), position }.into()),
            ..Route::default()
        };
        Some(route.with_defaults())
    };
    [route("livez", &LIVE_PATHS), route("readyz", &READY_PATHS)].into_iter().flatten().collect()
}
