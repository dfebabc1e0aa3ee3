//! HTTPS with curl and openssl: versions, names, ALPN, resumption, and plain HTTP on the wrong
//! port.

use std::fs;
use std::process::{Command, Output, Stdio};

use doorbell_testkit::peers::{End, Reply, exchange};

use crate::pki::{ca, localhost};
use crate::support::{Doorbell, Scratch, on_both_engines, program, run};

on_both_engines! {
    each_version
    only_version_13
    the_name_chooses_the_certificate
    a_connection_is_kept
    a_session_is_resumed
    plain_http_gets_an_explanation
    security_is_only_promised_over_tls
}

const ROUTES: &str = "[route.health]\npath = \"/livez\"\nhealth = \"livez\"\n\
                      [route.hello]\npath = \"/hello\"\nreply = { body = \"hello\\n\" }\n\
                      [route.old]\npath = \"/old\"\nredirect = { host = \"new.test\" }\n";

/// A server with one TLS listener. `lines` extends its `[tls.web]`, which uses the certificate of
/// `localhost`.
fn serve(engine: &str, scratch: &Scratch, lines: &str) -> Doorbell {
    scratch.write("ca.crt", &ca().pem());
    let (cert, key) = localhost().write(scratch, "tls");
    let config = format!(
        "version = 1\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"off\"\n{lines}\n\
         [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n{ROUTES}"
    );
    Doorbell::start_with(engine, &config)
}

/// Runs curl, which trusts the CA and resolves `host` to this server. Returns `None` without curl.
fn curl(doorbell: &Doorbell, scratch: &Scratch, host: &str, args: &[&str]) -> Option<Output> {
    let port = doorbell.addr.port();
    let (resolve, ca_file) = (format!("{host}:{port}:127.0.0.1"), scratch.path("ca.crt"));
    let url = format!("https://{host}:{port}/hello");
    let fixed = ["-sS", "--cacert", ca_file.to_str().unwrap(), "--resolve", &resolve, &url];
    Some(run(&program("curl")?, &[&fixed[..], args].concat()))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn each_version(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "");
    for version in ["1.2", "1.3"] {
        let (least, most) = (format!("--tlsv{version}"), version);
        let args = ["-v", &least, "--tls-max", most, "-w", "|%{http_code} %{http_version}"];
        let Some(output) = curl(&doorbell, &scratch, "localhost", &args) else { return };
        let text = text(&output);
        assert!(text.contains("hello\n|200 1.1"), "{text}");
        assert!(text.contains(&format!("SSL connection using TLSv{version}")), "{text}");
        assert!(text.contains("ALPN: server accepted http/1.1"), "{text}");
    }
}

fn only_version_13(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "min_version = \"1.3\"");
    let Some(good) = curl(&doorbell, &scratch, "localhost", &["--tlsv1.3"]) else { return };
    assert!(good.status.success(), "{}", text(&good));
    let Some(old) = curl(&doorbell, &scratch, "localhost", &["--tls-max", "1.2"]) else { return };
    assert_eq!(old.status.code(), Some(35), "{}", text(&old));
    assert!(text(&old).contains("alert protocol version"), "{}", text(&old));
}

fn the_name_chooses_the_certificate(engine: &str) {
    let scratch = Scratch::new();
    scratch.write("ca.crt", &ca().pem());
    let (cert, key) = ca().server(&["one.test"]).write(&scratch, "one");
    let (other_cert, other_key) = ca().server(&["two.test", "*.two.test"]).write(&scratch, "two");
    for (unknown, code) in [("default", 60), ("refuse", 35)] {
        let config = format!(
            "version = 1\n[tls.web]\nhandshakes_per_ip = \"off\"\nunknown_server_name = {unknown:?}\n\
             certificates = [{{ cert = {cert:?}, key = {key:?} }}, {{ cert = {other_cert:?}, key = {other_key:?} }}]\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n{ROUTES}"
        );
        let doorbell = Doorbell::start_with(engine, &config);
        // curl verifies the name, so success means that the server sent the right certificate.
        for host in ["one.test", "two.test", "deep.two.test"] {
            let Some(output) = curl(&doorbell, &scratch, host, &[]) else { return };
            assert!(output.status.success(), "{host}: {}", text(&output));
        }
        // The client gets the first certificate, whose name differs (60), or an alert (35).
        let Some(output) = curl(&doorbell, &scratch, "three.test", &[]) else { return };
        assert_eq!(output.status.code(), Some(code), "{unknown}: {}", text(&output));
    }
}

fn a_connection_is_kept(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "");
    let url = format!("https://localhost:{}/livez", doorbell.addr.port());
    let args = [&url, "-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects} "];
    let Some(output) = curl(&doorbell, &scratch, "localhost", &args) else { return };
    assert_eq!(text(&output), "1 0 ");
}

