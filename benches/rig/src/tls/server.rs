//! The servers that are compared, each with one worker, one route, the same certificate, nothing logged.
//!
//! Does not know about: cores, clients.

use std::path::PathBuf;

use super::identity::Identity;
use crate::image::OurPrograms;
use crate::image::servers::Place;
use crate::plan::PATH;
use crate::tool;

/// One server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsServer {
    /// The name in tables and in `--only`.
    pub(crate) name: &'static str,
    program: Program,
    /// Arguments before the path of the configuration.
    args: &'static [&'static str],
    config: fn(&Place<'_>) -> String,
}

#[derive(Clone, Copy, Debug)]
enum Program {
    Doorbell,
    Installed { program: &'static str, package: &'static str },
}

/// A server with the certificate it presents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set<'a> {
    pub(super) server: &'a TlsServer,
    pub(super) identity: &'a Identity,
}

const DOORBELL: TlsServer = TlsServer {
    name: "doorbell-uring",
    program: Program::Doorbell,
    args: &["serve", "--config"],
    config: |place| doorbell("io_uring", place),
};

/// Each driver.
pub(super) const OURS: &[TlsServer] =
    &[DOORBELL, TlsServer { name: "doorbell-epoll", config: |place| doorbell("epoll", place), ..DOORBELL }];

/// Both of Debian, with its OpenSSL.
pub(super) const PEERS: &[TlsServer] = &[
    TlsServer {
        name: "nginx",
        program: Program::Installed { program: "nginx", package: "nginx-light" },
        args: &["-c"],
        config: nginx,
    },
    TlsServer {
        name: "haproxy",
        program: Program::Installed { program: "haproxy", package: "haproxy" },
        args: &["-db", "-f"],
        config: haproxy,
    },
];

impl Set<'_> {
    /// In messages.
    pub(crate) const fn name(&self) -> &'static str {
        self.server.name
    }

    /// The file that is started.
    pub(crate) fn program(&self, ours: &OurPrograms) -> Result<PathBuf, String> {
        match self.server.program {
            Program::Doorbell => Ok(ours.doorbell.clone()),
            Program::Installed { program, package } => {
                tool::find(program, package).map_err(|error| error.to_string())
            }
        }
    }

    /// The files it needs at `place`: paths and contents. HAProxy wants certificate and key in one.
    pub(crate) fn files_at(&self, place: &Place<'_>) -> Vec<(String, String)> {
        let Identity { certificate, key, .. } = self.identity;
        let file = |name: &str, text: String| (format!("{}/{name}", place.folder), text);
        vec![
            (config_path(place), (self.server.config)(place)),
            file("cert.pem", certificate.clone()),
            file("key.pem", key.clone()),
            file("both.pem", format!("{certificate}{key}")),
        ]
    }

    /// How `program` is started at `place`.
    pub(crate) fn argv(&self, program: &str, place: &Place<'_>) -> Vec<String> {
        let words = [program].into_iter().chain(self.server.args.iter().copied());
        words.map(str::to_owned).chain([config_path(place)]).collect()
    }
}

fn config_path(place: &Place<'_>) -> String {
    format!("{}/server.conf", place.folder)
}

/// All clients have one address, so the limit of handshakes by address is off.
fn doorbell(engine: &str, place: &Place<'_>) -> String {
    let Place { folder, port, .. } = place;
    format!(
        r#"version = 1

[runtime]
engine = "{engine}"
workers = 1

[log]
level = "error"

[tls.main]
cert = "{folder}/cert.pem"
key = "{folder}/key.pem"
handshakes_per_ip = "off"

[listener.main]
bind = "127.0.0.1:{port}"
tls = "main"
keep_alive = {{ idle = "24h", max_requests = 1000000000 }}

[route.main]
listener = "main"
path = "{PATH}"
reply = {{ status = 200, content_type = "text/plain", body = "ok\n" }}
"#
    )
}

fn nginx(place: &Place<'_>) -> String {
    let Place { folder, port, is_root, .. } = place;
    let user = if *is_root { "user root root;\n" } else { "" };
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
  ssl_certificate {folder}/cert.pem;
  ssl_certificate_key {folder}/key.pem;
  ssl_protocols TLSv1.2 TLSv1.3;
  ssl_session_tickets on;
  server {{
    listen 127.0.0.1:{port} ssl backlog=4096 deferred;
    location = {PATH} {{ default_type text/plain; return 200 "ok\n"; }}
  }}
}}
"#
    )
}

fn haproxy(place: &Place<'_>) -> String {
    let Place { folder, port, .. } = place;
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
  bind 127.0.0.1:{port} backlog 4096 defer-accept ssl crt {folder}/both.pem ssl-min-ver TLSv1.2 alpn http/1.1
  http-request return status 200 content-type text/plain string "ok\n" if {{ path {PATH} }}
  http-request return status 404
"#
    )
}
