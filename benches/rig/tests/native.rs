//! Real turns on this machine, reported as JSON: doorbell against the floor, and doorbell against
//! itself without a technique.

use std::env;
use std::io::Write as _;
use std::process::Command;

use serde_json::Value;

/// Variable that enables the tests. Turns need a release build, the floor's crates from a registry,
/// and two cores. `.ci/release` enables them.
const ASKED_FOR: &str = "DOORBELL_RIG";

/// Returns the report for these arguments, or `None` if the tests are not enabled.
fn report(test: &str, args: &[&str]) -> Option<Value> {
    if env::var_os(ASKED_FOR).is_none() {
        // `eprintln!` is not used, because the test runner captures its output when a test passes.
        let _unheard = writeln!(std::io::stderr(), "SKIP: {test} was not run; {ASKED_FOR}=1 enables it");
        return None;
    }
    let common = ["--pairs", "2", "--requests", "300", "-o", "json"];
    let done = Command::new(env!("CARGO_BIN_EXE_doorbell-rig"))
        .args(args)
        .args(common)
        .output()
        .expect("the rig starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(serde_json::from_slice(&done.stdout).expect("a report is JSON"))
}

/// Asserts that there are two turns of each side, and a ratio with its spread.
fn has_turns(measured: &Value) {
    for side in ["ours", "peer"] {
        let turns = measured[side].as_array().expect("turns are a list");
        assert_eq!(turns.len(), 2, "{measured}");
        for turn in turns {
            // Four system calls and a TCP connection take at least a microsecond, and less than ten
            // milliseconds.
            let cpu_ns = turn["cpu_ns"].as_f64().expect("CPU time is a number");
            assert!(cpu_ns > 1e3 && cpu_ns < 1e7, "{turn}");
        }
    }
    let ratio = &measured["ratios"]["cpu_ns"];
    let [low, median, high] =
        ["low", "median", "high"].map(|name| ratio[name].as_f64().expect("a ratio has a spread"));
    assert!(low <= median && median <= high, "{ratio}");
}

#[test]
fn a_contest_gives_cpu_time_of_both_sides() {
    let Some(report) = report("a contest", &["native", "--only", "doorbell-epoll/bare/close"]) else {
        return;
    };
    let contests = report["contests"].as_array().unwrap();
    assert_eq!(contests.len(), 1, "{report}");
    has_turns(&contests[0]);
}

#[test]
fn a_technique_gives_cpu_time_with_it_and_without() {
    let args =
        ["ablate", "--native", "--driver", "epoll", "--only", "reply with the FIN", "--loads", "close/64"];
    let Some(report) = report("a native ablation", &args) else { return };
    let effects = report["contests"].as_array().unwrap();
    assert_eq!(effects.len(), 1, "{report}");
    assert_eq!(effects[0]["failure"], Value::Null, "{report}");
    has_turns(&effects[0]);
}
