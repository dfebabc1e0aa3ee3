//! doorbell behind load balancers of Google Cloud, also by network endpoint groups of GKE.
//!
//! Does not know about: anything of Google Cloud but its probes.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]
//! drain_delay = "12s"              # 2 × 5 s, and a little
//! drain_timeout = "15s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
//! http2 = true                     # for health checks by HTTP/2 and gRPC, on the same port
//!
//! [check.app]
//! type = "http"
//! url = "http://127.0.0.1:3000/healthz"
//!
//! [health.livez]
//! [health.readyz]
//! require = ["app"]
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
//! - Exactly **200** is well: any other code, also a redirect, is a failure. Where a response is compared, it is within the first 1024 bytes,
//!   which the bodies of doorbell keep to by default.
//! - Every 5 s from several probers at once, waits 5 s, 2 answers change its mind; `User-Agent: GoogleHC/1.0`. Let 35.191.0.0/16 and
//!   130.211.0.0/22 through the firewall.
//! - With `PROXY_V1` the line `PROXY UNKNOWN` comes first: add `proxy_protocol = "accept"` and these two networks as
//!   `trusted_proxies`.
//! - GKE and network endpoint groups: a pod that is being deleted leaves the group by itself, and a 503 from it only makes noise in the
//!   logs. `on_drain = { load_balancer = 200, default = 503 }` in `[health.readyz]` keeps the load balancer quiet.
