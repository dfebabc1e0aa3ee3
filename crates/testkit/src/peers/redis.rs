//! A Redis or Valkey server in a folder of its own.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use super::{free_addr, wait_until};
use crate::skip::{Need, skipped};

/// Maximum time of a start.
const START: Duration = Duration::from_secs(60);

/// The server program, or another one such as `valkey-server`.
fn program() -> OsString {
    std::env::var_os("DOORBELL_REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

/// A running server. Its files are removed at the end.
#[derive(Debug)]
pub struct Redis {
    /// Address of the server, the same after a restart.
    pub addr: SocketAddr,
    folder: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Redis {
    /// Starts a server that stores nothing on disk, with further arguments; `None` if there is no
    /// such program, which is reported as a skipped test.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Option<Self> {
        if Command::new(program()).arg("--version").output().is_err() {
            skipped(Need::Clients, format_args!("{} is not installed", program().display()));
            return None;
        }
        let addr = free_addr();
        let name = format!("doorbell-redis-{}-{}", std::process::id(), addr.port());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("the folder can be created");
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut server = Self { addr, folder, arguments, child: None };
        server.restart();
        Some(server)
    }

    /// Kills the server by SIGKILL. Its data are lost.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _gone = child.wait();
        }
    }

    /// Starts the server again, without data.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn restart(&mut self) {
        self.kill();
        let output = fs::File::create(self.folder.join("output")).expect("the file can be created");
        let mut command = Command::new(program());
        command.args(["--port", &self.addr.port().to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no"]).args(&self.arguments).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("the program starts"));
        let ready = || self.output().is_ok_and(|output| output.contains("Ready to accept connections"));
        assert!(wait_until(START, ready).is_some(), "{:?}", self.output());
    }

    /// Stops the process without closing its connections, or lets it continue.
    ///
    /// # Panics
    /// If there is no process.
    pub fn hang(&self, hangs: bool) {
        let child = self.child.as_ref().expect("the server runs");
        let signal = if hangs { rustix::process::Signal::STOP } else { rustix::process::Signal::CONT };
        rustix::process::kill_process(rustix::process::Pid::from_child(child), signal)
            .expect("it gets the signal");
    }

    /// Runs `redis-cli`, and returns what it prints.
    ///
    /// # Panics
    /// If the program cannot be run.
    #[must_use]
    #[track_caller]
    pub fn cli(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.addr.port().to_string()]).args(arguments);
        let output = command.output().expect("redis-cli runs");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn output(&self) -> io::Result<String> {
        fs::read_to_string(self.folder.join("output"))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
        let _gone = fs::remove_dir_all(&self.folder);
    }
}
