//! Commands that do not serve: output and exit codes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "cli/alone.rs"]
mod alone;
#[path = "cli/errors.rs"]
mod errors;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/meant.rs"]
mod meant;
#[path = "cli/pairs.rs"]
mod pairs;
#[path = "cli/process_1.rs"]
mod process_1;
#[path = "cli/schema.rs"]
mod schema;
#[path = "cli/serving.rs"]
mod serving;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/variables.rs"]
mod variables;

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Maximum time to wait for an expected event, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program. Signals that are ignored where the tests run, as by nohup(1), have their default
/// action in it: a handler of this process ends with `exec`.
fn program() -> &'static str {
    static DEFAULT_SIGNALS: LazyLock<()> = LazyLock::new(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            if ignored >> (signal - 1) & 1 == 1 {
                signal_hook::flag::register(signal, Arc::default()).unwrap();
            }
        }
    });
    LazyLock::force(&DEFAULT_SIGNALS);
    env!("CARGO_BIN_EXE_doorbell")
}

fn doorbell(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).env_clear().env("DOMAIN", "example.org").stdin(Stdio::null());
    command
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/proxy-config/tests/config")
        .join(name)
        .to_str()
        .unwrap()
        .to_owned()
}

/// Writes a file into the scratch directory of this test.
fn scratch(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn run(args: &[&str]) -> (i32, String, String) {
    finish(doorbell(args).output().unwrap())
}

fn finish(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn help_teaches_by_example() {
    for (args, expected) in [
        (
            &["--help"][..],
            ["doorbell redirect --host example.com", "73  another process", "--listen", "validate"],
        ),
        (&["-h"], ["Examples:", "Exit codes:", "--driver", "config"]),
        (&["validate", "--help"], ["-o json", "Exit codes: 0 valid", "--strict", "--config"]),
        (&["healthcheck", "--help"], ["HEALTHCHECK CMD", "--timeout", "readyz", "127.0.0.1:8080"]),
        (&["redirect", "--help"], ["--host www.example.com", "421", "--status", "308"]),
        (&["config", "dump", "--help"], ["--with-defaults", "toml", "json", "Examples:"]),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        for part in expected {
            assert!(out.contains(part), "{args:?} does not mention {part}:\n{out}");
        }
    }
    let (code, out, _) = run(&["--version"]);
    assert_eq!((code, out.as_str()), (0, concat!("doorbell ", env!("CARGO_PKG_VERSION"), "\n")));
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    for args in [
        &["--listen", "8080"][..],
        &["--listen", "localhost:80"],
        &["--driver", "kqueue"],
        &["--workers", "0"],
        &["serv"],
        &["--listen", ":1", "validate"],
        &["--allow-exec", "validate"],
        &["-t", "validate"],
        &["redirect"],
        &["redirect", "--host", "a b"],
        &["redirect", "--host", "a.com", "--status", "200"],
        &["validate", "-o", "xml"],
        &["maint", "--for", "400d"],
        &["drain", "--for", "367d"],
        &["--nope"],
    ] {
        let (code, out, err) = run(args);
        assert_eq!(code, 2, "{args:?}: {out}{err}");
        assert!(!err.is_empty());
    }
}

#[test]
fn validate_reports_valid_invalid_and_warned_files() {
    let (good, bad, warned) =
        (fixture("good_minimal.toml"), fixture("routes.toml"), fixture("warnings.toml"));
    let expected_out = format!("{good}: the configuration is valid\n");
    for args in [&["validate", "-c", &good][..], &["-t", "-c", &good], &["-c", &good, "validate"]] {
        assert_eq!(run(args), (0, expected_out.clone(), String::new()), "{args:?}");
    }
    let (code, out, err) = run(&["validate", "-c", &bad]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("routes.toml:43:8") && err.contains("not valid, 27 errors"), "{err}");
    let (code, _, err) = run(&["validate", "-c", &warned]);
    assert!(code == 0 && err.contains("valid, with 5 warnings"), "{code} {err}");
    assert_eq!(run(&["validate", "--strict", "-c", &warned]).0, 1);
    assert_eq!(run(&["validate"]).0, 0);
    assert_eq!(run(&["validate", "-c", "/nonexistent/file"]).0, 1);
}

#[test]
fn validate_warns_of_programs_that_serve_refuses() {
    let file = fixture("good_reference.toml");
    let warned = run(&["validate", "-c", &file]).2;
    let message =
        "check `backup` runs a program: without `--allow-exec`, `doorbell serve` exits with code 78";
    assert_eq!(warned.matches("exec-not-allowed").count(), 1, "{warned}");
    assert!(warned.contains(message) && warned.contains("doorbell serve --allow-exec"), "{warned}");
    for args in [&["validate", "--allow-exec", "-c", &file][..], &["-t", "--allow-exec", "-c", &file]] {
        let (_, out, err) = run(args);
        assert!(!err.contains("exec-not-allowed"), "{args:?}: {out}{err}");
    }
}

#[test]
fn validate_reports_as_json() {
    let (code, out, err) = run(&["validate", "-c", &fixture("redirects.toml"), "-o", "json"]);
    assert_eq!((code, err.as_str()), (1, ""));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["valid"], false);
    let codes: Vec<_> =
        report["problems"].as_array().unwrap().iter().map(|problem| &problem["code"]).collect();
    // The text for people lists the same problems.
    let text = std::fs::read_to_string(fixture("redirects.expected")).unwrap();
    let is_first = |line: &&str| line.starts_with("error[") || line.starts_with("warning[");
    assert_eq!(codes.len(), text.lines().filter(is_first).count());
    assert_eq!(codes[0], "redirect-without-hosts");
    assert_eq!(report["problems"][0]["at"]["line"], 8);
}

#[test]
fn validate_reads_standard_input_and_the_environment() {
    let mut child = doorbell(&["validate", "-c", "-"])
        .env("HOST", "127.0.0.1:80")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"version = 1\n[listener.a]\nbind = \"${HOST}\"\n").unwrap();
    let (code, out, err) = finish(child.wait_with_output().unwrap());
    assert_eq!((code, out.as_str(), err.as_str()), (0, "<stdin>: the configuration is valid\n", ""));

    let output = doorbell(&["validate"]).env("DOORBELL_CONFIG", fixture("syntax.toml")).output().unwrap();
    assert_eq!(finish(output).0, 1);
}

