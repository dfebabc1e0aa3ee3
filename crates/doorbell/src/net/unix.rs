//! Unix sockets with a path: when an existing file may be replaced, and when the file of a socket
//! is removed.

use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::unusable::Unusable;
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

/// The error for a path with a file that must not be replaced.
const NOT_A_SOCKET: Unusable =
    Unusable("there is a file that is not a socket: remove it, or choose another path");

/// The file of a listening socket that [`bind`] created. Each server that listens on the socket has
/// a reference and drops it before it closes the socket; the last reference removes the file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: FileId,
}

/// Identity of a file, independent of its name. An open socket keeps its inode, so no other file
/// can get this identity while the socket is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// The file that exists at the path of a new socket.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// A socket on which a process listens, or may listen.
    Alive,
    /// Nothing.
    None,
    /// A file of another type, which may contain data.
    NotASocket,
    /// A socket on which no process listens.
    Stale(FileId),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        let (id, _) = FileId::of(path)?;
        Ok(Self { path: path.to_owned(), id })
    }

    /// Sets the permissions of the file, unless the path now names another file.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        if !self.is_there() {
            return Ok(());
        }
        std::fs::set_permissions(&self.path, Permissions::from_mode(mode))
    }

    fn is_there(&self) -> bool {
        FileId::of(&self.path).is_ok_and(|(id, _)| id == self.id)
    }
}

impl Drop for SocketFile {
    /// Removes the file, unless the path now names another file.
    fn drop(&mut self) {
        if self.is_there() {
            // Without permission to remove it, the file stays until a server with permission
            // replaces it.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}

impl FileId {
    /// Returns the identity of the file at `path`, without following a link, and whether the file
    /// is a socket.
    fn of(path: &Path) -> io::Result<(Self, bool)> {
        let meta = std::fs::symlink_metadata(path)?;
        Ok((Self { device: meta.dev(), inode: meta.ino() }, meta.file_type().is_socket()))
    }
}

/// The call that failed, and its error.
type CallError = (&'static str, io::Error);

/// Binds a socket to `path` and returns it with its file; an abstract name (unix(7)) has no file.
/// An existing file is replaced only if it is a socket on which no process listens. The file gets
/// the permissions `mode`, and never has more; with `None`, the file mode creation mask determines
/// them.
///
/// # Errors
/// The call that failed, and its error.
pub(super) fn bind(path: &Path, mode: Option<u32>) -> Result<(Socket, Option<Arc<SocketFile>>), CallError> {
    let addr = SockAddr::unix(path).map_err(|error| ("bind", error))?;
    let socket =
        Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).map_err(|error| ("socket", error))?;
    if let Some(mode) = mode {
        // The new file gets the mode of the socket, without the bits of the creation mask.
        fchmod(&socket, Mode::from_raw_mode(mode)).map_err(|error| ("fchmod", error.into()))?;
    }
    if let Err(error) = socket.bind(&addr) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(("bind", error));
        }
        match look(path) {
            Obstacle::Alive => return Err(("bind", error)),
            Obstacle::NotASocket => return Err(("bind", io::Error::other(NOT_A_SOCKET))),
            Obstacle::None => {}
            Obstacle::Stale(id) => {
                // Another process may have bound the path since the first check.
                if FileId::of(path).is_ok_and(|(now, _)| now == id) {
                    std::fs::remove_file(path).map_err(|error| ("unlink", error))?;
                }
            }
        }
        socket.bind(&addr).map_err(|error| ("bind", error))?;
    }
    let file =
        if is_abstract(path) { None } else { Some(SocketFile::of(path).map_err(|error| ("lstat", error))?) };
    if let (Some(file), Some(mode)) = (&file, mode) {
        file.set_mode(mode).map_err(|error| ("chmod", error))?;
    }
    Ok((socket, file.map(Arc::new)))
}

/// Whether the name is abstract: it is not in a file system and begins with a NUL (unix(7)).
fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_bytes().starts_with(b"\0")
}

fn look(path: &Path) -> Obstacle {
    match FileId::of(path) {
        Ok((_, false)) => Obstacle::NotASocket,
        _ if is_abstract(path) => Obstacle::Alive,
        Ok((id, true)) if is_stale(path) => Obstacle::Stale(id),
        Ok((_, true)) => Obstacle::Alive,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Obstacle::None,
        // An inaccessible file must not be removed.
        Err(_) => Obstacle::Alive,
    }
}

