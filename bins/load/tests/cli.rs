//! The program from a user's view: exit codes, messages, formats of the report.
//!
//! Does not know about: modes (`modes`); misbehaving servers (`peers`).
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod common;

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use common::{REPLY, Run, Server, answer, command, load, run, run_of, sleep};
use doorbell_ring::{Errno, sandbox};

fn good() -> Server {
    Server::start(|_, mut stream| {
        answer(&mut stream, REPLY);
    })
}

#[test]
fn wrong_command_lines_are_exit_2_with_a_way_out() {
    for (args, hint) in [
        (&[][..], "URL"),
        (&["--no-such", "http://127.0.0.1/"], "--help"),
        (&["https://127.0.0.1/"], "https"),
        (&["http://192.0.2.1/"], "--allow-remote"),
        (&["-p", "4", "http://127.0.0.1/"], "--keep-alive"),
        (&["-d", "5", "http://127.0.0.1/"], "500ms"),
        (&["-c", "60k", "-t", "1", "http://127.0.0.1/"], "--threads"),
        (&["-H", "x", "http://127.0.0.1/"], "Name: value"),
    ] {
        let run = run(args);
        assert_eq!((run.exit, run.stdout.as_str()), (2, ""), "{args:?}: {run:?}");
        assert!(run.stderr.contains(hint), "{args:?}: {run:?}");
    }
}

#[test]
fn help_teaches_and_the_version_is_said() {
    let help = run(&["--help"]);
    assert_eq!((help.exit, help.stderr.as_str()), (0, ""));
    for part in ["Examples:", "Exit codes:", "What is measured:", "--rate", "--unique-id"] {
        assert!(help.stdout.contains(part), "{part}");
    }
    assert!(run(&["--version"]).stdout.starts_with("doorbell-load "));
}

#[test]
fn a_server_that_cannot_be_asked_is_said_at_once() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(run) = load(&["-n", "1", &format!("http://127.0.0.1:{port}/")]) else { return };
    assert_eq!(run.exit, 1);
    assert!(run.stderr.contains("is the server running?"), "{run:?}");

    for (reply, args, hint) in [
        ("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", &[][..], "--expect-status 404"),
        (REPLY, &["--expect-body", "other"], "--expect-body"),
        (REPLY, &["--unique-id"], "echo"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &[], "Transfer-Encoding"),
        ("SSH-2.0-x\r\n", &[], "not HTTP"),
        ("", &[], "ended before"),
    ] {
        let server = Server::start(move |_, mut stream| {
            answer(&mut stream, reply);
        });
        let run = common::run(&[&["-n", "1"], args, &[&server.url()]].concat());
        assert_eq!((run.exit, run.stdout.as_str()), (1, ""), "{run:?}");
        assert!(run.stderr.contains(hint), "{reply:?}: {run:?}");
        assert_eq!(server.accepted(), 1, "only the preflight connects");
    }
}

#[test]
fn both_forms_of_the_report() {
    let server = good();
    let Some(json) = load(&["-n", "20", "-c", "4", &server.url()]) else { return };
    json.assert_clean(20);
    for key in
        ["mode", "requests_per_s", "connects", "bytes_in", "client_cpu_s", "ring", "elapsed_s", "statuses"]
    {
        assert!(!json.json[key].is_null(), "{key}: {json:?}");
    }
    assert_eq!(json.json["foreign_bytes"], serde_json::Value::Null);
    assert_eq!(json.json["statuses"][0]["class"], 2);
    let text = run(&["-n", "20", "-c", "4", &server.url()]);
    assert_eq!((text.exit, text.stderr.as_str()), (0, ""), "a progress line is shown only on a terminal");
    for part in
        ["new connections, the server closes first", "requests", "latency", "p99.9", "first byte", "failed"]
    {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
}

#[test]
fn an_interrupted_run_still_reports() {
    let run = interrupted(&["-d", "1h"]);
    if run.exit == 69 {
        return;
    }
    assert_eq!((run.exit, &run.json["stopped"]), (0, &true.into()), "{run:?}");
    assert!(run.number("/requests") > 10.0 && run.number("/elapsed_s") < 60.0, "{run:?}");
    let run = interrupted(&["-w", "1h", "-d", "1h"]);
    assert_eq!((run.exit, run.stdout.as_str()), (1, ""), "{run:?}");
    assert!(run.stderr.contains("stopped during the warm-up"), "{run:?}");
}

/// Runs the load until the server has accepted some connections, then interrupts it.
fn interrupted(more: &[&str]) -> Run {
    let server = good();
    let (url, all) = (server.url(), ["-o", "json", "-c", "2", "-t", "2"]);
    let args = [&all[..], &[&url], more].concat();
    let child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..500 {
        if server.accepted() > 50 {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    run_of(child.wait_with_output().unwrap())
}

#[test]
fn no_io_uring_is_exit_69_with_the_cause() {
    let server = good();
    let url = server.url();
    // The filter applies to the thread and its children.
    let denied = std::thread::spawn(move || {
        sandbox::deny(&sandbox::Denial::at_setup(Errno(1))).unwrap();
        run(&["-n", "1", &url])
    });
    let run = denied.join().unwrap();
    assert_eq!(run.exit, 69, "{run:?}");
    assert!(run.stderr.contains("io_uring is not available") && run.stderr.contains("seccomp"), "{run:?}");
    assert_eq!(server.accepted(), 0, "no request was sent");
}