#[test]
fn color_only_where_it_is_wanted() {
    let bad = fixture("syntax.toml");
    let colored = |args: &[&str]| run(&[&["validate", "-c", &bad], args].concat()).2.contains('\u{1b}');
    assert!(!colored(&[]));
    assert!(!colored(&["--color", "never"]));
    assert!(colored(&["--color", "always"]));
}

#[test]
fn dumps_read_back() {
    for with_defaults in [&[][..], &["--with-defaults"]] {
        let file = fixture("good_full.toml");
        let (code, out, _) = run(&[&["config", "dump", "-q", "-c", &file], with_defaults].concat());
        assert_eq!(code, 0);
        let path = scratch(&format!("dump{}.toml", with_defaults.len()), &out);
        // Without the variable, the long drain of that file is still a warning.
        assert_eq!(run(&["validate", "-c", path.to_str().unwrap()]).0, 0);
    }
    let (code, out, _) = run(&["config", "dump", "-o", "json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &value["route"]["livez"]["health"]), (0, &serde_json::json!("livez")));
    assert!(value.get("runtime").is_none());
}

#[test]
fn an_unusable_configuration_ends_with_78() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let binary = scratch("binary.toml", "");
    std::fs::write(&binary, [b'a', 0xff, 0xfe]).unwrap();
    let large = scratch("large.toml", &"#".repeat((4 << 20) + 1));
    for (file, expected) in [
        (fixture("routes.toml").as_str(), "27 errors; nothing was started"),
        ("/nonexistent/doorbell.toml", "no such file: /nonexistent/doorbell.toml"),
        (folder, "is a directory"),
        (binary.to_str().unwrap(), "is not valid UTF-8 at byte 1"),
        (large.to_str().unwrap(), "is larger than 4 MiB"),
    ] {
        let (code, out, err) = run(&["-c", file]);
        assert_eq!((code, out.as_str()), (78, ""), "{file}");
        assert!(err.lines().last().unwrap().contains(expected), "{err}");
    }
}

#[test]
fn a_healthcheck_without_a_server_ends_with_1() {
    let closed = doorbell_testkit::peers::free_addr().to_string();
    for args in [
        &["healthcheck", "--address", &closed][..],
        &["healthcheck", "--address", "nonsense"],
        &["healthcheck", "--timeout", "0s"],
        &["healthcheck", "--nope"],
        &["healthcheck", "--endpoint", "a b", "--address", &closed],
        &["healthcheck", "--address", "unix:/nonexistent"],
    ] {
        let (code, _, err) = run(args);
        assert!(code == 1 && !err.is_empty(), "{args:?} {code} {err}");
    }
}

#[test]
fn a_healthcheck_gives_up_in_time() {
    // The kernel completes the connection, but the server never replies.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (code, _, err) = run(&["healthcheck", "--timeout", "200ms", "--address", &address]);
    assert_eq!((code, err), (1, format!("doorbell: {address}/readyz: no response within 200ms\n")));
}

/// The grace period of a pod limits the duration of a drain.
#[test]
fn the_grace_period_of_a_pod_is_checked() {
    let file = fixture("good_minimal.toml");
    let check = |grace: &str| {
        let mut command = Command::new(program());
        let command = command.args(["validate", "-c", &file]).env("TERMINATION_GRACE_PERIOD", grace);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for grace in ["", "25", "30", "1m"] {
        assert_eq!(check(grace).0, 0, "{grace}");
    }
    let (code, err) = check("24");
    assert!(
        code == 0 && err.contains("drain-too-long") && err.contains("TERMINATION_GRACE_PERIOD is 24s"),
        "{code} {err}"
    );
    let (code, err) = check("soon");
    assert!(code == 0 && err.contains("bad-grace"), "{code} {err}");
}