/// True if no process listens on the socket. EAGAIN means that a process listens and its backlog is
/// full; a blocking connect would wait for the backlog.
fn is_stale(path: &Path) -> bool {
    let Ok(addr) = SockAddr::unix(path) else { return false };
    let Ok(probe) = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None) else { return false };
    let connected = probe.connect(&addr);
    connected.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::CONNREFUSED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    /// Returns an unused path for a test.
    fn fresh(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("doorbell-unix-{}-{name}", std::process::id()));
        let _gone = std::fs::remove_file(&path);
        path
    }

    fn is_not_a_socket(error: &io::Error) -> bool {
        Unusable::is_cause_of(error) && error.to_string().contains("not a socket")
    }

    fn code(error: &io::Error) -> Option<Errno> {
        Errno::from_io_error(error)
    }

    #[test]
    fn a_file_that_is_no_socket_is_not_replaced() {
        let path = fresh("data");
        std::fs::write(&path, "all we have").unwrap();
        let (call, error) = bind(&path, None).unwrap_err();
        assert_eq!(call, "bind");
        assert!(is_not_a_socket(&error), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "all we have");
        std::fs::remove_file(&path).unwrap();

        let (target, link) = (fresh("target"), fresh("link"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        drop(UnixListener::bind(&target).unwrap());
        assert!(is_not_a_socket(&bind(&link, None).unwrap_err().1));
        assert!(std::fs::symlink_metadata(&link).is_ok() && target.exists());
        for path in [target, link] {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn the_file_gets_its_mode_whatever_the_creation_mask() {
        let path = fresh("mode");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        for wanted in [0o600, 0o666] {
            let (_socket, file) = bind(&path, Some(wanted)).unwrap();
            assert_eq!(mode(), wanted);
            file.as_ref().unwrap().set_mode(0o660).unwrap();
            assert_eq!(mode(), 0o660);
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "").unwrap();
            let before = mode();
            file.unwrap().set_mode(0o777).unwrap();
            assert_eq!(mode(), before, "another file");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let path = fresh("stale");
        drop(UnixListener::bind(&path).unwrap());
        let (socket, file) = bind(&path, None).unwrap();
        socket.listen(1).unwrap();
        assert_eq!(code(&bind(&path, None).unwrap_err().1), Some(Errno::ADDRINUSE), "it listens");
        drop(file);
        assert!(!path.exists());

        let datagrams = UnixDatagram::bind(&path).unwrap();
        assert_eq!(
            code(&bind(&path, None).unwrap_err().1),
            Some(Errno::ADDRINUSE),
            "a socket of another type"
        );
        drop(datagrams);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_socket_with_a_full_backlog_is_not_replaced() {
        let path = fresh("full");
        let (server, _file) = bind(&path, None).unwrap();
        server.listen(0).unwrap();
        let addr = SockAddr::unix(&path).unwrap();
        let mut waiting = Vec::new();
        loop {
            let client = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).unwrap();
            match client.connect(&addr) {
                Ok(()) => waiting.push(client),
                Err(error) => break assert_eq!(code(&error), Some(Errno::AGAIN)),
            }
        }
        assert_eq!(code(&bind(&path, None).unwrap_err().1), Some(Errno::ADDRINUSE));
    }

    #[test]
    fn an_abstract_name_has_no_file() {
        let name = format!("\0doorbell-abstract-{}", std::process::id());
        let (socket, file) = bind(Path::new(&name), None).unwrap();
        socket.listen(1).unwrap();
        assert!(file.is_none());
        assert_eq!(code(&bind(Path::new(&name), None).unwrap_err().1), Some(Errno::ADDRINUSE));
    }

    #[test]
    fn the_file_of_a_later_socket_is_not_removed() {
        let path = fresh("taken");
        let (_socket, file) = bind(&path, None).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (_theirs, their_file) = bind(&path, None).unwrap();
        drop(file);
        assert!(path.exists(), "the file of the later socket stays");
        drop(their_file);
        assert!(!path.exists());
    }
}
