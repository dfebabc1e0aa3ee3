//! A program in its own process group: its log, its readiness, its end.
//!
//! Does not know about: its purpose. Dropping it kills the group.

use std::fs::{self, File};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::tool;

/// Maximum number of polls, [`LOOK_AGAIN`] apart.
const LOOKS_MAX: u32 = 500;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it; both of its outputs go to the file `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let opened = File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = opened.map_err(|error| format!("{}: {error}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let child = command
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// The process group.
    pub(crate) fn group(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    /// The end of its output.
    pub(crate) fn log(&self) -> String {
        tool::tail(&fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Its exit status, if it has ended.
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
                return Err(format!("it ended with {status}; it said: {}", self.log()));
            }
            sleep(LOOK_AGAIN);
        }
        Err(format!("waited in vain until {what}; it said: {}", self.log()))
    }

    /// Waits until it accepts connections.
    pub(crate) fn wait_for_port(&mut self, addr: SocketAddrV4) -> Result<(), String> {
        self.wait_for("it listens", |_| TcpStream::connect(addr).ok().map(drop))
    }

    /// Kills the group and waits until the port is closed: a ring is torn down after the end of its
    /// process, and holds the listener until then.
    pub(crate) fn stop(self, addr: SocketAddrV4) -> Result<(), String> {
        drop(self);
        for _ in 0..LOOKS_MAX {
            if TcpStream::connect(addr).is_err() {
                return Ok(());
            }
            sleep(LOOK_AGAIN);
        }
        Err("the server is gone and its port still open".into())
    }

    /// Sends SIGTERM, and waits for its status.
    pub(crate) fn terminate(&mut self) -> Result<ExitStatus, String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).map_err(|error| format!("SIGTERM: {error}"))?;
        for _ in 0..LOOKS_MAX {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            sleep(LOOK_AGAIN);
        }
        Err("it does not end after SIGTERM".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; remaining processes of the group are killed too.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Sleeps.
pub(crate) fn sleep(time: Duration) {
    let wait = rustix::thread::Timespec::try_from(time).expect("constants are short");
    // There are no signal handlers that could interrupt it.
    let _ = rustix::thread::nanosleep(&wait);
}
