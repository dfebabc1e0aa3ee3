//! Real turns over TLS on this machine, reported as JSON: doorbell against nginx, with the
//! negotiated cipher suites.

use std::env;
use std::io::Write as _;
use std::process::Command;

use serde_json::Value;

/// Variable that enables the tests. Turns need a release build, nginx and two cores.
/// `.ci/release` enables them.
const ASKED_FOR: &str = "DOORBELL_RIG";

#[test]
fn a_contest_gives_cpu_time_and_suites_of_both_sides() {
    if env::var_os(ASKED_FOR).is_none() {
        // `eprintln!` is not used, because the test runner captures its output when a test passes.
        let _unheard =
            writeln!(std::io::stderr(), "SKIP: a TLS comparison was not run; {ASKED_FOR}=1 enables it");
        return;
    }
    let only = "doorbell-epoll/nginx/full/usual,doorbell-epoll/nginx/resumed/aes128,doorbell-epoll/nginx/keep-16/usual";
    let done = Command::new(env!("CARGO_BIN_EXE_doorbell-rig"))
        .args(["tls", "--pairs", "2", "--requests", "200", "-o", "json", "--only", only])
        .output()
        .expect("the rig starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).expect("a report is JSON");
    let contests = report["contests"].as_array().expect("contests are a list");
    assert_eq!(contests.len(), 3, "{report}");
    for contest in contests {
        let is_usual = contest["names"][2].as_str().expect("a load has a name").contains("/usual/");
        for side in ["ours", "peer"] {
            let turns = contest[side].as_array().expect("turns are a list");
            assert_eq!(turns.len(), 2, "{contest}");
            for turn in turns {
                // Decrypting a record and replying takes at least 50 ns, and no turn takes a
                // hundred milliseconds per request.
                let cpu_ns = turn["cpu_ns"].as_f64().expect("CPU time is a number");
                assert!(cpu_ns > 50.0 && cpu_ns < 1e8, "{turn}");
                let suite = turn["note"].as_str().expect("a suite has a name");
                let is_offered = is_usual || suite.contains("AES_128");
                assert!(suite.ends_with(", x25519") && is_offered, "{turn}");
            }
        }
        let ratio = &contest["ratios"]["cpu_ns"];
        let [low, median, high] =
            ["low", "median", "high"].map(|name| ratio[name].as_f64().expect("a ratio has a spread"));
        assert!(low <= median && median <= high, "{ratio}");
    }
}
