//! The configuration files of the servers. Apart from variations of doorbell, all have one worker,
//! one route, no log, and the same reply.

use super::ServerEnvironment;
use crate::plan::PATH;

/// The body of the replies of nginx and HAProxy, with an escaped line break as in their
/// configurations.
const BODY: &str = "ok\\n";
/// The file served by h2o.
pub(super) const BODY_FILE: &str = "livez.txt";

/// The fixed reply of a route of doorbell.
const REPLY: &str = r#"reply = { status = 200, content_type = "text/plain", body = "ok\n" }"#;

/// A fixed reply with the bytes of a health endpoint's reply. The difference between a health route
/// and a route with this reply is the cost of determining the state and counting the prober. The
/// difference from `REPLY` would mostly be the cost of forty more bytes of header fields.
pub(super) const SAME: &str = r#"reply = { content_type = "text/plain; charset=utf-8", body = "up\n" }
headers = { Cache-Control = "no-store" }"#;

/// A fixed reply after a token and a limit that is never reached.
pub(super) const GUARDED: &str = r#"reply = { status = 200, content_type = "text/plain", body = "ok\n" }
auth = "main"
limit = "main"

[auth.main]
tokens = { rig = "6e1f0f0a9d3c4b7c8f5e2d1a0b9c8d7e" }

[limit.main]
key = "ip"
rate = "1000000/s"
headers = false"#;

/// The state of a health endpoint.
pub(super) const HEALTH: &str = r#"health = "readyz"

[health.readyz]
require = ["app"]

[check.app]
type = "ttl"
ttl = "24h"
initial = "up""#;

pub(super) const URING: Doorbell = Doorbell { driver: "io_uring", deferred: true, workers: 1, reply: REPLY };
pub(super) const EPOLL: Doorbell = Doorbell { driver: "epoll", ..URING };

/// The configuration of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Config {
    Doorbell(Doorbell),
    H2o,
    /// Whether accept is deferred.
    Haproxy(bool),
    /// Whether accept is deferred.
    Nginx(bool),
}

/// The options that differ between the variants of doorbell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doorbell {
    pub(super) driver: &'static str,
    /// Whether accept is deferred.
    pub(super) deferred: bool,
    pub(super) workers: u16,
    /// The last lines of the route's table, and the tables that they name.
    pub(super) reply: &'static str,
}

impl Config {
    pub(super) fn text(self, place: &ServerEnvironment<'_>) -> String {
        match self {
            Self::Doorbell(one) => doorbell(one, place),
            Self::H2o => h2o(place),
            Self::Haproxy(deferred) => haproxy(deferred, place),
            Self::Nginx(deferred) => nginx(deferred, place),
        }
    }
}

/// Configuration of doorbell. Kept connections may be idle for a day, so that idle connections
/// outlive the load. The maximum number of connections per address keeps its default. With TLS the
/// limit of handshakes per address is off, because all clients have one address.
fn doorbell(one: Doorbell, place: &ServerEnvironment<'_>) -> String {
    let Doorbell { driver, deferred, workers, reply } = one;
    let ServerEnvironment { folder, port, has_tls, .. } = place;
    let conns_max = place.conns_max.map(|conns| format!("max_connections = {conns}\n")).unwrap_or_default();
    let (identity, tls) = if *has_tls {
        let files = format!("cert = \"{folder}/cert.pem\"\nkey = \"{folder}/key.pem\"");
        (format!("\n[tls.main]\n{files}\nhandshakes_per_ip = \"off\"\n"), "tls = \"main\"\n")
    } else {
        (String::new(), "")
    };
    format!(
        r#"version = 1

[runtime]
driver = "{driver}"
workers = {workers}
{conns_max}
[log]
level = "warn"
{identity}
[listener.main]
bind = "127.0.0.1:{port}"
{tls}keep_alive = {{ idle = "24h", max_requests = 1000000000 }}
tcp = {{ defer_accept = {deferred} }}

[route.main]
listener = "main"
path = "{PATH}"
{reply}
"#
    )
}

fn nginx(deferred: bool, place: &ServerEnvironment<'_>) -> String {
    let ServerEnvironment { folder, port, is_root, has_tls, .. } = place;
    let user = if *is_root { "user root root;\n" } else { "" };
    let option = if deferred { " deferred" } else { "" };
    let (identity, tls) = if *has_tls {
        let files =
            format!("  ssl_certificate {folder}/cert.pem;\n  ssl_certificate_key {folder}/key.pem;\n");
        (files + "  ssl_protocols TLSv1.2 TLSv1.3;\n  ssl_session_tickets on;\n", " ssl")
    } else {
        (String::new(), "")
    };
    format!(
        r#"daemon off;
{user}worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
{identity}  server {{
    listen 127.0.0.1:{port}{tls} backlog=4096{option};
    location = {PATH} {{ default_type text/plain; return 200 "{BODY}"; }}
  }}
}}
"#
    )
}

fn haproxy(deferred: bool, place: &ServerEnvironment<'_>) -> String {
    let ServerEnvironment { folder, port, has_tls, .. } = place;
    let option = if deferred { " defer-accept" } else { "" };
    let tls = if *has_tls {
        format!(" ssl crt {folder}/both.pem ssl-min-ver TLSv1.2 alpn http/1.1")
    } else {
        String::new()
    };
    format!(
        r#"global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout client 30s
  timeout http-request 5s
  timeout http-keep-alive 30s
frontend main
  bind 127.0.0.1:{port} backlog 4096{option}{tls}
  http-request return status 200 content-type text/plain string "{BODY}" if {{ path {PATH} }}
  http-request return status 404
"#
    )
}

/// Configuration of h2o. Without a scripting language it has no constant reply, so it serves a
/// file, which it keeps open between requests.
fn h2o(place: &ServerEnvironment<'_>) -> String {
    let ServerEnvironment { folder, port, is_root, .. } = place;
    let user = if *is_root { "user: root\n" } else { "" };
    format!(
        r"{user}num-threads: 1
max-connections: 16384
listen: {{ host: 127.0.0.1, port: {port} }}
file.etag: OFF
hosts:
  default:
    paths:
      {PATH}:
        file.file: {folder}/{BODY_FILE}
"
    )
}
