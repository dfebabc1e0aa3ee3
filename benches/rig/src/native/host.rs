//! A server on this machine: its files in a folder of its own, a free port, one core.
//!
//! Does not know about: loads.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::subject::Subject;
use crate::image::OurPrograms;
use crate::image::servers::Place;
use crate::tool;

/// Attempts to connect to a server that starts, 20 ms apart.
const CONNECTS_MAX: u32 = 250;
const CONNECT_AGAIN: Duration = Duration::from_millis(20);

/// Connections our own servers may hold: far more than a turn opens, and few enough that a fixed-file table of them fits under the limit
/// of open files of an ordinary login.
const CONNS_MAX: u32 = 4_096;

/// A server that accepts connections. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    folder: PathBuf,
    port: u16,
}

/// A command that runs on one core.
pub(super) fn pinned(core: u32, program: &Path) -> Result<Command, String> {
    let taskset = tool::find("taskset", "util-linux").map_err(|error| error.to_string())?;
    let mut command = Command::new(taskset);
    command.args(["--cpu-list", &core.to_string()]).arg(program);
    Ok(command)
}

impl Running {
    /// Starts it on `core` and waits until it accepts.
    pub(crate) fn start(subject: Subject<'_>, core: u32, ours: &OurPrograms) -> Result<Self, String> {
        let program = subject.program(ours)?;
        let port = free_port()?;
        let folder = std::env::temp_dir().join(format!("doorbell-rig-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let started = start(subject, &program, core, &folder, port);
        let child = started.inspect_err(|_| {
            // The failure to start is the one to report.
            let _ = fs::remove_dir_all(&folder);
        })?;
        let mut running = Self { child, folder, port };
        running
            .wait_for_port()
            .map_err(|why| format!("{}: {why}; it said: {}", subject.name(), running.log()))?;
        Ok(running)
    }

    /// What the clients ask for.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Where it listens, on loopback.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// The process group.
    pub(crate) fn group(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids are positive")
    }

    fn wait_for_port(&mut self) -> Result<(), String> {
        for _ in 0..CONNECTS_MAX {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended with {status}"));
            }
            pause(CONNECT_AGAIN);
        }
        Err("it does not listen".into())
    }

    fn log(&self) -> String {
        tool::tail(&fs::read_to_string(log_path(&self.folder)).unwrap_or_default())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, and the temporary folder is not worth a failure.
        if let Some(group) = Pid::from_raw(self.group()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn start(subject: Subject<'_>, program: &Path, core: u32, folder: &Path, port: u16) -> Result<Child, String> {
    let name = folder.to_string_lossy();
    let place = Place {
        folder: &name,
        port,
        is_root: rustix::process::geteuid().is_root(),
        conns_max: Some(CONNS_MAX),
    };
    for (path, text) in subject.files_at(&place) {
        fs::write(&path, text).map_err(|error| format!("{path}: {error}"))?;
    }
    let argv = subject.argv(&program.to_string_lossy(), &place);
    let log = File::create(log_path(folder)).map_err(|error| error.to_string())?;
    let same = log.try_clone().map_err(|error| error.to_string())?;
    let mut command = pinned(core, program)?;
    command.args(&argv[1..]).stdin(Stdio::null()).stdout(log).stderr(same).process_group(0);
    command.spawn().map_err(|error| format!("{argv:?} does not start: {error}"))
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

/// A port nobody has. Most servers cannot say which one they chose, so it is chosen for them.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

/// Sleeps.
pub(crate) fn pause(time: Duration) {
    let wait = rustix::thread::Timespec::try_from(time).expect("constants are short");
    // Nothing sends us signals.
    let _ = rustix::thread::nanosleep(&wait);
}
