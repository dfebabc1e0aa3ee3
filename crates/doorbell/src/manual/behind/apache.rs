//! doorbell behind Apache's mod_proxy_hcheck.
//!
//! Does not know about: anything of Apache but its health checks.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]
//! drain_delay = "12s"              # hcfails × hcinterval = 2 × 5 s, and a little
//! drain_timeout = "15s"
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
//!
//! [route.hello]                    # what Apache passes on to doorbell
//! listener = "probes"
//! path = "/hello"
//! reply = { body = "hello\n" }
//! ```
//!
//! ```text
//! ProxyHCExpr ready {%{REQUEST_STATUS} =~ /^200/}
//! <Proxy balancer://back>
//!     BalancerMember http://10.0.0.7:8080 hcmethod=GET hcuri=/readyz hcexpr=ready hcinterval=5 hcpasses=1 hcfails=2
//! </Proxy>
//! ProxyPass / balancer://back/
//! ```
//!
//! - It sends `GET /readyz HTTP/1.0` with a `Host` and nothing else, each time on a new connection. `OPTIONS` and `HEAD` are answered the same way.
//!   No `User-Agent` says who it is: during a drain it is told `on_drain.default`, so that is not to be 200.
//! - Without `hcmethod` there is no check at all. Without `hcexpr` 200 to 399 are well, a redirect among them. Every 30 s, one answer changes its mind.
//! - `hcuri` is appended to the address of the member: there is no other port to ask. So the member is doorbell itself, with redirects and small
//!   replies, or a server that passes `/readyz` on to it. `hcmethod=TCP` asks whether that same port is open, which says nothing.
//! - A member that is out shows the flag `C` in the balancer-manager. When all are out clients get 503: Apache does not fail open.
//! - `mod_watchdog` must be loaded, where it is not built in.
