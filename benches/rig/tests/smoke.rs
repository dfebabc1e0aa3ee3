//! One real boot of a Debian kernel in QEMU: a row of each driver, reported as JSON.

use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Variable that enables the test. A boot needs a release build, a kernel package from the network,
/// and most of a minute. `.ci/release` enables it.
const ASKED_FOR: &str = "DOORBELL_RIG";

/// Programs that the rig needs besides cargo. It also needs a package list that apt has fetched.
const PROGRAMS: [&str; 4] = ["qemu-system-x86_64", "apt-get", "dpkg-deb", "chrt"];

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn apt_has(package: &str) -> bool {
    let policy = Command::new("apt-cache").args(["policy", package]).output();
    policy.is_ok_and(|done| {
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        text.contains("Candidate: ") && !text.contains("Candidate: (none)")
    })
}

/// Reports a skip. `eprintln!` is not used, because the test runner captures its output when a test
/// passes.
fn skip(why: &str) {
    let _unheard = writeln!(std::io::stderr(), "SKIP: the rig was not tested: {why}");
}

#[test]
fn a_boot_measures_both_drivers() {
    if env::var_os(ASKED_FOR).is_none() {
        return skip(&format!("{ASKED_FOR}=1 enables the test"));
    }
    let missing = PROGRAMS.into_iter().find(|program| !is_installed(program));
    assert_eq!(missing, None, "a program is not installed");
    for package in ["linux-image-6.12-cloud-amd64", "busybox-static"] {
        assert!(apt_has(package), "apt does not offer {package} here: `apt-get update` fetches the list");
    }
    let done = Command::new(env!("CARGO_BIN_EXE_doorbell-rig"))
        .args(["rows", "--repeat", "1", "-o", "json"])
        .args(["--only", "doorbell-uring/close/8,doorbell-epoll/keep/64"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(
        report["conditions"]["kernel"].as_str().is_some_and(|kernel| kernel.starts_with("6.12")),
        "{report}"
    );
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{report}");
    for row in rows {
        let server = row["figures"]["server"].as_f64().unwrap();
        let machine = row["figures"]["machine"].as_f64().unwrap();
        // An exchange over TCP costs thousands of instructions on each side, and less than a
        // million.
        assert!(server > 3_000.0 && machine > server + 3_000.0 && machine < 1_000_000.0, "{row}");
        assert_eq!(row["figures"]["failed"], 0, "{row}");
        assert_eq!(row["failure"], Value::Null, "{row}");
    }
}

#[test]
fn what_does_not_exist_is_refused_by_name() {
    let done = Command::new(env!("CARGO_BIN_EXE_doorbell-rig"))
        .args(["rows", "--only", "nothing/7"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("nothing/7") && said.contains("doorbell-rig list"), "{said}");
}
