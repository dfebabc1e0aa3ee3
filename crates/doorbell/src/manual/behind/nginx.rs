//! doorbell behind nginx: as what it passes requests to, and as what tells NGINX Plus about a server.
//!
//! Does not know about: anything of nginx but how it treats the servers of an `upstream`.
//!
//! ```toml
//! version = 1
//!
//! [lifecycle]
//! drain_delay = "8s"               # fails × interval of `health_check`, and a little
//! drain_timeout = "15s"
//!
//! [listener.probes]
//! bind = "[::]:8080"
//! keep_alive = { idle = "75s" }    # longer than keepalive_timeout in `upstream`, 60 s: nginx is to close first
//! forwarded = "x-forwarded-for"
//! trusted_proxies = ["10.0.0.0/8"]
//! limits = { connections_per_ip = 8192 }   # all of them are nginx's
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
//! [route.to_https]
//! listener = "probes"
//! hosts = ["example.com"]
//! redirect = { scheme = "https" }
//! ```
//!
//! ```text
//! upstream back {
//!     zone back 64k;
//!     server 10.0.0.7:8080;
//!     server 10.0.0.8:8080;
//!     keepalive 16;
//! }
//! location / {
//!     proxy_pass http://back;
//!     proxy_http_version 1.1;
//!     proxy_set_header Connection "";
//!     proxy_set_header Host $host;
//!     proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
//!     health_check uri=/readyz interval=2s fails=3;    # NGINX Plus; with port=8080 where the server of the upstream is another program
//! }
//! ```
//!
//! - nginx itself **asks nobody**. It counts what fails of its clients' requests (`max_fails`, 1, within `fail_timeout`, 10 s), and a 503 is no failure unless
//!   `proxy_next_upstream` has `http_503`. So nobody hears what `/readyz` says during a drain: what helps is that doorbell goes on serving for
//!   `drain_delay`, ends kept connections by `Connection: close`, and refuses new ones after that, which nginx passes to the next server by itself.
//! - `health_check` is of NGINX Plus: every 5 s, `/`, one failure, one success, 200 to 399. It needs the `zone`. In `stream` it connects only: give it
//!   the port of a `[tcp_gate.NAME]`.
//!   It has no `User-Agent` that is known, so during a drain it is told `on_drain.default`, which `on_drain = { default = 200, load_balancer = 503 }`
//!   would make 200.
//! - Without `proxy_set_header Host` the host is the name of the upstream, `back`: routes with `hosts` do not have it, and clients get 421.
//! - Exporters and agents that read `stub_status` read the same text at `/-/stub_status` of `[admin]`. `Reading` and `Writing` are 0 there.
//! - Connections are kept only with `proxy_http_version 1.1` and an empty `Connection` (before nginx 1.29.7, where that became the default);
//!   otherwise each request is a connection, which is served just as well.
