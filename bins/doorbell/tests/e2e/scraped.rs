//! `/metrics` with real parsers: promtool for the older text format, and the strict parser of the
//! Python client for OpenMetrics.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::admin::{KUBELET, ask, start};
use crate::support::{on_auto, program, python};

on_auto! { prometheus_reads_it }

fn prometheus_reads_it(engine: &str) {
    let (doorbell, admin) = start(engine);
    for request in [KUBELET, "OPTIONS /readyz HTTP/1.0\r\n\r\n"] {
        ask(doorbell.addr, request);
    }
    let scrape = |accept: &str| {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\nAccept: {accept}\r\n\r\n"
        );
        let reply = ask(admin, &request);
        (reply.field("content-type").unwrap().to_owned(), String::from_utf8(reply.body).unwrap())
    };
    let (content_type, newer) =
        scrape("application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
    assert_eq!(content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(newer.ends_with("# EOF\n") && newer.contains("# TYPE doorbell_probes counter\n"), "{newer}");
    let (content_type, older) = scrape("text/plain");
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(!older.contains("# EOF") && older.contains("# TYPE doorbell_probes_total counter\n"), "{older}");
    let families = |text: &str| text.matches("\n# TYPE ").count() + usize::from(text.starts_with("# TYPE "));
    if let Some(promtool) = program("promtool") {
        let said = output_of(Command::new(promtool).args(["check", "metrics"]), &older);
        assert!(said.trim().is_empty(), "{said}\n{older}");
    }
    if let Some(python) = python("prometheus_client.openmetrics.parser") {
        let said = output_of(Command::new(&python).args(["-c", OPENMETRICS]), &newer);
        assert_eq!(said.trim(), format!("{} families", families(&newer)), "{newer}");
        // The parser must reject invalid text.
        let broken = newer.replacen("doorbell_probes_total{", "doorbell_probes{", 1);
        assert_ne!(broken, newer);
        assert!(!run_with_input(Command::new(&python).args(["-c", OPENMETRICS]), &broken).status.success());
    }
}

/// A program that runs the strict parser of the Python client and prints the number of families.
const OPENMETRICS: &str = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(sys.stdin.read()))
assert any(sample.name == 'doorbell_probes_total' for family in families for sample in family.samples)
print(len(families), 'families')";

/// Runs a program with this input and returns its output.
fn run_with_input(command: &mut Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs a program with this input, and returns its output. The program must succeed.
fn output_of(command: &mut Command, input: &str) -> String {
    let output = run_with_input(command, input);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}\n{input}");
    said
}
