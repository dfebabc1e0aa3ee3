//! doorbell under Docker: HEALTHCHECK and stopping.
//!
//! Does not know about: anything of Docker but its health checks.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]                      # Docker kills 10 s after TERM, unless --stop-timeout says otherwise
//! drain_delay = "2s"
//! drain_timeout = "6s"
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
//! ```text
//! HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/doorbell", "healthcheck"]
//! ENTRYPOINT ["/doorbell", "run", "-c", "/etc/doorbell/doorbell.toml", "--", "/app"]
//! ```
//!
//! - 0 is healthy and 1 is not; 2 is reserved, and `doorbell healthcheck` never ends with it. Defaults: every 30 s, 30 s to answer, 3
//!   failures. The first 4096 bytes of output are kept.
//! - The program needs no shell and no `curl`, so images made of one file can have a health check.
//! - `run` is process 1 of the container: it hands signals on, takes in orphans, and ends with the code of the application.
//! - Docker's default seccomp profile denies io_uring: doorbell says so once and serves on epoll. `deploy/seccomp/doorbell.json` allows it.
