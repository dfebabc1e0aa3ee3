//! The directories of control sockets, for servers and for clients.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Socket name of the first instance in a directory.
pub const NAME: &str = "control.sock";

/// Maximum number of sockets to examine in one directory.
const SOCKETS_MAX: usize = 64;

/// The default directories of control sockets, in the order in which they are tried:
/// `$RUNTIME_DIRECTORY` of the systemd unit, `/run/doorbell`, and `$XDG_RUNTIME_DIR/doorbell`.
#[must_use]
pub fn directories(env: impl Fn(&str) -> Option<std::ffi::OsString>) -> Vec<PathBuf> {
    let given = env("RUNTIME_DIRECTORY").and_then(|all| {
        // The variable may contain several directories, separated by colons (systemd.exec(5)).
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

/// Socket name of a further instance in a directory. `round` distinguishes equal process IDs of
/// different PID namespaces.
#[must_use]
pub fn name_of(pid: u32, round: u32) -> String {
    match round {
        0 => format!("control-{pid}.sock"),
        _ => format!("control-{pid}-{round}.sock"),
    }
}

/// Returns the control sockets of a directory, including stale ones, at most 64;
/// [`NAME`] comes first.
#[must_use]
pub fn sockets(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_ours = |name: &OsStr| {
        let name = name.to_string_lossy();
        name == NAME || (name.starts_with("control-") && name.ends_with(".sock"))
    };
    let named = entries.filter_map(Result::ok).filter(|entry| is_ours(&entry.file_name()));
    let sockets = named.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let mut paths: Vec<PathBuf> = sockets.map(|entry| entry.path()).collect();
    paths.sort_by_key(|path| (path.file_name() != Some(OsStr::new(NAME)), path.clone()));
    paths.truncate(SOCKETS_MAX);
    paths
}

/// Result of a search of the directories.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sockets with a listening process.
    pub running: Vec<PathBuf>,
    /// Sockets to which this user may not connect.
    pub denied: Vec<PathBuf>,
}

/// Searches the directories for running instances.
#[must_use]
pub fn find_running(directories: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for path in directories.iter().flat_map(|directory| sockets(directory)) {
        match try_connect(&path) {
            Ok(()) => found.running.push(path),
            Err(Errno::ACCESS) => found.denied.push(path),
            Err(_) => {}
        }
    }
    found
}

/// Succeeds if a process listens on a socket. Does not block; `EAGAIN` counts as success, because
/// it means that the backlog of a listening process is full.
///
/// # Errors
/// The error of connect(2), for example `CONNREFUSED` if no process listens.
pub fn try_connect(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::AGAIN) => Ok(()),
        reached => reached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::net::UnixListener;

    #[test]
    fn directories_are_tried_in_their_order() {
        let env = |name: &str| match name {
            "RUNTIME_DIRECTORY" => Some(OsString::from("/run/a:/run/b")),
            "XDG_RUNTIME_DIR" => Some(OsString::from("/run/user/7")),
            _ => None,
        };
        assert_eq!(directories(env), ["/run/a", "/run/doorbell", "/run/user/7/doorbell"].map(PathBuf::from));
        let env = |name: &str| (name == "RUNTIME_DIRECTORY").then(|| OsString::from("/run/doorbell"));
        assert_eq!(directories(env), ["/run/doorbell"].map(PathBuf::from));
        assert_eq!(directories(|_| Some("relative".into())), ["/run/doorbell"].map(PathBuf::from));
    }

    /// The order of a directory is arbitrary.
    #[test]
    fn the_first_socket_is_found_among_many() {
        let folder = std::env::temp_dir().join(format!("doorbell-places-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for number in 0..150 {
            drop(UnixListener::bind(folder.join(format!("control-{number}.sock"))).unwrap());
            if number == 75 {
                drop(UnixListener::bind(folder.join(NAME)).unwrap());
            }
        }
        let found = sockets(&folder);
        let expected =
            [NAME, "control-0.sock", "control-1.sock", "control-10.sock"].map(|name| folder.join(name));
        assert_eq!(found[..4], expected);
        assert_eq!(found.len(), 64);
        fs::remove_dir_all(&folder).unwrap();
    }
}
