//! In which directories control sockets are, for those who open one and those who look for one.
//!
//! Does not know about: what is said on a socket.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// The name of the socket of the first doorbell in a directory.
pub(crate) const NAME: &str = "control.sock";

/// Sockets of one directory that are looked at.
const SOCKETS_MAX: usize = 64;

/// Where a control socket may be by itself, in the order in which they are tried: what systemd gives the service
/// (`RuntimeDirectory=`), what the system has for services, and what it has for this user.
pub(crate) fn directories(env: impl Fn(&str) -> Option<std::ffi::OsString>) -> Vec<PathBuf> {
    let given = env("RUNTIME_DIRECTORY").and_then(|all| {
        // Several are separated by colons (systemd.exec(5)).
        let first = all.to_string_lossy().split(':').next().unwrap_or_default().to_owned();
        Some(PathBuf::from(first)).filter(|path| path.is_absolute())
    });
    let users = env("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let mut all: Vec<PathBuf> = Vec::new();
    for path in [given, Some(PathBuf::from("/run/doorbell")), users.map(|path| path.join("doorbell"))] {
        all.extend(path.filter(|path| !all.contains(path)));
    }
    all
}

/// The name of the socket of one more doorbell in a directory. In another PID namespace another one may have the same number.
pub(super) fn name_of(pid: u32, round: u32) -> String {
    match round {
        0 => format!("control-{pid}.sock"),
        _ => format!("control-{pid}-{round}.sock"),
    }
}

/// Every control socket of a directory, whether somebody listens or not; the first doorbell's first.
pub(super) fn sockets(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_ours = |name: &OsStr| {
        let name = name.to_string_lossy();
        name == NAME || (name.starts_with("control-") && name.ends_with(".sock"))
    };
    let named = entries.filter_map(Result::ok).filter(|entry| is_ours(&entry.file_name()));
    let sockets = named.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let mut paths: Vec<PathBuf> = sockets.map(|entry| entry.path()).take(SOCKETS_MAX).collect();
    paths.sort_by_key(|path| (path.file_name() != Some(OsStr::new(NAME)), path.clone()));
    paths
}

/// What a look at every directory found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Sockets on which somebody listens.
    pub(crate) living: Vec<PathBuf>,
    /// Sockets of other users.
    pub(crate) denied: Vec<PathBuf>,
}

/// Looks for doorbells.
pub(crate) fn living(directories: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for path in directories.iter().flat_map(|directory| sockets(directory)) {
        match reach(&path) {
            Ok(()) => found.living.push(path),
            Err(Errno::ACCESS) => found.denied.push(path),
            Err(_) => {}
        }
    }
    found
}

/// Whether a process listens on a socket. A backlog that is full is that of one that does: a connect that waits would wait for it.
pub(super) fn reach(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::AGAIN) => Ok(()),
        reached => reached,
    }
}
