//! doorbell behind health checks of Amazon Route 53.
//!
//! Does not know about: anything of AWS but its probes.
//!
//! ```toml
//! version = 1
//!
//! [listener.probes]
//! bind = "[::]:8080"               # they come from the open network, and only to public addresses
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
//! Health check: protocol HTTP, path `/readyz`, port 8080, interval 10 s, failure threshold 3.
//!
//! - Checkers in several regions ask, each for itself every 10 or 30 s (30): several requests a second, then a pause. An answer costs no check.
//!   When more than 18 % of them find it well, it is; a new health check counts as well until there are results.
//! - Nobody is sent away at once: names are kept for the TTL of the record. For a drain that no client notices `drain_delay` is 3 × 10 s and the TTL:
//!   95 s with one of 60 s. `doorbell check` warns of more than 30 s in all, because that is when Kubernetes kills; give it as much
//!   (`terminationGracePeriodSeconds`, `TimeoutStopSec=`).
//! - 4 s to connect, then 2 s to the status. **200 to 399** are well, and a redirect is not followed: a listener that sends everybody to
//!   HTTPS is well for ever. Ask for `/readyz` on a listener that answers it.
//! - Where a string is searched for it must come within another 2 s and within the first 5120 bytes. The body is `up`,
//!   `degraded`, `down`..: a search for `up` takes a degraded service out, and the status alone does not. Not with `details` on the route:
//!   below `degraded` each check that is well says `up`, too.
//! - `User-Agent: Amazon-Route53-Health-Check-Service (ref ..)`; during a drain it is told what load balancers are told. Let the networks that
//!   AWS publishes as `ROUTE53_HEALTHCHECKS` through the firewall.
//! - Certificates are not looked at. Its documentation names TLS up to 1.2: leave `min_version` at "1.2" on a listener that it asks.
//! - When all records of a group are unhealthy Route 53 answers as if all were well: it **fails open**.
