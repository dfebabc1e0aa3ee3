//! What doorbell answers when nobody said what: probes, under all their usual names.
//!
//! Does not know about: files.

use super::model::{
    Action, Compute, Config, Control, Grpc, Guard, Health, HealthRoute, Http2, Lifecycle, Listener, Log,
    Maintenance, Route, Runtime, Systemd, Tuning,
};
use crate::http::Method;
use doorbell_checks::options::EgressOptions;

/// Kubernetes (`/livez`, `/healthz`), MicroProfile (`/health/live`), Spring (`/actuator/health/liveness`), linkerd
/// (`/live`). A process that answers has also started. Single checks are for those who see details, so no default path is about one.
const LIVE_PATHS: [&str; 7] = [
    "/livez",
    "/healthz",
    "/health/live",
    "/live",
    "/actuator/health/liveness",
    "/startupz",
    "/health/started",
];

/// The same for readiness, and `/`, which HAProxy's `option httpchk` and cloud load balancers ask for by default.
const READY_PATHS: [&str; 5] = ["/readyz", "/health/ready", "/ready", "/actuator/health/readiness", "/"];

/// What runs without a file.
#[must_use]
pub fn default_config() -> Config {
    let listeners = vec![Listener::local()];
    let health = ["livez", "readyz"].map(Health::named);
    Config {
        runtime: Runtime::default(),
        log: Log::default(),
        lifecycle: Lifecycle::default(),
        control: Control::default(),
        systemd: Systemd::default(),
        maintenance: Maintenance::default(),
        admin: None,
        tuning: Tuning::default(),
        compute: Compute::default(),
        tls: Vec::new(),
        auth: Vec::new(),
        limits: Vec::new(),
        http2: Http2::default(),
        grpc: Grpc::of(1),
        routes: default_routes(&listeners, &health),
        listeners,
        agents: Vec::new(),
        tcp_gates: Vec::new(),
        blackbox: None,
        allow_exec: false,
        egress: EgressOptions::default(),
        checks: Vec::new(),
        health: health.into(),
    }
}

/// Probes on every HTTP listener.
pub(crate) fn default_routes(listeners: &[Listener], health: &[Health]) -> Vec<Route> {
    let http1 = |&n: &usize| listeners[n].is_http();
    let listeners: Vec<usize> = (0..listeners.len()).filter(http1).collect();
    if listeners.is_empty() {
        return Vec::new();
    }
    let route = |name: &str, paths: &[&str]| {
        let position = health.iter().position(|known| known.name == name)?;
        Some(Route {
            name: name.into(),
            listeners: listeners.clone(),
            hosts: Vec::new(),
            paths: paths.iter().map(ToString::to_string).collect(),
            methods: vec![Method::Get, Method::Head, Method::Options],
            headers: Vec::new(),
            guard: Guard::default(),
            action: Action::Health(HealthRoute::of(position)),
        })
    };
    [route("livez", &LIVE_PATHS), route("readyz", &READY_PATHS)].into_iter().flatten().collect()
}
