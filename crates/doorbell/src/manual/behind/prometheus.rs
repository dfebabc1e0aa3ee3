//! doorbell for Prometheus: asked by blackbox_exporter, in its place, and by its own metrics.
//!
//! Does not know about: anything of Prometheus but what it asks for.
//!
//! ```toml
//! version = 1
//!
//! [listener.probes]
//! bind = "[::]:8080"
//!
//! [admin]                          # /metrics
//! bind = "[::]:9130"
//! open = true                      # Prometheus is not on this machine
//!
//! [blackbox]                       # /probe
//! bind = "[::]:9115"
//! targets = ["10.0.0.0/8"]         # nothing else is connected to
//! modules = ["http_2xx", "tcp_connect"]
//! cache = "10s"                    # both Prometheus of a pair get one and the same result
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
//! modules:                         # blackbox.yml of an exporter that asks for /readyz
//!   http_2xx: { prober: http, timeout: 5s }
//! scrape_configs:                  # prometheus.yml, with doorbell in the place of the exporter
//!   - job_name: doors
//!     metrics_path: /probe
//!     params: { module: [http_2xx] }
//!     static_configs: [{ targets: ["http://10.0.0.7:8080/readyz"] }]
//!     relabel_configs:
//!       - { source_labels: [__address__], target_label: __param_target }
//!       - { source_labels: [__param_target], target_label: instance }
//!       - { target_label: __address__, replacement: "10.0.0.9:9115" }
//!   - job_name: doorbell
//!     static_configs: [{ targets: ["10.0.0.7:9130"] }]
//! ```
//!
//! - The exporter sends `User-Agent: Blackbox Exporter/..` and `Connection: close`, follows redirects, and takes 2xx for well:
//!   `probe_success 1`, `probe_http_status_code 200`, `probe_http_content_length 3`, which is `up` and the end of the line. Down is
//!   `probe_success 0` with `probe_http_status_code 503`.
//! - `tcp_connect` says that a port is open, and it is also while `readyz` is down. Where only that can be asked, a `[tcp_gate.NAME]` is a port that
//!   is open while the endpoint is up.
//! - It is no load balancer: during a drain it is told `on_drain.default`.
//! - `/probe` has the names of the exporter's metrics, and so has `doorbell probe TARGET -o prom`. A target of which one address is not in `targets` gets 403, also behind a redirect: whoever
//!   reaches the port could otherwise have anything asked, the cloud's metadata among it. As long as Prometheus waits, it waits: `timeout`
//!   is the most.
//! - A scrape is a moment, and a check that fails between two of them is not seen. `doorbell_endpoint_up` and `doorbell_check_up` come from checks with
//!   an interval, `rise` and `fall`; `deploy/prometheus` has alerts, with tests. `doorbell_prober_last_seen_timestamp_seconds` says when somebody asked last,
//!   and `doorbell_prober_interval_seconds` how far apart he did: three of those without a probe are the alert `DoorbellNobodyAsks`.
