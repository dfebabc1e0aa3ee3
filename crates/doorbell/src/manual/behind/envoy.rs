//! doorbell beside endpoints of an Envoy cluster with active health checks.
//!
//! Does not know about: anything of Envoy but its health checks.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]
//! drain_delay = "10s"
//! drain_timeout = "15s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
//! http2 = true                     # for grpc_health_check
//! keep_alive = { idle = "75s" }    # it keeps its connection: longer than its interval
//!
//! [check.app]
//! type = "http"
//! url = "http://127.0.0.1:3000/healthz"
//!
//! [check.cache]
//! type = "tcp"
//! address = "127.0.0.1:6379"
//!
//! [health.livez]
//! [health.readyz]
//! require = ["app"]
//! degrading = ["cache"]
//! envoy_degraded = true            # degraded: 200 with `x-envoy-degraded: true`
//!
//! [route.livez]
//! listener = "probes"
//! path = ["/livez", "/healthz"]
//! health = "livez"
//!
//! [route.readyz]
//! listener = "probes"
//! path = "/readyz"
//! health = "readyz"
//! ```
//!
//! - Only **200** is well unless `expected_statuses` says otherwise, and any other code makes the host unhealthy **at once**: thresholds count
//!   for time-outs and broken connections only, unless `retriable_statuses` names the code.
//! - A host that is **degraded** answers 200 with `x-envoy-degraded: true`, where `envoy_degraded = true` says so in `[health.readyz]`: Envoy sends
//!   to it only what the healthy ones cannot take. Without the key a degraded host is like any other; with `status = { degraded = 503 }` it is
//!   out, and the field is not sent.
//! - At the start one good answer is enough. Later `healthy_threshold` counts.
//! - The connection is kept (`reuse_connection`, on by default), so an idle time below the interval costs a connection each time, and may
//!   cost a failed probe. Without traffic the interval is `no_traffic_interval`, 60 s.
//! - Every Envoy of a mesh asks every host. Answers are bytes that lie ready: a thousand of them cost one check.
