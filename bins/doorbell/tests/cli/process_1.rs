//! `doorbell await` as process 1 of a container, where the kernel drops signals with the default
//! action.

#![expect(clippy::disallowed_methods, reason = "other processes run in real time")]

use super::{PATIENCE, finish};
use doorbell_testkit::skip::{self, Need};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command whose arguments run as process 1 of a new PID namespace, if that is permitted.
pub(super) fn process_1() -> Option<Command> {
    let alone = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let as_user = [&["--user", "--map-root-user"][..], &alone].concat();
    let unshare = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(args).stdin(Stdio::null());
        command
    };
    let works = |args: &&[&str]| unshare(args).arg("true").output().is_ok_and(|out| out.status.success());
    let found = [&alone[..], &as_user].into_iter().find(works);
    if found.is_none() {
        skip::skipped(Need::Clients, "unshare cannot create a PID namespace; process 1 was not tested");
    }
    found.map(unshare)
}

#[test]
fn await_ends_at_a_signal() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let Some(mut command) = process_1() else { return };
        let args = ["await", "tcp://127.0.0.1:1", "--timeout", "1h", "--", "/bin/true"];
        let mut unshare = command.arg(super::program()).args(args).spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = unshare.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                unshare.kill().unwrap();
                panic!("{signal:?} did not end doorbell");
            }
            // The kernel drops the signal until its handler is installed.
            let child = std::fs::read_to_string(&children).ok().and_then(|pid| pid.trim().parse().ok());
            if let Some(child) = child.and_then(Pid::from_raw) {
                let _ended = kill_process(child, signal);
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(status.code(), Some(128 + signal.as_raw()));
    }
}

#[test]
fn await_leaves_the_signals_of_its_command_alone() {
    let open = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", open.local_addr().unwrap());
    let signals = |prefix: &[&str]| {
        // Without real-time signals: libc reserves the first two for itself.
        let standard = ["sed", "-En", "s/^(Sig[BIC].*).{8}(.{8})$/\\1\\2/p", "/proc/self/status"];
        let mut command = process_1()?;
        command.args(["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]).args(prefix).args(standard);
        Some(finish(command.output().unwrap()))
    };
    let (Some(before), Some(after)) =
        (signals(&[]), signals(&[super::program(), "await", "-q", &target, "--"]))
    else {
        return;
    };
    assert!(before.0 == 0 && before.1.contains("SigIgn"), "{before:?}");
    assert_eq!(before, after);
}
