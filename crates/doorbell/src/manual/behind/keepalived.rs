//! doorbell for keepalived: an address that moves (VRRP), and real servers of LVS.
//!
//! Does not know about: anything of keepalived but its checks.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]
//! drain_delay = "8s"               # fall × interval of the script, or delay_loop, the retry and its delay, and a little
//! drain_timeout = "15s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
//!
//! [tcp_gate.lvs]                   # for TCP_CHECK: open while `readyz` is up
//! bind = "[::]:9132"
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
//! global_defs {
//!     script_user root
//!     enable_script_security
//! }
//! vrrp_script ready {
//!     script "/usr/lib/nagios/plugins/check_http -I 127.0.0.1 -p 8080 -u /readyz"
//!     interval 1
//!     fall 2
//!     rise 2
//! }
//! vrrp_instance web {
//!     # ..
//!     track_script {
//!         ready
//!     }
//! }
//! real_server 10.0.0.7 3000 {
//!     delay_loop 3
//!     HTTP_GET {
//!         url {
//!             path /readyz
//!             status_code 200
//!         }
//!         connect_port 8080
//!         connect_timeout 2
//!         delay_before_retry 1
//!     }
//! }
//! ```
//!
//! - `vrrp_script` goes by the exit code, 0 or not. Without a weight the instance is in the state FAULT from the `fall`-th failure on, and gives the
//!   address away; with `weight -20` it only counts for less. A dependency that all nodes share takes the address from all of them
//!   without a weight, and then nobody has it: list it as `degrading`.
//! - `doorbell healthcheck` is such a script, too: 0 is well and 1 is not. It needs no plugin.
//! - With `enable_script_security` a script that root runs is left out when others than root can write to any part of its path, and only the log says
//!   so. Without `script_user` it is the user `keepalived_script` who runs it, where there is one: it must be able to.
//! - `HTTP_GET` sends `GET /readyz HTTP/1.0` with `User-Agent: KeepAliveClient` and a `Host`, and takes 200 to 299 for well unless `status_code` says
//!   otherwise. `delay_loop` is 60 s if nobody writes it. A server that was well is asked once more, 3 s later, before it is taken out.
//! - `TCP_CHECK` connects and closes. On `connect_port 9132` that is refused while `readyz` is not up, drains and maintenance among it: the gate is
//!   for those who can ask nothing else.
