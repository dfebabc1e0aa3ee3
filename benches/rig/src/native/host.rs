//! A server on this machine, with its files in a temporary folder, a free port, and one core.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::image::servers::{ServerEnvironment, Setup};
use crate::process::Process;
use crate::tool;

/// Maximum number of connections of doorbell. It far exceeds the connections of a measurement, and
/// a fixed-file table of this size fits under the usual limit of open files.
const CONNS_MAX: u32 = 4_096;

/// A server that accepts connections. It stops on drop.
#[derive(Debug)]
pub(crate) struct Running {
    process: Process,
    port: u16,
    _folder: Folder,
}

/// A folder that is deleted on drop.
#[derive(Debug)]
struct Folder(PathBuf);

/// Returns a command that runs on one core.
pub(super) fn pinned(core: u32, program: &Path) -> Result<Command, String> {
    let taskset = tool::find("taskset", "util-linux").map_err(|error| error.to_string())?;
    let mut command = Command::new(taskset);
    command.args(["--cpu-list", &core.to_string()]).arg(program);
    Ok(command)
}

impl Running {
    /// Starts `program` on `core`, configured by `setup`, and waits until it accepts connections.
    pub(crate) fn start(
        program: &Path,
        core: u32,
        setup: impl FnOnce(&str, &ServerEnvironment<'_>) -> Setup,
    ) -> Result<Self, String> {
        let port = free_port()?;
        let folder = std::env::temp_dir().join(format!("doorbell-rig-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let folder = Folder(folder);
        let is_root = rustix::process::geteuid().is_root();
        let name = folder.0.to_string_lossy();
        let place =
            ServerEnvironment { folder: &name, port, is_root, conns_max: Some(CONNS_MAX), has_tls: false };
        let Setup { server, files } = setup(&program.to_string_lossy(), &place);
        for (path, text) in files {
            fs::write(&path, text).map_err(|error| format!("{path}: {error}"))?;
        }
        let mut command = pinned(core, program)?;
        let process = Process::start(command.args(&server.argv[1..]), &folder.0.join("server.log"));
        let listens = |mut process: Process| {
            process.wait_for_port(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).map(|()| process)
        };
        let process = process.and_then(listens).map_err(|why| format!("{}: {why}", server.name))?;
        Ok(Self { process, port, _folder: folder })
    }

    /// The port of the server on loopback.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// The process group of the server.
    pub(super) fn group(&self) -> i32 {
        self.process.group()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If this fails, a temporary folder remains, which is harmless.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a free port, because most servers cannot report a port that the kernel chose.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}
