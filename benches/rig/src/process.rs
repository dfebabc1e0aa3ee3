//! A program in its own process group, with its log, readiness and exit.
//!
//! Dropping a process kills the group.

use std::fs::{self, File};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::time::{ClockId, clock_gettime};

use crate::tool;

/// Maximum time for a program to become ready or to end.
const SECONDS_MAX: u32 = 30;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the program. Both of its output streams go to the file `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let opened = File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = opened.map_err(|error| format!("{}: {error}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let child = command
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// ID of the process group.
    pub(crate) fn group(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    /// The end of the program's output.
    pub(crate) fn log(&self) -> String {
        tool::tail(&fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Exit status of the program, if it has exited.
    pub(crate) fn status(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("waiting for the program: {error}"))
    }

    /// Waits until `look` returns a value. An error contains the last lines of the log.
    pub(crate) fn wait_for<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, String> {
        let found = poll(SECONDS_MAX, || match (look(), self.status()?) {
            (None, Some(status)) => Err(format!("it exited with {status}; output: {}", self.log())),
            (found, _) => Ok(found),
        })?;
        found.ok_or_else(|| format!("timeout while waiting until {what}; output: {}", self.log()))
    }

    /// Waits until the program accepts connections.
    pub(crate) fn wait_for_port(&mut self, addr: SocketAddrV4) -> Result<(), String> {
        self.wait_for("the program listens", || TcpStream::connect(addr).ok().map(drop))
    }

    /// Kills the group, and waits until the port is closed. The kernel releases a ring, which holds
    /// the listener, only after the end of its process.
    pub(crate) fn stop(self, addr: SocketAddrV4) -> Result<(), String> {
        drop(self);
        let refused = poll(SECONDS_MAX, || Ok(TcpStream::connect(addr).err()))?;
        refused.map(drop).ok_or_else(|| "the server has exited, but its port is still open".into())
    }

    /// Sends SIGTERM, and waits for the exit status.
    pub(crate) fn terminate(&mut self) -> Result<ExitStatus, String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).map_err(|error| format!("SIGTERM: {error}"))?;
        poll(SECONDS_MAX, || self.status())?.ok_or_else(|| "it did not exit after SIGTERM".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The program may have exited already. Remaining processes of the group are killed too.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Calls `look` until it returns a value. Returns `None` when the time is over.
pub(crate) fn poll<T>(
    seconds_max: u32,
    mut look: impl FnMut() -> Result<Option<T>, String>,
) -> Result<Option<T>, String> {
    let ends_ns = now_ns() + i64::from(seconds_max) * 1_000_000_000;
    loop {
        match look()? {
            None if now_ns() < ends_ns => sleep(LOOK_AGAIN),
            found => return Ok(found),
        }
    }
}

/// Reads the monotonic clock.
pub(crate) fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Sleeps for this time.
pub(crate) fn sleep(time: Duration) {
    let wait = rustix::thread::Timespec::try_from(time).expect("constants are short");
    // No signal handler can interrupt the sleep.
    let _ = rustix::thread::nanosleep(&wait);
}
