//! `doorbell run` in the foreground of a terminal, whose signals the kernel sends to a process group.

use super::pairs::serving_child;
use super::process_1::process_1;
use doorbell_testkit::skip::{self, Need};
use rustix::process::{Pid, Signal, getpgid, kill_process};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The command: prints each signal, until USR1. The shell handles pending signals in the order of
/// their numbers, USR1 after INT and QUIT.
const COUNTS: &str = "trap 'echo got INT' INT; trap 'echo got QUIT' QUIT; trap 'exit 4' USR1; \
                      echo up; while :; do sleep 0.02; done";

/// A terminal with `doorbell run` in the foreground.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Terminal {
    /// Starts `doorbell run` in a terminal of script(1), if that is installed.
    fn start(prefix: &str) -> Option<Self> {
        let run =
            "exec $PREFIX \"$DOORBELL\" run -q --listen 127.0.0.1:0 --admin off -- /bin/sh -c \"$COUNTS\"";
        let mut command = Command::new("script");
        command.args(["-qefc", run, "/dev/null"]).env("DOORBELL", super::program());
        command
            .env("PREFIX", prefix)
            .env("COUNTS", COUNTS)
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut script = match command.spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                skip::skipped(Need::Clients, "script is not installed; no terminal was tested");
                return None;
            }
            script => script.unwrap(),
        };
        let keys = script.stdin.take().unwrap();
        let lines = BufReader::new(script.stdout.take().unwrap());
        let mut terminal = Self { script, keys, lines };
        terminal.read_until("up");
        Some(terminal)
    }

    fn read_until(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "no {word:?}");
        }
    }

    fn press(&mut self, key: u8) {
        self.keys.write_all(&[key]).unwrap();
    }

    /// Ends the command; returns the exit code and the remaining output.
    fn end(mut self, run: Pid) -> (Option<i32>, String) {
        kill_process(run, Signal::USR1).unwrap();
        let mut rest = String::new();
        while self.lines.read_line(&mut rest).unwrap() > 0 {}
        (self.script.wait().unwrap().code(), rest)
    }
}

impl Drop for Terminal {
    /// A failed test hangs up: without this, the processes would keep running.
    fn drop(&mut self) {
        let _ended = self.script.kill();
    }
}

/// Presses a key in a terminal in which `prefix` starts `doorbell run`, in a child if not empty.
fn signals_once(prefix: &str, key: u8, word: &str) {
    let Some(mut terminal) = Terminal::start(prefix) else { return };
    let started = first_child(terminal.script.id());
    let run = if prefix.is_empty() { started } else { first_child(started) };
    let (server, run) = (serving_child(run), Pid::from_raw(run.try_into().unwrap()).unwrap());
    assert_ne!(getpgid(Some(server)), getpgid(Some(run)), "the key signals the server");
    terminal.press(key);
    terminal.read_until(word);
    let (code, rest) = terminal.end(run);
    assert!(code == Some(4) && !rest.contains(word), "{code:?} {rest:?}");
}

fn first_child(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

/// Control-C and Control-\.
#[test]
fn a_key_signals_the_command_once() {
    signals_once("", 3, "got INT");
    signals_once("", 28, "got QUIT");
}

/// The leader of the process group is outside the PID namespace, so the group has no number inside.
#[test]
fn a_key_signals_the_command_of_process_1_once() {
    let Some(unshare) = process_1() else { return };
    let words = std::iter::once(unshare.get_program()).chain(unshare.get_args());
    signals_once(&words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "), 3, "got INT");
}
