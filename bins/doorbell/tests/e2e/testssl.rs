//! testssl.sh must find no relevant weakness.
//!
//! Runs only with `DOORBELL_FULL=1`, because it takes minutes.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::wait_until;
use doorbell_testkit::skip;
use serde_json::Value;

use crate::pki::ca;
use crate::support::{Doorbell, Process, Scratch, is_long_version, program};

/// Time limit. A run takes about a minute on an idle machine with two cores.
const PATIENCE: Duration = Duration::from_secs(600);

/// Findings that this test causes itself, with the reason.
const NOT_OURS: [(&str, &str); 3] = [
    ("cert_revocation", "the test CA has neither a CRL nor an OCSP responder"),
    ("engine_problem", "the openssl of testssl.sh may lack engines"),
    // A race in testssl.sh, which also affects `openssl s_server`; `tls.rs` tests resumption.
    ("sessionresumption_ticket", "its client may disconnect before the TLS 1.3 ticket arrives"),
];

/// Header fields that a site sets itself. Without them testssl.sh reports findings.
const HEADERS: &str = "headers = { Content-Security-Policy = \"default-src 'none'\", X-Content-Type-Options = \"nosniff\", X-Frame-Options = \"DENY\" }";

#[test]
fn nothing_relevant_is_found() {
    if !is_long_version("nothing_relevant_is_found") {
        return;
    }
    // The name of the program in Debian, and its usual name.
    let Some(testssl) =
        ["testssl", "testssl.sh"].iter().find_map(|name| installed(name)).or_else(|| program("testssl"))
    else {
        return;
    };
    let engines: &[&str] = if skip::io_uring() { &["io_uring", "epoll"] } else { &["epoll"] };
    for engine in engines {
        look_at(&testssl, engine);
    }
}

fn installed(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').map(|folder| std::path::Path::new(folder).join(name)).find(|path| path.is_file())
}

fn look_at(testssl: &std::path::Path, engine: &str) {
    let scratch = Scratch::new();
    let ca_file = scratch.write("ca.pem", &ca().pem());
    let (cert, key) = ca().server(&["localhost"]).write(&scratch, "ecdsa");
    let (rsa_cert, rsa_key) =
        ca().server_with(&["localhost"], &rcgen::PKCS_RSA_SHA256).write(&scratch, "rsa");
    let doorbell = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[tls.web]\nhandshakes_per_ip = \"off\"\nhsts = \"max-age=63072000\"\n\
             certificates = [{{ cert = {cert:?}, key = {key:?} }}, {{ cert = {rsa_cert:?}, key = {rsa_key:?} }}]\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n\
             [route.home]\npath = \"/\"\nreply = {{ body = \"hello\\n\" }}\n{HEADERS}\n"
        ),
    );
    let report = scratch.path("report.json");
    let mut command = Command::new(testssl);
    command.args(["--quiet", "--warnings", "batch", "--color", "0", "--nodns", "none", "--ip", "127.0.0.1"]);
    command.args(["--connect-timeout", "10", "--openssl-timeout", "10", "--add-ca", &ca_file]);
    command.arg("--jsonfile").arg(&report).arg(format!("localhost:{}", doorbell.addr.port()));
    let start = Instant::now();
    let mut process = Process::spawn(&mut command);
    assert!(wait_until(PATIENCE, || process.has_ended()).is_some(), "{}", process.log());
    let findings: Vec<Value> = serde_json::from_str(&fs::read_to_string(&report).unwrap())
        .unwrap_or_else(|error| panic!("{error}: {}", process.log()));
    let field = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let weighty: Vec<&Value> = findings
        .iter()
        .filter(|finding| !matches!(field(finding, "severity").as_str(), "OK" | "INFO" | "LOW" | "DEBUG"))
        .filter(|finding| !NOT_OURS.iter().any(|(id, _)| field(finding, "id").starts_with(id)))
        .collect();
    eprintln!("{engine}: {} findings in {:?}, {} relevant", findings.len(), start.elapsed(), weighty.len());
    assert!(weighty.is_empty(), "{weighty:#?}\n{}", process.log());
    // testssl.sh must have tested both versions, both certificates and a header field.
    for (id, word) in [
        ("TLS1_2", "offered"),
        ("TLS1_3", "offered"),
        ("HSTS_time", "730 days"),
        ("heartbleed", "not vulnerable"),
    ] {
        let found = findings
            .iter()
            .any(|finding| field(finding, "id").starts_with(id) && field(finding, "finding").contains(word));
        assert!(found, "{id} {word}: {findings:#?}");
    }
    for kind in ["RSA", "EC"] {
        let is_kind = |finding: &&Value| {
            field(finding, "id").starts_with("cert_keySize") && field(finding, "finding").starts_with(kind)
        };
        assert!(findings.iter().any(|finding| is_kind(&finding)), "{kind}: {findings:#?}");
    }
}
