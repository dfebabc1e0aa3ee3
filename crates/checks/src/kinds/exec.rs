//! Runs a program, whose exit code is the result.
//!
//! The program is the leader of a process group. The whole group is killed at the timeout and after
//! the program's exit, so that no process of the group remains. The exit status is collected last:
//! until then the kernel does not reuse the process ID, so the signal cannot reach another group.

use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict, at_most, cause_of};
use crate::kinds::blocking::BACK_WITHIN;
use crate::kinds::children::{CHILDREN, Own};
use crate::kinds::{BoxedRun, KindRunner};
use crate::options::ExecCheck;
use crate::progress::{Progress, Stage};
use doorbell_health::Outcome;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

/// Maximum number of bytes of output that are kept, as in Docker and Consul. Further output is read
/// and discarded.
const OUTPUT_LEN_MAX: usize = 4096;

/// Size of a read, and capacity of a pipe (pipe(7)).
const READ_LEN: usize = 4096;
const PIPE_LEN: usize = 64 << 10;

/// Maximum number of bytes of the first non-empty line in a reason.
const REASON_LEN_MAX: usize = 200;

/// Environment variables that a program does not inherit: they concern the descriptors, the
/// notification socket and the watchdog of this process.
const OWN_VARIABLES: [&str; 7] = [
    "FDSTORE",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Runs one program.
#[derive(Debug)]
pub(crate) struct ExecRunner {
    check: Arc<ExecCheck>,
    starter: Starter,
}

/// Starts programs on a separate thread. A start begins only after the previous start has returned
/// and its program has exited. So a start that blocks, for example on a network file system, blocks
/// only one thread, and at most one program that cannot be killed is left running. If the run ends
/// during the start, the program is killed.
#[derive(Debug)]
struct Starter(Arc<Semaphore>);

/// A running program with its process group. Dropping it kills the whole group.
struct Group {
    child: Option<Own>,
    pid: Pid,
    /// The pidfd of the program, which becomes readable at its exit (`pidfd_open(2)`).
    ended: Option<AsyncFd<OwnedFd>>,
    /// Permits the next start when it is dropped.
    turn: Option<OwnedSemaphorePermit>,
}

impl KindRunner for ExecRunner {
    fn dialer(&self) -> Option<&Dialer> {
        None
    }

    fn descriptors(&self) -> usize {
        // Both ends of a pipe, a duplicate of one end, and the pidfd of the program.
        4
    }

    fn blocks(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, progress: &'a Progress, _start: Instant) -> BoxedRun<'a> {
        Box::pin(self.run(progress))
    }
}

impl ExecRunner {
    pub(crate) fn new(check: ExecCheck) -> Self {
        Self { check: Arc::new(check), starter: Starter::default() }
    }

    async fn run(&self, progress: &Progress) -> Verdict {
        let check = Arc::clone(&self.check);
        progress.enter(Stage::Start);
        let started = self.starter.start(move || start(&check)).await?;
        let program = self.check.command.first().map_or("", String::as_str);
        let cannot = |error: io::Error| Issue::error(format!("{program}: {}", cause_of(&error)));
        let (mut group, output) = started.map_err(cannot)?;
        group.watch().map_err(cannot)?;
        progress.enter(Stage::End);
        let output = pipe::Receiver::from_owned_fd(output).map_err(cannot)?;
        let mut captured = Vec::new();
        let status = tokio::select! {
            status = group.end() => status.map_err(cannot)?,
            never = read_output(&output, &mut captured) => match never {},
        };
        // Reads the output that is still in the pipe, without waiting for other holders of the
        // write end, which may continue to write.
        for _read in 0..PIPE_LEN / READ_LEN {
            if !take(&output, &mut captured).is_ok_and(|len| len > 0) {
                break;
            }
        }
        evaluate(status, &captured, self.check.degraded_exit_code)
    }
}

impl Starter {
    async fn start(
        &self,
        start: impl FnOnce() -> io::Result<(Group, OwnedFd)> + Send + 'static,
    ) -> Result<io::Result<(Group, OwnedFd)>, Issue> {
        let Ok(Ok(turn)) = timeout(BACK_WITHIN, Arc::clone(&self.0).acquire_owned()).await else {
            return Err(Issue::timeout("the program of an earlier run has not exited"));
        };
        let (sender, started) = oneshot::channel();
        // A fork takes long enough to delay other checks on this thread.
        tokio::task::spawn_blocking(move || {
            // The run may have ended while the start waited for a thread.
            if sender.is_closed() {
                return;
            }
            let started = start().map(|(mut group, output)| {
                group.turn = Some(turn);
                (group, output)
            });
            if let Err(Ok((group, _output))) = sender.send(started) {
                group.end_now();
            }
        });
        Ok(started.await.unwrap_or_else(|_| Err(io::Error::other("the start was interrupted"))))
    }
}

impl Default for Starter {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// Starts the program. The returned descriptor is the read end of the pipe for its standard output
/// and standard error.
fn start(check: &ExecCheck) -> io::Result<(Group, OwnedFd)> {
    let (output, input) = io::pipe()?;
    let [program, args @ ..] = check.command.as_slice() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    command.args(args).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
    for variable in OWN_VARIABLES {
        command.env_remove(variable);
    }
    Ok((Group::new(CHILDREN.start(|| command.spawn())?), output.into()))
}

impl Group {
    fn new(child: Own) -> Self {
        let pid = child.pid();
        Self { child: Some(child), pid, ended: None, turn: None }
    }

    /// Opens the pidfd, which reports the program's exit.
    fn watch(&mut self) -> io::Result<()> {
        self.ended = Some(watched(pidfd_open(self.pid, PidfdFlags::empty())?)?);
        Ok(())
    }

    async fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(ended) = &self.ended {
            let _guard = ended.readable().await?;
        }
        self.kill();
        match self.child.take() {
            Some(mut child) => child.wait(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Kills the group and blocks until the program has exited. Must not be called on a thread that
    /// runs other tasks.
    fn end_now(mut self) {
        self.kill();
        if let Some(mut child) = self.child.take() {
            let _status = child.wait();
        }
    }

    /// Kills the group. Must be called before the exit status is collected.
    fn kill(&self) {
        // Fails if the program runs as another user (EPERM), for example with sudo. Such a program
        // is left running, and no other one is started until it exits.
        let _result = kill_process_group(self.pid, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.child.is_none() {
            return;
        }
        self.kill();
        let (child, ended, turn) = (self.child.take(), self.ended.take(), self.turn.take());
        let Some(mut child) = child else { return };
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        // A task waits for the killed program, so that no zombie remains.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Some(ended) = ended else {
            let _waits = runtime.spawn_blocking(move || {
                let _status = child.wait();
                drop(turn);
            });
            return;
        };
        runtime.spawn(async move {
            let _ended = ended.readable().await;
            let _status = child.try_wait();
            drop(turn);
        });
    }
}

#[expect(
    deprecated,
    reason = "the constructor that replaces `new` is unsafe; an owned descriptor meets its requirement"
)]
fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}

/// Keeps the start of the output and discards further output, so that the program does not block.
async fn read_output(output: &pipe::Receiver, captured: &mut Vec<u8>) -> std::convert::Infallible {
    loop {
        if output.readable().await.is_err() {
            return std::future::pending().await;
        }
        match take(output, captured) {
            // All write ends are closed; the program's exit or the timeout ends the run.
            Ok(0) => return std::future::pending().await,
            // A program that writes without pause must not block the thread.
            Ok(_) => tokio::task::consume_budget().await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return std::future::pending().await,
        }
    }
}

fn take(output: &pipe::Receiver, captured: &mut Vec<u8>) -> io::Result<usize> {
    let mut some = [0; READ_LEN];
    let len = output.try_read(&mut some)?;
    let kept = len.min(OUTPUT_LEN_MAX - captured.len());
    captured.extend_from_slice(&some[..kept]);
    Ok(len)
}

/// Derives the verdict from the exit status and the first non-empty line of output. Exit code 1 has
/// no fixed meaning, because many interpreters, such as Python, exit with 1 on any error: only the
/// configured code `degraded` means a degraded result.
fn evaluate(status: ExitStatus, captured: &[u8], degraded: Option<u32>) -> Verdict {
    let line = captured.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    // The part after `|` is performance data (Nagios plugin guidelines).
    let line = line.map(|line| line.split(|byte| *byte == b'|').next().unwrap_or_default().trim_ascii_end());
    let line = String::from_utf8_lossy(line.unwrap_or_default());
    let line: String = line.chars().filter(|char| !char.is_control()).collect();
    let line = at_most(&line, REASON_LEN_MAX);
    let reason = |what: String| if line.is_empty() { what } else { format!("{what}: {line}") };
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => {
            let outcome = match u32::try_from(code).ok() == degraded {
                true => Outcome::Degraded,
                false => Outcome::Failure,
            };
            Err(Issue { outcome, reason: reason(format!("exit code {code}")) })
        }
        (None, signal) => {
            let reason = reason(format!("killed by signal {}", signal.unwrap_or_default()));
            Err(Issue { outcome: Outcome::Failure, reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;
    use tokio::time::sleep;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap()
    }

    #[test]
    fn a_program_started_after_its_run_ended_is_killed_and_reaped() {
        let started = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&started);
        runtime().block_on(async {
            let starter = Starter::default();
            let (go, wait) = sync_channel::<()>(1);
            let has_begun = Arc::new(AtomicBool::new(false));
            let begun = Arc::clone(&has_begun);
            let mut hung = Box::pin(starter.start(move || {
                begun.store(true, Ordering::SeqCst);
                wait.recv().unwrap();
                let check = ExecCheck {
                    command: vec!["/bin/sleep".to_owned(), "600".to_owned()],
                    degraded_exit_code: None,
                };
                let (group, output) = start(&check)?;
                *kept.lock().unwrap() = Some(group.pid);
                Ok((group, output))
            }));
            while !has_begun.load(Ordering::SeqCst) {
                assert!(timeout(Duration::from_millis(20), &mut hung).await.is_err());
            }
            drop(hung);
            let second =
                timeout(Duration::from_secs(60), starter.start(|| Err(io::ErrorKind::NotFound.into())));
            let second = second.await.expect("the second start does not wait for a thread").map(|_| ());
            assert_eq!(second, Err(Issue::timeout("the program of an earlier run has not exited")));
            go.send(()).unwrap();
            while starter.start(|| Err(io::ErrorKind::NotFound.into())).await.is_err() {}
            let pid = started.lock().unwrap().expect("it was started").as_raw_nonzero();
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the killed program was waited for");
        });
    }

    #[test]
    fn no_program_starts_after_its_run_ended() {
        let has_started = Arc::new(Mutex::new(false));
        let kept = Arc::clone(&has_started);
        runtime().block_on(async {
            let (go, wait) = sync_channel::<()>(1);
            let busy = tokio::task::spawn_blocking(move || wait.recv().unwrap());
            let starter = Starter::default();
            let queued = starter.start(move || {
                *kept.lock().unwrap() = true;
                Err(io::ErrorKind::NotFound.into())
            });
            assert!(timeout(Duration::from_millis(20), queued).await.is_err());
            go.send(()).unwrap();
            busy.await.unwrap();
            while starter.start(|| Err(io::ErrorKind::NotFound.into())).await.is_err() {
                sleep(Duration::from_millis(1)).await;
            }
        });
        assert!(!*has_started.lock().unwrap());
    }

    /// For example a program that runs as another user and cannot be killed.
    #[test]
    fn no_program_starts_while_the_one_of_an_earlier_run_is_left_running() {
        runtime().block_on(async {
            let starter = Starter::default();
            let command = ["/bin/sleep", "600"].map(str::to_owned).to_vec();
            let check = ExecCheck { command, degraded_exit_code: None };
            let (group, _output) = starter.start(move || start(&check)).await.unwrap().unwrap();
            let second = starter.start(|| Err(io::ErrorKind::NotFound.into())).await.map(|_| ());
            assert_eq!(second, Err(Issue::timeout("the program of an earlier run has not exited")));
            group.end_now();
            assert!(starter.start(|| Err(io::ErrorKind::NotFound.into())).await.is_ok());
        });
    }

    #[test]
    fn the_exit_code_decides_and_the_first_line_says_why() {
        let evaluated = |code: i32, captured: &str, degraded| match evaluate(
            ExitStatus::from_raw(code),
            captured.as_bytes(),
            degraded,
        ) {
            Ok(()) => "ok".to_owned(),
            Err(issue) => format!("{}: {}", issue.outcome.as_str(), issue.reason),
        };
        let found = |code: i32, captured: &str| evaluated(code, captured, Some(1));
        assert_eq!(
            evaluated(1 << 8, "Traceback (most recent call last):", None),
            "failure: exit code 1: Traceback (most recent call last):"
        );
        assert_eq!(evaluated(1 << 8, "", Some(3)), "failure: exit code 1");
        assert_eq!(evaluated(3 << 8, "", Some(3)), "degraded: exit code 3");
        assert_eq!(found(0, "anything"), "ok");
        assert_eq!(found(1 << 8, ""), "degraded: exit code 1");
        assert_eq!(found(1 << 8, "\n  WARN slow | time=3s\nmore"), "degraded: exit code 1: WARN slow");
        assert_eq!(found(2 << 8, "CRITICAL \u{1b}[31mgone"), "failure: exit code 2: CRITICAL [31mgone");
        assert_eq!(found(9, "x"), "failure: killed by signal 9: x");
        assert_eq!(found(2 << 8, &"é".repeat(300)), format!("failure: exit code 2: {}", "é".repeat(100)));
    }
}