fn a_session_is_resumed(engine: &str) {
    let Some(openssl) = program("openssl") else { return };
    for (lines, again) in [("", "Reused"), ("session_resumption = false", "New")] {
        let scratch = Scratch::new();
        let doorbell = serve(engine, &scratch, lines);
        for version in ["-tls1_2", "-tls1_3"] {
            let (session, addr) = (scratch.path("session"), doorbell.addr.to_string());
            let ca_file = scratch.path("ca.crt");
            let ask = |way: &str| {
                let mut command = Command::new(&openssl);
                command.args([
                    "s_client",
                    "-ign_eof",
                    "-connect",
                    &addr,
                    "-servername",
                    "localhost",
                    version,
                ]);
                command.arg("-CAfile").arg(&ca_file).arg(way).arg(&session);
                let request = scratch
                    .write("request", "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                let request = fs::File::open(request).unwrap();
                let output = command.stdin(Stdio::from(request)).output().unwrap();
                text(&output)
            };
            let first = ask("-sess_out");
            assert!(first.contains("\nNew, TLSv1.") && first.contains("hello\n"), "{version}: {first}");
            let second = if session.exists() { ask("-sess_in") } else { ask("-sess_out") };
            assert!(second.contains(&format!("\n{again}, TLSv1.")), "{version} {lines:?}: {second}");
            assert!(second.contains("hello\n"), "{version}: {second}");
            let _ = fs::remove_file(&session);
        }
    }
}

fn plain_http_gets_an_explanation(engine: &str) {
    let scratch = Scratch::new();
    let doorbell = serve(engine, &scratch, "");
    let got = exchange(doorbell.addr, b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let reply = Reply::parse(&got.bytes, false).unwrap();
    let body = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!((reply.status, got.end), (400, End::Fin), "{body}");
    assert!(body.contains("TLS") && body.contains("https://"), "{body}");
}

/// Replies of routes and guards, and the reply without a route, in both protocols.
fn security_is_only_promised_over_tls(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let ca_file = scratch.write("ca.crt", &ca().pem());
    fs::create_dir(scratch.path("files")).unwrap();
    scratch.write("files/there", "content");
    let routes = format!(
        "{ROUTES}[route.token]\npath = \"/token\"\nauth = \"a\"\nreply = {{}}\n\
         [route.limited]\npath = \"/limited\"\nlimit = \"once\"\nreply = {{}}\n\
         [route.files]\npath = \"/files/{{name}}\"\nfiles = {{ dir = {:?} }}\n",
        scratch.path("files")
    );
    let config = format!(
        "version = 1\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\nhsts = \"max-age=63072000; includeSubDomains\"\n\
         handshakes_per_ip = \"off\"\n[listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\nhttp2 = true\n\
         [listener.plain]\nbind = \"127.0.0.1:0\"\n[limit.once]\nrate = \"1/h\"\nburst = 1\n\
         [auth.a]\ntokens = {{ alice = \"0123456789abcdef0123456789abcdef\" }}\n{}\
         [route.own]\nlistener = \"web\"\npath = \"/own\"\nreply = {{}}\n\
         headers = {{ strict-transport-security = \"max-age=1\" }}\n",
        routes.replace("path = ", "listener = [\"web\", \"plain\"]\npath = ")
    );
    let doorbell = Doorbell::start_with(engine, &config);
    let over_tls = |version: &str, method: &str, path: &str| {
        let url = format!("https://localhost:{}{path}", doorbell.addr.port());
        let args = ["-sS", "--cacert", &ca_file, "-D", "-", "-o", "/dev/null", version, "-X", method, &url];
        text(&run(&curl, &args)).to_ascii_lowercase()
    };
    let in_plain = |method: &str, path: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let got = exchange(doorbell.addr_of(1), request.as_bytes()).unwrap();
        String::from_utf8_lossy(&got.bytes).to_ascii_lowercase()
    };
    // Both listeners share the limit.
    assert!(in_plain("GET", "/limited").starts_with("http/1.1 200 "));
    for (method, path, status) in [
        ("GET", "/hello", 200),
        ("GET", "/livez", 200),
        ("GET", "/old", 308),
        ("GET", "/missing", 404),
        ("DELETE", "/hello", 405),
        ("OPTIONS", "/hello", 204),
        ("GET", "/token", 401),
        ("GET", "/limited", 429),
        ("GET", "/files/there", 200),
        ("GET", "/files/missing", 404),
        ("GET", "/%00", 400),
        ("BREW", "/hello", 501),
    ] {
        for version in ["--http1.1", "--http2"] {
            let head = over_tls(version, method, path);
            let promise = "\nstrict-transport-security: max-age=63072000; includesubdomains\r\n";
            assert_eq!(head.matches(promise).count(), 1, "{version} {method} {path}: {head}");
            assert!(head.contains(&format!(" {status} ")), "{version} {method} {path}: {head}");
        }
        let head = in_plain(method, path);
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{method} {path}: {head}");
        assert!(!head.contains("strict-transport"), "{method} {path}: {head}");
    }
    for version in ["--http1.1", "--http2"] {
        let head = over_tls(version, "GET", "/own");
        assert_eq!(head.matches("strict-transport-security: ").count(), 1, "{version}: {head}");
        assert!(head.contains("strict-transport-security: max-age=1\r\n"), "{version}: {head}");
    }
}
