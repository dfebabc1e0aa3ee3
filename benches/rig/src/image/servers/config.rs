//! The configuration of each server that has one: one worker, one route, nothing logged, the same reply.
//!
//! Does not know about: how a server is started.

use super::Place;
use crate::plan::{PATH, TOKEN};

/// The body of every reply, as the configurations write it.
const BODY: &str = "ok\\n";
/// The file h2o serves.
pub(super) const BODY_FILE: &str = "livez.txt";

/// Kept connections may idle for a day, so that those beside a load outlive all of its row; the cap per address is the default.
pub(super) fn doorbell(engine: &str, deferred: bool, workers: u16, place: &Place<'_>) -> String {
    let port = place.port;
    let conns_max = place.conns_max.map(|conns| format!("max_connections = {conns}\n")).unwrap_or_default();
    format!(
        r#"version = 1

[runtime]
engine = "{engine}"
workers = {workers}
{conns_max}
[log]
level = "warn"

[listener.main]
bind = "127.0.0.1:{port}"
keep_alive = {{ idle = "24h", max_requests = 1000000000 }}
tcp = {{ defer_accept = {deferred} }}

[route.main]
listener = "main"
path = "{PATH}"
reply = {{ status = 200, content_type = "text/plain", body = "{BODY}" }}
"#
    )
}

/// As [`doorbell`], behind a token and a limit that is never reached; what they cost is the difference.
pub(super) fn doorbell_guarded(engine: &str, place: &Place<'_>) -> String {
    let open = doorbell(engine, true, 1, place);
    format!(
        r#"{open}auth = "main"
limit = "main"

[auth.main]
tokens = {{ rig = "{TOKEN}" }}

[limit.main]
key = "ip"
rate = "1000000/s"
headers = false
"#
    )
}

/// As [`doorbell`] with the answer of a health endpoint in the place of the fixed one.
pub(super) fn doorbell_health(engine: &str, place: &Place<'_>) -> String {
    let health = with_answer(&doorbell(engine, true, 1, place), r#"health = "readyz""#);
    format!(
        r#"{health}
[health.readyz]
require = ["app"]

[check.app]
type = "ttl"
ttl = "24h"
initial = "up"
"#
    )
}

/// The same bytes from memory; what it costs to know the state and to count the prober is the difference. Forty bytes of fields alone would
/// be more than that.
pub(super) fn doorbell_same(engine: &str, place: &Place<'_>) -> String {
    let reply = r#"reply = { content_type = "text/plain; charset=utf-8", body = "up\n" }
headers = { Cache-Control = "no-store" }"#;
    with_answer(&doorbell(engine, true, 1, place), reply)
}

fn with_answer(config: &str, answer: &str) -> String {
    let fixed = format!(r#"reply = {{ status = 200, content_type = "text/plain", body = "{BODY}" }}"#);
    assert!(config.contains(&fixed), "there is a reply to replace");
    config.replace(&fixed, answer)
}

pub(super) fn nginx(deferred: bool, place: &Place<'_>) -> String {
    let Place { folder, port, is_root, .. } = place;
    let user = if *is_root { "user root root;\n" } else { "" };
    let option = if deferred { " deferred" } else { "" };
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
  server {{
    listen 127.0.0.1:{port} backlog=4096{option};
    location = {PATH} {{ default_type text/plain; return 200 "{BODY}"; }}
  }}
}}
"#
    )
}

pub(super) fn haproxy(deferred: bool, place: &Place<'_>) -> String {
    let port = place.port;
    let option = if deferred { " defer-accept" } else { "" };
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
  bind 127.0.0.1:{port} backlog 4096{option}
  http-request return status 200 content-type text/plain string "{BODY}" if {{ path {PATH} }}
  http-request return status 404
"#
    )
}

/// It has no constant reply without a scripting language, so it serves a file; it keeps the file open between requests.
pub(super) fn h2o(place: &Place<'_>) -> String {
    let Place { folder, port, is_root, .. } = place;
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
