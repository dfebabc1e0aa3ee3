//! `doorbell run`: doorbell together with another command.

#![expect(clippy::disallowed_methods, reason = "other processes run in real time")]

use super::{PATIENCE, doorbell, run, scratch, serving};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A running `doorbell run`, with the first line of its output.
struct Running {
    child: Child,
    first: String,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(args: &[&str], script: &str) -> Self {
        Self::start_aloud(&[&["-q"], args].concat(), script)
    }

    /// Starts without --quiet, so the first line may be a log line.
    fn start_aloud(args: &[&str], script: &str) -> Self {
        let args = [&["run"], args, &["--", "/bin/sh", "-c", script]].concat();
        Self::spawn(&mut doorbell(&args))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        Self { child, first: first.trim().to_owned(), lines }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end, and returns the exit code and the whole output.
    fn end_and_lines(mut self) -> (Option<i32>, String) {
        let mut lines = format!("{}\n", self.first);
        self.lines.read_to_string(&mut lines).unwrap();
        (self.end(), lines)
    }

    fn end(mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.child.kill().unwrap();
        panic!("`doorbell run` did not exit");
    }
}

const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

#[test]
fn a_pair_ends_with_the_code_of_its_command_and_logs_it() {
    for (script, expected, said) in [
        ("echo; exit 7", 7, "the command exited (exit status: 7)"),
        ("echo; kill -KILL $$", 137, "the command exited (signal: 9 (SIGKILL))"),
        ("echo; exit 0", 0, "the command exited (exit status: 0)"),
    ] {
        let (code, lines) = Running::start_aloud(&LISTEN, script).end_and_lines();
        assert_eq!(code, Some(expected), "{script}: {lines}");
        assert!(lines.contains(said) && lines.contains(&format!("\"code\":{expected}")), "{script}: {lines}");
    }
    let (code, _, err) = run(&["run", "--listen", "127.0.0.1:0", "--", "/nonexistent"]);
    assert!(code == 71 && err.contains("cannot start /nonexistent"), "{code} {err}");
    assert_eq!(run(&["run", "--listen", "127.0.0.1:0"]).0, 2);
    assert_eq!(run(&["run", "-c", "-", "--", "/bin/true"]).0, 2);
}

#[test]
fn a_failed_doorbell_fails_the_pair() {
    let script = "trap 'exit 0' TERM; echo; while :; do sleep 0.02; done";
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    assert_eq!(Running::start(&["--listen", &addr], script).end(), Some(73));
    assert_eq!(ended_door(script, Signal::KILL), Some(137));
    // The signal stops doorbell while the command still runs; the command exits with 0.
    assert_eq!(ended_door(script, Signal::INT), Some(1));
}

#[test]
fn a_doorbell_that_outlives_its_command_leaves_the_code_of_the_command() {
    let running = Running::start(&[&LISTEN[..], &["--stay"]].concat(), "echo; exit 7");
    kill_process(serving_child(running.child.id()), Signal::INT).unwrap();
    assert_eq!(running.end(), Some(7));
}

#[test]
fn a_doorbell_that_keeps_serving_without_its_command_is_never_ready_again() {
    let (folder, file, socket) = controlled("stays", "0s");
    let script = "echo; read line; exit 7";
    let args = ["run", "--stay", "-c", &file, "--", "/bin/sh", "-c", script];
    let mut child = doorbell(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    while !first.contains("\"addresses\"") {
        first.clear();
        assert!(lines.read_line(&mut first).unwrap() > 0, "doorbell exited before it was ready");
    }
    let ready: serde_json::Value = serde_json::from_str(&first).unwrap();
    let addr = ready["addresses"].as_str().unwrap().to_owned();
    let status = |path: &str| {
        let reply = serving::ask(&addr, &format!("GET {path} HTTP/1.0\r\n\r\n"));
        reply.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!([status("/readyz"), status("/livez")], ["200", "200"]);
    drop(child.stdin.take());
    await_status(&socket, "draining");
    assert_eq!([status("/readyz"), status("/livez")], ["503", "200"]);
    for back in ["undrain", "ready"] {
        let (_, out, err) = run(&[back, "--socket", &socket]);
        assert!(out.contains("the command exited (exit status: 7)"), "{back}: {out}{err}");
        assert_eq!(status("/readyz"), "503", "{back}");
    }
    // A reload does not clear the failure.
    let (code, out, err) = run(&["reload", "--socket", &socket]);
    assert_eq!((code, status("/readyz").as_str()), (0, "503"), "{out}{err}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let running = Running { child, first, lines };
    let (code, said) = running.end_and_lines();
    assert!(code == Some(7) && said.contains("\"code\":7"), "{code:?} {said}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Creates a folder with a configuration that sets a control socket. Returns the folder, the file
/// and the socket.
fn controlled(name: &str, delay: &str) -> (PathBuf, String, String) {
    let folder = serving::folder(name);
    let (file, socket) = (folder.join("doorbell.toml"), folder.join("control.sock"));
    std::fs::write(&file, controlled_text(&socket, delay)).unwrap();
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    (folder, text(file), text(socket))
}

fn controlled_text(socket: impl AsRef<Path>, delay: &str) -> String {
    let socket = socket.as_ref();
    format!(
        "version = 1\n[control]\nsocket = {socket:?}\n[lifecycle]\ndrain_delay = {delay:?}\n[listener.a]\nbind = \"127.0.0.1:0\"\n"
    )
}

/// Waits until `doorbell status` contains a text.
fn await_status(socket: &str, wanted: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let said = run(&["status", "--socket", socket]);
        if said.1.contains(wanted) {
            return;
        }
        assert!(Instant::now() < until, "{wanted}: {said:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Only the serving process knows whether a stop was cancelled.
#[test]
fn a_command_is_stopped_when_doorbell_closes_and_not_when_the_stop_is_cancelled() {
    let (folder, file, socket) = controlled("pair", "1h");
    let mut running =
        Running::start(&["-c", &file], "trap 'exit 3' TERM; echo; while :; do sleep 0.02; done");
    for _ in 0..2 {
        await_status(&socket, "ready for");
        // The cancelled stop does not count: the next TERM starts a new one.
        running.signal(Signal::TERM);
        await_status(&socket, "draining");
        let (code, out, err) = run(&["undrain", "--socket", &socket]);
        assert!(code == 0 && out.contains("stop cancelled"), "{code} {out}{err}");
    }
    std::fs::write(&file, controlled_text(&socket, "0s")).unwrap();
    assert_eq!(run(&["reload", "--socket", &socket]).0, 0);
    assert_eq!(running.child.try_wait().unwrap(), None, "a cancelled stop ended the command");
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(3));
    std::fs::remove_dir_all(folder).unwrap();
}

/// The exit code of `doorbell run` when only the serving process gets the signal.
fn ended_door(script: &str, signal: Signal) -> Option<i32> {
    let running = Running::start(&LISTEN, script);
    kill_process(serving_child(running.child.id()), signal).unwrap();
    running.end()
}

#[test]
fn options_of_serve_reach_the_doorbell_of_a_pair() {
    let options = ["--allow-exec", "--driver", "epoll", "--workers", "3"];
    let running = Running::start(&[&LISTEN[..], &options].concat(), "echo; exec sleep 60");
    let door = serving_child(running.child.id());
    let words = std::fs::read(format!("/proc/{}/cmdline", door.as_raw_nonzero())).unwrap();
    let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    for option in options {
        assert!(words.iter().any(|word| word == option), "{option} is not in {words:?}");
    }
    running.signal(Signal::INT);
    running.end();
    for wrong in [["--workers", "0"], ["--driver", "kqueue"]] {
        assert_eq!(run(&[&["run"], &wrong[..], &["--", "/bin/true"]].concat()).0, 2, "{wrong:?}");
    }
}

/// Returns the serving process of a `doorbell run`, once its signal thread runs.
pub(super) fn serving_child(parent: u32) -> Pid {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let serving = children.split_whitespace().next().unwrap();
    let tasks = || std::fs::read_dir(format!("/proc/{serving}/task")).into_iter().flatten().flatten();
    let takes_signals = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "signals")
    };
    let until = Instant::now() + PATIENCE;
    while !tasks().any(takes_signals) {
        assert!(Instant::now() < until, "doorbell did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    Pid::from_raw(serving.parse().unwrap()).unwrap()
}

#[test]
fn a_command_is_stopped_after_the_delay_or_by_a_second_signal() {
    let config = "version = 1\n[lifecycle]\ndrain_delay = \"DELAY\"\n[listener.a]\nbind = \"127.0.0.1:0\"\n";
    let script = "trap 'exit 9' TERM INT; echo ready; while :; do sleep 0.02; done";
    let slow = scratch("run-slow.toml", &config.replace("DELAY", "400ms"));
    let running = Running::start(&["-c", slow.to_str().unwrap()], script);
    // A TERM before the instance serves would stop it without a drain.
    serving_child(running.child.id());
    let from = Instant::now();
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(9));
    assert!(from.elapsed() >= Duration::from_millis(400), "{:?}", from.elapsed());
    let never = scratch("run-never.toml", &config.replace("DELAY", "1h"));
    let running = Running::start(&["-c", never.to_str().unwrap()], script);
    running.signal(Signal::TERM);
    running.signal(Signal::INT);
    assert_eq!(running.end(), Some(9));
}

#[test]
fn other_signals_reach_the_command() {
    for (signal, name) in [(Signal::HUP, "HUP"), (Signal::USR1, "USR1"), (Signal::USR2, "USR2")] {
        let script = format!("trap 'exit 11' {name}; echo; while :; do sleep 0.02; done");
        let running = Running::start(&LISTEN, &script);
        running.signal(signal);
        assert_eq!(running.end(), Some(11), "{name}");
    }
}

/// As with nohup(1).
#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let run = [super::program(), "run", "-q", "--listen", "127.0.0.1:0", "--", "/bin/sh", "-c"];
    let script = "trap 'exit 4' USR1; echo; while :; do sleep 0.02; done";
    let args = [&["-c", "trap '' HUP; exec \"$@\"", "sh"], &run[..], &[script]].concat();
    let running = Running::spawn(Command::new("/bin/sh").args(args));
    for signal in [Signal::HUP, Signal::USR1] {
        running.signal(signal);
    }
    assert_eq!(running.end(), Some(4));
}

#[test]
fn orphans_are_adopted_and_reaped() {
    // The middle shell exits immediately and leaves an orphan.
    let script = "/bin/sh -c 'sleep 3600 & echo $!'; while :; do sleep 0.02; done";
    let running = Running::start(&LISTEN, script);
    let orphan = Pid::from_raw(running.first.parse().unwrap()).unwrap();
    let status = format!("/proc/{}/status", running.first);
    let ours = running.child.id().to_string();
    let parent = || {
        let text = std::fs::read_to_string(&status).unwrap();
        text.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_owned()
    };
    let until = Instant::now() + PATIENCE;
    // The orphan is adopted after the exit of the middle shell.
    while parent() != ours {
        assert!(Instant::now() < until, "the parent is {}", parent());
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(orphan, Signal::KILL).unwrap();
    while std::fs::exists(&status).unwrap() {
        assert!(
            Instant::now() < until,
            "still a zombie: {}",
            std::fs::read_to_string(&status).unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    running.signal(Signal::INT);
    running.end();
}

#[test]
fn doorbell_ends_with_its_parent() {
    let mut running = Running::start(&LISTEN, "echo $PPID; exec sleep 60");
    let parent = running.first.clone();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    assert_eq!(children.split_whitespace().count(), 2, "{children}");
    // A serving process has set its parent death signal.
    let serving = serving_child(parent.parse().unwrap());
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let until = Instant::now() + PATIENCE;
    let stat = format!("/proc/{}/stat", serving.as_raw_nonzero());
    let lives = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    while lives() {
        assert!(Instant::now() < until, "doorbell still serves without its parent");
        std::thread::sleep(Duration::from_millis(20));
    }
    for orphan in children.split_whitespace().skip(1) {
        if let Some(pid) = orphan.parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn the_command_inherits_no_passed_socket() {
    let hand_over = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
    let script = "if test -e /proc/self/fd/3; then echo inherited; else echo closed; fi";
    let run = [super::program(), "run", "-q", "--listen", "fd:3", "--", "/bin/sh", "-c", script];
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", hand_over]).args(run).env_clear().stdin(std::os::fd::OwnedFd::from(socket));
    let running = Running::spawn(&mut command);
    assert_eq!(running.first, "closed");
    assert_eq!(running.end(), Some(0));
}
