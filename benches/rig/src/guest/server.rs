//! A server under test: started as a process group of its own, ended with the whole group.
//!
//! Does not know about: what it is measured for.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::image::CHRT;
use crate::plan::PORT;
use crate::tool;

/// Where it listens.
pub(super) const ADDR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT);
const LOG: &str = "/tmp/server.log";
/// Attempts to connect to a server that starts, 50 ms apart.
const CONNECTS_MAX: u32 = 200;
const CONNECT_AGAIN: Duration = Duration::from_millis(50);

/// A server that accepts connections.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    group: i32,
}

/// A command that runs `argv`, under SCHED_BATCH when `batch`.
pub(super) fn scheduled(argv: &[String], batch: bool) -> Command {
    let (program, args) = argv.split_first().expect("a command has a program");
    let mut command = if batch {
        let mut command = Command::new(CHRT);
        command.args(["--batch", "0", program]);
        command
    } else {
        Command::new(program)
    };
    command.args(args);
    command
}

impl Running {
    /// Starts it and waits until it accepts.
    pub(super) fn start(argv: &[String], batch: bool) -> Result<Self, String> {
        let log = File::create(LOG).map_err(|error| format!("{LOG}: {error}"))?;
        let same = log.try_clone().map_err(|error| format!("{LOG}: {error}"))?;
        let mut command = scheduled(argv, batch);
        command.stdin(Stdio::null()).stdout(log).stderr(same).process_group(0);
        let child = command.spawn().map_err(|error| format!("{argv:?} does not start: {error}"))?;
        let group = i32::try_from(child.id()).map_err(|error| error.to_string())?;
        let mut running = Self { child, group };
        match running.wait_for_port() {
            Ok(()) => Ok(running),
            Err(why) => {
                let log = running.log();
                // The first failure is the one to report.
                let _ = running.stop();
                Err(format!("{why}; it said: {log}"))
            }
        }
    }

    /// The process group.
    pub(super) fn group(&self) -> i32 {
        self.group
    }

    /// The end of what it wrote.
    pub(super) fn log(&self) -> String {
        tool::tail(&fs::read_to_string(LOG).unwrap_or_default())
    }

    /// Kills the group.
    pub(super) fn stop(mut self) -> Result<(), String> {
        let group = Pid::from_raw(self.group).ok_or("process 0 is no server")?;
        // A server that ended by itself is reaped all the same.
        let killed = kill_process_group(group, Signal::KILL);
        self.child.wait().map_err(|error| format!("waiting for the server: {error}"))?;
        killed.map_err(|error| format!("stopping the server: {error}"))?;
        // A ring is torn down after its process has gone, and holds the listener until then.
        for _ in 0..CONNECTS_MAX {
            if TcpStream::connect(ADDR).is_err() {
                return Ok(());
            }
            super::sleep(CONNECT_AGAIN);
        }
        Err("the server is gone and its port still open".into())
    }

    fn wait_for_port(&mut self) -> Result<(), String> {
        for _ in 0..CONNECTS_MAX {
            if TcpStream::connect(ADDR).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended with {status}"));
            }
            super::sleep(CONNECT_AGAIN);
        }
        Err("the server does not listen".into())
    }
}
