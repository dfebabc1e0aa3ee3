//! doorbell for services registered in Consul.
//!
//! Does not know about: anything of Consul but its checks.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]
//! drain_delay = "12s"              # one interval, and a little
//! drain_timeout = "10s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
//!
//! [check.app]
//! type = "http"
//! url = "http://127.0.0.1:3000/healthz"
//!
//! [health.consul]
//! require = ["app"]
//! status = { degraded = 429 }      # its warning; other probers take 429 for a failure, so this endpoint is Consul's own
//!
//! [route.consul]
//! listener = "probes"
//! path = "/consul"
//! health = "consul"
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
//! ```text
//! check = { http = "http://127.0.0.1:8080/consul", interval = "10s", timeout = "1s", success_before_passing = 1 }
//! ```
//!
//! - 2xx is passing, **429 is warning**, anything else critical. The first 4 KiB of the body are kept and shown.
//! - Maintenance in Consul is apart from checks; `doorbell maint` says 503 to everybody who asks.
//! - A TTL check of doorbell is the same the other way round: the application pushes, and silence is a failure.
