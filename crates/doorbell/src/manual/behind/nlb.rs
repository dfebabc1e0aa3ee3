//! doorbell behind an AWS Network Load Balancer.
//!
//! Does not know about: anything of AWS but its probes.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]                      # 3 × 10 s of the controller for Kubernetes would need 30 s
//! drain_delay = "10s"
//! drain_timeout = "15s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
//! proxy_protocol = "accept"        # with PROXY v2 on the target group, probes carry the header too
//! trusted_proxies = ["10.0.0.0/8"] # the subnets of the load balancer
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
//! Target group: health check protocol HTTP, path `/readyz`, port 8080.
//!
//! - HTTP checks take 200 to 399 for well by default. With TCP it only connects and closes; doorbell logs nothing of that, where a
//!   TLS server would complain each time. It counts a connection that ends with a FIN. One that ends with a reset before its first byte is over
//!   before the kernel shows it to anybody, unless `[listener.probes.tcp]` has `defer_accept = false`; it is a success to the prober all the same.
//! - When a target becomes unhealthy existing connections are **reset**, so a short failure costs clients. `fall = 3` in
//!   `[check.app]` is the default here for that reason.
//! - Many nodes ask in parallel, each at the interval. When all targets of a zone are unhealthy its address leaves DNS.
