//! Tests files of control sockets.

use super::socket::open;
use doorbell_control::places::{NAME, find_running};
use doorbell_proxy_config::model::{Control, ControlSocket};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("doorbell-control-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn control(&self, name: &str) -> Control {
        Control { socket: ControlSocket::Path(self.0.join(name)), group: None }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_living_socket_is_not_taken_and_a_dead_one_is() {
    let folder = Folder::new();
    let control = folder.control(NAME);
    let (file, listener) = open(&control).unwrap().unwrap();
    assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    let why = open(&control).unwrap_err();
    assert!(why.contains("another instance listens there"), "{why}");
    assert_eq!(find_running(std::slice::from_ref(&folder.0)).running, [file.path()]);
    // After a kill, the file remains and the lock is released.
    let path = file.path().to_owned();
    drop(listener);
    let kept = path.with_extension("kept");
    fs::rename(&path, &kept).unwrap();
    drop(file);
    fs::rename(&kept, &path).unwrap();
    assert_eq!(find_running(std::slice::from_ref(&folder.0)).running, [] as [&std::path::Path; 0]);
    let (file, _listener) = open(&control).unwrap().unwrap();
    assert_eq!(find_running(std::slice::from_ref(&folder.0)).running, [file.path()]);
    drop(file);
    let left = fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(left, 0, "the file and its lock file are removed");
}

/// A full backlog of another program does not block: a blocking connect would wait for an accept.
#[test]
fn a_socket_whose_backlog_is_full_has_a_process() {
    let folder = Folder::new();
    let path = folder.0.join(NAME);
    let stranger = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&stranger, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&stranger, 0).unwrap();
    let _waits = UnixStream::connect(&path).unwrap();
    let (sender, receiver) = sync_channel(1);
    let (control, folders) = (folder.control(NAME), [folder.0.clone()]);
    std::thread::spawn(move || sender.send((open(&control).map(drop), find_running(&folders))));
    let (opened, found) = receiver.recv_timeout(Duration::from_secs(60)).expect("the connect must not block");
    assert!(opened.unwrap_err().contains("another program listens there"));
    assert_eq!(found.running, [path]);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let folder = Folder::new();
    fs::write(folder.0.join("file"), "x").unwrap();
    let why = open(&folder.control("file")).unwrap_err();
    assert!(why.contains("not a socket"), "{why}");
    assert_eq!(fs::read_to_string(folder.0.join("file")).unwrap(), "x");
    let _other = UnixListener::bind(folder.0.join("other")).unwrap();
    let why = open(&folder.control("other")).unwrap_err();
    assert!(why.contains("another program listens there"), "{why}");
    assert!(open(&folder.control("no/such/folder")).is_err());
    let control = Control { socket: ControlSocket::Off, group: None };
    assert!(open(&control).unwrap().is_none());
    let control = Control { group: Some("no-such-group".to_owned()), ..folder.control("grouped") };
    let why = open(&control).unwrap_err();
    assert!(why.contains("no-such-group"), "{why}");
}
