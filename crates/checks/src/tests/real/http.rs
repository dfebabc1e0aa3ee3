//! nginx, for HTTP/2 and for requests behind a PROXY header.

use super::*;
use options::{HttpVersion, ProxyHeader, RequestVersion};

#[test]
fn nginx_serves() {
    let Some(nginx) = program("nginx") else { return };
    let scratch = Scratch::new("nginx");
    let [certificate, key] = scratch.certificate();
    let [h2, h2s, proxied] = [(); 3].map(|()| free_port());
    let dir = scratch.0.display();
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths = paths.map(|path| format!("  {path}_temp_path {dir}/{path};\n")).concat();
    let config = format!(
        "daemon off;\nworker_processes 1;\npid {dir}/pid;\nerror_log {dir}/log;\n{user}events {{}}\n\
         http {{\n  access_log off;\n{paths}  server {{\n    listen 127.0.0.1:{h2} http2;\n    listen 127.0.0.1:{h2s} ssl http2;\n\
         \x20   listen 127.0.0.1:{proxied} proxy_protocol;\n    ssl_certificate {};\n    ssl_certificate_key {};\n\
         \x20   location / {{ return 200 \"from $proxy_protocol_addr\"; }}\n  }}\n}}\n",
        certificate.display(),
        key.display(),
    );
    let config = scratch.write("nginx.conf", &config);
    let server = Server::start(Command::new(nginx).arg("-p").arg(&scratch.0).arg("-c").arg(config));

    let http = |scheme: &str, port: u16| HttpCheck::new(url(format!("{scheme}://localhost:{port}/")));
    let expect = HttpExpect { http_version: Some(HttpVersion::Http2), ..HttpExpect::default() };
    let over_http2 =
        |check| HttpCheck { http_version: RequestVersion::Http2, expect: expect.clone(), ..check };
    await_success(over_http2(http("http", h2)));
    let tls = over_http2(http("https", h2s));
    succeeds(HttpCheck { tls: trusted(&certificate), ..tls.clone() });
    fails(tls, "TLS: invalid peer certificate: ");
    let from = |header, addr: &str| {
        let body_contains = Some(format!("from {addr}"));
        let expect = HttpExpect { body_contains, ..HttpExpect::default() };
        HttpCheck { proxy_protocol: Some(header), expect, ..http("http", proxied) }
    };
    succeeds(from(ProxyHeader::V1, "127.0.0.1"));
    succeeds(from(ProxyHeader::V2, "127.0.0.1"));
    succeeds(from(ProxyHeader::Local, ""));
    fails(http("http", proxied), "the connection ended before the response was complete");
    let check = |port| HttpCheck::new(url(format!("http://127.0.0.1:{port}/")));
    ends(server, &[(over_http2(check(h2)).into(), h2), (from(ProxyHeader::V1, "").into(), proxied)]);
}
