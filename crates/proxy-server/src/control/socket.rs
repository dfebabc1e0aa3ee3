//! The file of a control socket: created if no other process listens at its path, removed when the
//! server ends.
//!
//! The process that holds the lock on `NAME.lock` owns `NAME`, even if two instances start at the
//! same time. The kernel releases the lock when the process ends, so the file of a dead instance
//! can be replaced, and the file of a running instance cannot.

use super::group;
use doorbell_control::places::{NAME, directories, name_of, sockets, try_connect};
use doorbell_proxy_config::model::{Control, ControlSocket};
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown,
};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of names to try for a further instance in a directory.
const ROUNDS_MAX: u32 = 4;

/// Mode of a socket file without and with a group.
const MODE: u32 = 0o600;
const GROUP_MODE: u32 = 0o660;

/// Length of the accept queue.
const BACKLOG: i32 = 128;

/// Age from which a socket without a listener is stale. The process of a younger socket may be
/// about to listen.
const LEFT_OVER_AFTER: Duration = Duration::from_secs(60);

/// The file of a control socket, removed on drop.
#[derive(Debug)]
pub(crate) struct ControlFile {
    path: PathBuf,
    /// Inode of the created file; a file that has replaced it is not removed.
    inode: u64,
    _lock: File,
}

impl ControlFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlFile {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            // The file may have been removed with its directory.
            let _gone = fs::remove_file(&self.path);
            // A process that opened the lock file before its removal may hold a lock together with
            // the owner of a new lock file. `claim` therefore also connects to the socket.
            let _gone = fs::remove_file(lock_path(&self.path));
        }
    }
}

/// Opens the configured socket; `None` if it is off.
///
/// # Errors
/// The reason why the socket cannot be opened.
pub(crate) fn open(control: &Control) -> Result<Option<(ControlFile, UnixListener)>, String> {
    let group = control.group.as_deref().map(Group::find).transpose()?;
    match &control.socket {
        ControlSocket::Off => Ok(None),
        ControlSocket::Path(path) => {
            claim(path, group).map(Some).map_err(|why| format!("{}: {why}", path.display()))
        }
        ControlSocket::Auto => open_first(&directories(|name| std::env::var_os(name)), group).map(Some),
    }
}

/// A group whose members may connect.
#[derive(Clone, Copy, Debug)]
struct Group<'a> {
    name: &'a str,
    number: u32,
}

impl<'a> Group<'a> {
    fn find(name: &'a str) -> Result<Self, String> {
        let number = group::number_of(name)
            .ok_or_else(|| format!("unknown group {name:?}: use a name of /etc/group, or a number"))?;
        Ok(Self { name, number })
    }
}

fn open_first(
    directories: &[PathBuf],
    group: Option<Group<'_>>,
) -> Result<(ControlFile, UnixListener), String> {
    let mut whys = Vec::new();
    for directory in directories {
        match open_in(directory, group) {
            Ok(opened) => return Ok(opened),
            Err(why) => whys.push(format!("{}: {why}", directory.display())),
        }
    }
    Err(whys.join("; "))
}

/// Opens a socket in a directory, in which the first instance gets the name without a number.
fn open_in(directory: &Path, group: Option<Group<'_>>) -> Result<(ControlFile, UnixListener), ClaimError> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed("mkdir"))?;
    remove_left_over(directory);
    let pid = std::process::id();
    let mut last = ClaimError::OtherInstance;
    for name in std::iter::once(NAME.to_owned()).chain((0..ROUNDS_MAX).map(|round| name_of(pid, round))) {
        match claim(&directory.join(name), group) {
            Ok(opened) => return Ok(opened),
            Err(why @ ClaimError::Failed { .. }) => return Err(why),
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// Removes the files of killed instances, except [`NAME`], unless they are locked or recent.
fn remove_left_over(directory: &Path) {
    for path in sockets(directory).into_iter().filter(|path| !path.ends_with(NAME)) {
        let age = fs::metadata(&path).and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
        let is_old = age.is_some_and(|age| age > LEFT_OVER_AFTER);
        if is_old
            && let Ok(_lock) = lock(&path)
            && try_connect(&path) == Err(Errno::CONNREFUSED)
        {
            // Another process may have removed the files.
            let _gone = fs::remove_file(&path);
            let _gone = fs::remove_file(lock_path(&path));
        }
    }
}

/// Reason why a path cannot be used.
#[derive(Debug, thiserror::Error)]
enum ClaimError {
    /// A system call failed. The message names the call, because a seccomp filter or a mount may
    /// deny it.
    #[error("{call} failed: {error}")]
    Failed { call: &'static str, error: io::Error },
    #[error("another instance listens there")]
    OtherInstance,
    #[error("exists and is not a socket")]
    NotASocket,
    #[error("another program listens there")]
    OtherProgram,
}

fn failed<E: Into<io::Error>>(call: &'static str) -> impl Fn(E) -> ClaimError {
    move |error| ClaimError::Failed { call, error: error.into() }
}

fn lock_path(path: &Path) -> PathBuf {
    path.with_added_extension("lock")
}

fn lock(path: &Path) -> Result<File, ClaimError> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(lock_path(path)).map_err(failed("open of the lock file"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(ClaimError::OtherInstance),
        Err(error) => Err(failed("flock")(error)),
    }
}

fn claim(path: &Path, group: Option<Group<'_>>) -> Result<(ControlFile, UnixListener), ClaimError> {
    let lock = lock(path)?;
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => return Err(ClaimError::NotASocket),
        Ok(_) if try_connect(path) != Err(Errno::CONNREFUSED) => return Err(ClaimError::OtherProgram),
        Ok(_) => fs::remove_file(path).map_err(failed("unlink"))?,
        Err(_) => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed("socket"))?;
    // Linux creates the file with the mode of the socket, which also works where chmod is denied.
    // If fchmod fails, `permit` calls chmod.
    let _by_chmod = fchmod(&socket, Mode::from_raw_mode(MODE));
    bind(&socket, &SocketAddrUnix::new(path).map_err(failed("bind"))?).map_err(failed("bind"))?;
    let inode = fs::metadata(path).map_err(failed("stat"))?.ino();
    let file = ControlFile { path: path.to_owned(), inode, _lock: lock };
    // Permissions are set before listen, so that no other user can connect meanwhile.
    permit(path, group)?;
    listen(&socket, BACKLOG).map_err(failed("listen"))?;
    Ok((file, UnixListener::from(socket)))
}

/// Changes the group. Skips chown if the file already has the group, because chown may be denied
/// (`SystemCallFilter=`).
fn set_group(path: &Path, group: u32) -> io::Result<()> {
    if fs::metadata(path)?.gid() == group {
        return Ok(());
    }
    chown(path, None, Some(group))
}

/// Sets the group and the mode of the file, which the kernel checks on connect (unix(7)).
fn permit(path: &Path, group: Option<Group<'_>>) -> Result<(), ClaimError> {
    let mut mode = MODE;
    if let Some(Group { name, number }) = group {
        match set_group(path, number) {
            Ok(()) => mode = GROUP_MODE,
            // Only logged: with mode `MODE`, the user of this process can still connect.
            Err(error) => tracing::error!(
                "cannot change the group of {} to {name}, so its members cannot connect: {error}; run doorbell as root, as a member of the \
                 group, or with it as its own group (`Group={name}` of systemd)",
                path.display()
            ),
        }
    }
    if fs::metadata(path).map_err(failed("stat"))?.mode() & 0o7777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("chmod"))
}
