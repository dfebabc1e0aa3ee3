//! Ablations of doorbell's techniques: a small real one, and errors before a boot.

use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Variable that enables the tests. A boot needs a release build and a kernel package from the
/// network, as in `smoke`.
const ASKED_FOR: &str = "DOORBELL_RIG";

fn rig(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell-rig"));
    command.args(args).current_dir(Path::new(env!("CARGO_MANIFEST_DIR"))).output().expect("the rig starts")
}

fn is_asked_for(test: &str) -> bool {
    let asked = env::var_os(ASKED_FOR).is_some();
    if !asked {
        // `eprintln!` is not used, because the test runner captures its output when a test passes.
        let _unheard = writeln!(std::io::stderr(), "SKIP: {test} was not run; {ASKED_FOR}=1 enables it");
    }
    asked
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[test]
fn deferred_accept_saves_instructions_with_both_drivers() {
    if !is_asked_for("an ablation") {
        return;
    }
    let done =
        rig(&["ablate", "--only", "deferred accept", "--loads", "close/64", "--repeat", "1", "-o", "json"]);
    assert!(done.status.success(), "{}", said(&done));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let effects = report[0]["effects"].as_array().unwrap();
    assert_eq!(effects.len(), 4, "expected two drivers, each in the full set and alone: {report}");
    for effect in effects {
        assert_eq!(effect["failure"], Value::Null, "{effect}");
        assert!(effect["server_percent"].as_f64().unwrap() < -2.0, "{effect}");
    }
    assert!(report[0]["repeatability"][0]["server_percent"].as_f64().unwrap() < 5.0, "{report}");
}

#[test]
fn what_cannot_be_asked_is_refused_before_a_boot() {
    for (args, word) in [
        (&["ablate", "--only", "magic"][..], "doorbell-rig list"),
        (&["ablate", "--loads", "close"], "close/64"),
        (&["ablate", "--native", "--kernel", "6.1"], "--kernel"),
        (&["ablate", "--pairs", "3"], "--native"),
        (&["matrix", "--kernel", "4.4"], "5.10"),
    ] {
        let done = rig(args);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {}", said(&done));
        assert!(said(&done).contains(word), "{args:?}: {}", said(&done));
    }
}

#[test]
fn a_gate_without_figures_names_the_file() {
    let done =
        rig(&["gate", "--figures", "/no/such/file.json", "--doorbell", "/bin/true", "--load", "/bin/true"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(said(&done).contains("/no/such/file.json"), "{}", said(&done));
}
