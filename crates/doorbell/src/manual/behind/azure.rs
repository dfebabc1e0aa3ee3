//! doorbell behind an Azure Load Balancer or Application Gateway.
//!
//! Does not know about: anything of Azure but its probes.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]
//! drain_delay = "10s"              # one answer is enough to be taken out; the interval is 5 s or more
//! drain_timeout = "15s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
//! keep_alive = { idle = "30s" }    # longer than the interval of the probe
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
//! Health probe: protocol HTTP, path `/readyz`, port 8080.
//!
//! - Any status but **200**, and also a connection that ends by **reset**, marks the instance as down at once, whatever the threshold is.
//!   doorbell never resets a connection whose probe it served: it reads what is left and closes in order.
//! - Probes come from 168.63.129.16, which the firewall must let through, with `User-Agent: Load Balancer Agent`.
//! - When all instances are down, existing TCP connections go on (Standard) or end (Basic). Do not pass a probe on to another instance:
//!   both are judged by one then. The checks of doorbell are not probes passed on: it answers from what it knows.
//! - Application Gateway takes 200 to 399, asks every 30 s, waits 30 s, and 3 failures change its mind.
