//! h2spec, the conformance suite for HTTP/2, in strict mode: over TLS and with prior knowledge.

use std::path::Path;

use crate::http2::config;
use crate::pki::localhost;
use crate::support::{Doorbell, Scratch, on_auto, program, run};

on_auto! {
    over_tls
    with_prior_knowledge
}

/// Runs all cases of h2spec.
fn h2spec(h2spec: &Path, doorbell: &Doorbell, args: &[&str]) {
    let port = doorbell.addr.port().to_string();
    let fixed = ["-h", "127.0.0.1", "-p", &port, "-P", "/hello", "--strict", "-o", "5"];
    let output = run(h2spec, &[&fixed[..], args].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failures = text.split_once("Failures:").map_or("", |(_, failures)| failures);
    assert!(failures.is_empty(), "{failures}");
    assert!(output.status.success(), "{text}");
    assert_eq!(text.lines().last(), Some("146 tests, 146 passed, 0 skipped, 0 failed"));
}

fn over_tls(engine: &str) {
    let Some(program) = program("h2spec") else { return };
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let tls = format!("[tls.a]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"off\"\n");
    let doorbell = Doorbell::start_with(engine, &config("tls = \"a\"", &tls));
    h2spec(&program, &doorbell, &["-t", "-k"]);
}

fn with_prior_knowledge(engine: &str) {
    let Some(program) = program("h2spec") else { return };
    h2spec(&program, &Doorbell::start_with(engine, &config("", "")), &[]);
}
