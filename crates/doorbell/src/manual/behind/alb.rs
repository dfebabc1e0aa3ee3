//! doorbell behind an AWS Application Load Balancer.
//!
//! Does not know about: anything of AWS but its probes.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]                      # together less than the grace of whoever ends the task
//! drain_delay = "15s"              # interval × unhealthy threshold of the target group, and a little
//! drain_timeout = "10s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
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
//! Target group: protocol HTTP, path `/readyz`, port 8080, success codes `200`.
//!
//! - It asks every 5 to 300 s (30) and waits 2 to 120 s (5); 2 to 10 answers change its mind (5 to healthy, 2 to unhealthy). The
//!   controller for Kubernetes has other defaults: 15 s, 5 s, 2 and 2.
//! - `User-Agent: ELB-HealthChecker/2.0`, `Host` is the address and port of the target, each time a new connection with
//!   `Connection: close`. Redirects are not followed; certificates are not looked at.
//! - After registration one good answer is enough. When all targets are unhealthy it sends to all of them: it **fails open**, so a 503
//!   alone does not keep clients away.
//! - gRPC: it calls `/AWS.ALB/healthcheck` and by default takes code 12, UNIMPLEMENTED, for well, which every server says of a
//!   method that it does not have. doorbell says 12 there while the service without a name serves (`overall` in `[grpc]`, by default
//!   `readyz`), and 14, UNAVAILABLE, while it does not, in a drain and in maintenance. `alb = "always"` in `[grpc]` says 12 as long as there is an
//!   answer at all. The path `/grpc.health.v1.Health/Check` with code 0 cannot replace it: 0 is also the code of NOT_SERVING.
//! - Several nodes ask, so the rate is a multiple of the interval. An answer costs no check: results are kept.
