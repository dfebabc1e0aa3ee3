//! Failed starts: one clear message, and an exit code that depends on the cause.

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use doorbell_testkit::skip;

use crate::support::{Doorbell, Scratch, binary, on_both_engines, program, skipped};

on_both_engines! {
    port_in_use
}

/// Exit codes of `doorbell serve`.
mod code {
    pub(super) const USAGE: i32 = 2;
    pub(super) const DRIVER_UNAVAILABLE: i32 = 69;
    pub(super) const TOO_FEW_DESCRIPTORS: i32 = 71;
    pub(super) const ADDRESS_IN_USE: i32 = 73;
    pub(super) const NO_PERMISSION: i32 = 77;
    pub(super) const CONFIG: i32 = 78;
}

fn serve(args: &[&str]) -> Output {
    Command::new(binary()).arg("serve").args(args).stdin(Stdio::null()).output().unwrap()
}

/// Asserts the exit code, and that exactly one line names the cause.
fn assert_failure(output: &Output, expected: i32, word: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(expected), "{stderr}");
    let count = stderr.lines().filter(|line| line.to_lowercase().contains(&word.to_lowercase())).count();
    assert!(count >= 1, "no line names {word:?}: {stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"), "{stderr}");
}

fn port_in_use(engine: &str) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let output = serve(&["--listen", &addr, "--driver", engine]);
    assert_failure(&output, code::ADDRESS_IN_USE, "in use");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr).matches(&addr).count(),
        1,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn missing_permission() {
    if !rustix::process::geteuid().is_root() {
        let output = serve(&["--listen", "127.0.0.1:81"]);
        assert_failure(&output, code::NO_PERMISSION, "permission");
        return;
    }
    let start = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    if start.trim().parse::<u16>().is_ok_and(|start| start <= 81) {
        return skipped("every port is unprivileged here; the permission test was not run");
    }
    let Some(setpriv) = program("setpriv") else { return };
    // The binary is copied to a folder where an unprivileged user may execute it.
    let scratch = Scratch::new();
    let copy = scratch.path("doorbell");
    std::fs::copy(binary(), &copy).unwrap();
    let mut command = Command::new(setpriv);
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]);
    let output =
        command.arg(&copy).args(["serve", "--listen", "127.0.0.1:81"]).stdin(Stdio::null()).output().unwrap();
    assert_failure(&output, code::NO_PERMISSION, "permission");
}

#[test]
fn too_few_descriptors() {
    let Some(prlimit) = program("prlimit") else { return };
    let output = Command::new(prlimit)
        .arg("--nofile=12:12")
        .arg(binary())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_failure(&output, code::TOO_FEW_DESCRIPTORS, "descriptor");
}

#[test]
fn broken_configuration() {
    let scratch = Scratch::new();
    let table = [
        ("not-toml.toml", "version = 1\n[listener.web\n", "listener"),
        (
            "unknown-key.toml",
            "version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\nbacklogg = 5\n",
            "backlogg",
        ),
        (
            "unknown-listener.toml",
            "version = 1\n[route.a]\nlistener = \"nowhere\"\npath = \"/\"\nhealth = \"livez\"\n",
            "nowhere",
        ),
        ("bad-addr.toml", "version = 1\n[listener.web]\nbind = \"localhost\"\n", "bind"),
    ];
    for (name, text, word) in table {
        let file = scratch.write(name, text);
        let output = serve(&["-c", &file]);
        assert_failure(&output, code::CONFIG, word);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(&format!("{name}:")), "the file is not named: {stderr}");
        let checked = Command::new(binary()).args(["validate", "-c", &file]).output().unwrap();
        assert_eq!(checked.status.code(), Some(1), "{name}");
    }
    let missing = scratch.path("missing.toml");
    assert_failure(&serve(&["-c", missing.to_str().unwrap()]), code::CONFIG, "missing.toml");
}

#[test]
fn every_problem_is_reported_at_once() {
    let scratch = Scratch::new();
    let text = "version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\nbindd = 1\n[route.a]\nlistener = \"web\"\npath = \"x\"\nhealth = \"livez\"\n[route.b]\nlistener = \"nowhere\"\npath = \"/\"\nhealth = \"livez\"\n";
    let file = scratch.write("three.toml", text);
    let output = serve(&["-c", &file]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code::CONFIG));
    for place in [":4:1", ":7:8", ":10:12"] {
        assert!(stderr.contains(&format!("three.toml{place}")), "{place} is missing: {stderr}");
    }
}

#[test]
fn usage() {
    assert_failure(&serve(&["--no-such-flag"]), code::USAGE, "no-such-flag");
    assert_failure(&serve(&["--driver", "kqueue"]), code::USAGE, "kqueue");
}

#[test]
fn a_forced_driver_that_is_missing() {
    if skip::absent().is_none() {
        // `denied.rs` repeats this without io_uring.
        return;
    }
    assert_failure(
        &serve(&["--driver", "io_uring", "--listen", "127.0.0.1:0"]),
        code::DRIVER_UNAVAILABLE,
        "io_uring",
    );
}

#[test]
fn healthcheck_distinguishes_alive_from_dead() {
    let doorbell = Doorbell::start("epoll");
    let url = doorbell.addr.to_string();
    let alive = Command::new(binary()).args(["healthcheck", "--address", &url]).output().unwrap();
    assert_eq!(alive.status.code(), Some(0), "{}", String::from_utf8_lossy(&alive.stderr));
    drop(doorbell);
    let dead = Command::new(binary()).args(["healthcheck", "--address", &url]).output().unwrap();
    assert_eq!(dead.status.code(), Some(1), "{}", String::from_utf8_lossy(&dead.stderr));
}
