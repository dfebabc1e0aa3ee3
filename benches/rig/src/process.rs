//! A program in its own process group, with its log, readiness and exit.
//!
//! Does not know about: the purpose of the program. Dropping a process kills the group.

use std::fs::{self, File};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::tool;

/// Maximum number of polls, at intervals of [`LOOK_AGAIN`].
const LOOKS_MAX: u32 = 500;
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
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, String> {
        for _ in 0..LOOKS_MAX {
            if let Some(found) = look(self) {
                return Ok(found);
            }
            if let Some(status) = self.status()? {
                return Err(format!("it exited with {status}; output: {}", self.log()));
            }
            sleep(LOOK_AGAIN);
        }
        Err(format!("timeout while waiting until {what}; output: {}", self.log()))
    }

    /// Waits until the program accepts connections.
    pub(crate) fn wait_for_port(&mut self, addr: SocketAddrV4) -> Result<(), String> {
        self.wait_for("the program listens", |_| TcpStream::connect(addr).ok().map(drop))
    }

    /// Kills the group, and waits until the port is closed. The kernel releases a ring, which holds
    /// the listener, only after the end of its process.
    pub(crate) fn stop(self, addr: SocketAddrV4) -> Result<(), String> {
        drop(self);
        for _ in 0..LOOKS_MAX {
            if TcpStream::connect(addr).is_err() {
                return Ok(());
            }
            sleep(LOOK_AGAIN);
        }
        Err("the server has exited, but its port is still open".into())
    }

    /// Sends SIGTERM, and waits for the exit status.
    pub(crate) fn terminate(&mut self) -> Result<ExitStatus, String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).map_err(|error| format!("SIGTERM: {error}"))?;
        for _ in 0..LOOKS_MAX {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            sleep(LOOK_AGAIN);
        }
        Err("it did not exit after SIGTERM".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The program may have exited already. Remaining processes of the group are killed too.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Sleeps for this time.
pub(crate) fn sleep(time: Duration) {
    let wait = rustix::thread::Timespec::try_from(time).expect("constants are short");
    // No signal handler can interrupt the sleep.
    let _ = rustix::thread::nanosleep(&wait);
}
