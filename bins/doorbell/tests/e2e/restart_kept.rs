//! Listening sockets that a service manager keeps across a restart: no client that connects during
//! the restart is lost.
//!
//! A socket that receives descriptors, and a shell that passes them on, take the place of systemd.

use std::fmt::Display;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use doorbell_testkit::peers::wait_until;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Signal;

use crate::plain::get;
use crate::support::{Doorbell, LIMIT, Scratch, binary, free_addr, has_ipv6, on_both_engines, program};

on_both_engines! {
    clients_that_connect_during_a_restart_are_served
    another_number_of_workers_loses_no_client
    removed_listeners_refuse_connections
}

/// A service manager: the messages and descriptors that it has received.
struct Manager {
    socket: UnixDatagram,
    scratch: Scratch,
    said: Vec<String>,
    kept: Vec<(String, OwnedFd)>,
}

fn listener(name: &str, addr: impl Display) -> String {
    format!("[listener.{name}]\nbind = \"{addr}\"\n")
}

fn agent(addr: &str) -> String {
    format!("[agent.b]\nbind = \"{addr}\"\n")
}

fn config(workers: u32, more: &str, listeners: &str) -> String {
    format!(
        "version = 1\n[runtime]\nworkers = {workers}\n[control]\nsocket = \"off\"\n[lifecycle]\ndrain_delay = \"0s\"\n{more}{listeners}"
    )
}

fn name_of(addr: SocketAddr) -> String {
    format!("doorbell-listener-{}", addr.to_string().replace(':', "_"))
}

impl Manager {
    fn new() -> Self {
        let scratch = Scratch::new();
        let socket = UnixDatagram::bind(scratch.path("notify")).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self { socket, scratch, said: Vec::new(), kept: Vec::new() }
    }

    fn file(&self, text: &str) -> String {
        self.scratch.write("doorbell.toml", text)
    }

    /// Starts an instance that inherits the kept descriptors, from number 3 on.
    fn start(&self, engine: &str, text: &str, room: Option<u32>) -> Doorbell {
        let file = self.file(text);
        let names: Vec<&str> = self.kept.iter().map(|(name, _)| name.as_str()).collect();
        let mut command = Command::new("bash");
        command
            .args(["-c", "export LISTEN_PID=$$; exec \"$@\"", "bash"])
            .arg(binary())
            .args(["serve", "-c", &file, "--driver", engine]);
        command.env("NOTIFY_SOCKET", self.scratch.path("notify"));
        command.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        match room {
            Some(room) => command.env("FDSTORE", room.to_string()),
            None => command.env_remove("FDSTORE"),
        };
        // Runs between fork and exec, so that programs of other tests do not inherit the
        // descriptors.
        let mapping = |(child_fd, (_, socket)): (RawFd, &(String, OwnedFd))| {
            Ok(FdMapping { parent_fd: socket.try_clone()?, child_fd })
        };
        let mappings = (3..).zip(&self.kept).map(mapping).collect::<io::Result<Vec<_>>>().unwrap();
        command.fd_mappings(mappings).unwrap();
        Doorbell::try_start_command(&mut command).unwrap_or_else(|log| panic!("{log}"))
    }

    fn next(&mut self) -> String {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut iov = [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&self.socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC)
            .unwrap_or_else(|error| panic!("{error} after {:?}", self.said));
        let text = String::from_utf8(bytes[..got.bytes].to_vec()).unwrap();
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
        if text.starts_with("FDSTOREREMOVE=1\n") {
            self.kept.retain(|(kept, _)| Some(&**kept) != name);
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                assert!(text.starts_with("FDSTORE=1\n"), "{text:?}");
                // High descriptor numbers, which do not collide with those of the shell.
                let high = fds.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 100).unwrap());
                self.kept.extend(high.map(|fd| (name.unwrap().to_owned(), fd)));
            }
        }
        self.said.push(text.clone());
        text
    }

    fn until(&mut self, wanted: &str) {
        while !self.next().lines().any(|line| line.starts_with(wanted)) {}
    }

    fn names(&self) -> Vec<String> {
        self.kept.iter().map(|(name, _)| name.clone()).collect()
    }
}

fn end(mut doorbell: Doorbell) {
    doorbell.process.signal(Signal::TERM);
    let (status, _) = doorbell.process.wait();
    assert!(status.success(), "{}", doorbell.process.log());
}

/// Clients that connect while no process serves.
fn clients(addr: SocketAddr, count: usize) -> Vec<TcpStream> {
    let client = |number| {
        let mut client = TcpStream::connect(addr).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let head = format!("GET /livez?{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.write_all(head.as_bytes()).unwrap();
        client
    };
    (0..count).map(client).collect()
}

#[track_caller]
fn are_served(clients: Vec<TcpStream>, doorbell: &Doorbell) {
    for (number, mut client) in clients.into_iter().enumerate() {
        let mut reply = String::new();
        let read = client.read_to_string(&mut reply);
        assert!(
            read.is_ok() && reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("up\n"),
            "client {number}: {read:?} {reply:?}\n{}",
            doorbell.process.log()
        );
    }
}

fn is_refused(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn clients_that_connect_during_a_restart_are_served(engine: &str) {
    // Not every `sh` accepts descriptor numbers of more than one digit: dash does not, bash does.
    let Some(_bash) = program("bash") else { return };
    let mut manager = Manager::new();
    let [web, more] = [free_addr(), free_addr()];
    let text = config(2, "", &(listener("web", web) + &listener("more", more)));
    let mut doorbell = manager.start(engine, &text, Some(16));
    manager.until("READY=1");
    assert_eq!(manager.names(), [name_of(web), name_of(web), name_of(more), name_of(more)]);
    for _restart in 0..3 {
        assert_eq!(get(web, "/livez", &[]).status, 200);
        end(doorbell);
        manager.until("STOPPING=1");
        let waiting: Vec<_> = [web, more].into_iter().flat_map(|addr| clients(addr, 20)).collect();
        doorbell = manager.start(engine, &text, Some(16));
        are_served(waiting, &doorbell);
        let before = manager.said.len();
        manager.until("READY=1");
        let sent = manager.said[before..].concat();
        assert!(!sent.contains("FDSTORE"), "kept sockets must not be sent again: {sent:?}");
        assert_eq!(manager.kept.len(), 4);
    }
    // After SIGKILL the process sends no message, and no waiting client is lost.
    doorbell.process.signal(Signal::KILL);
    doorbell.process.wait();
    let waiting = clients(web, 20);
    let doorbell = manager.start(engine, &text, Some(16));
    are_served(waiting, &doorbell);
}

fn another_number_of_workers_loses_no_client(engine: &str) {
    let Some(_bash) = program("bash") else { return };
    let mut manager = Manager::new();
    let web = free_addr();
    let listeners = listener("web", web);
    let mut doorbell = manager.start(engine, &config(2, "", &listeners), Some(16));
    manager.until("READY=1");
    for (workers, kept) in [(1, 2), (3, 3), (1, 3), (2, 3)] {
        end(doorbell);
        manager.until("STOPPING=1");
        let waiting = clients(web, 40);
        doorbell = manager.start(engine, &config(workers, "", &listeners), Some(16));
        are_served(waiting, &doorbell);
        manager.until("READY=1");
        assert_eq!(manager.kept.len(), kept, "{workers} workers");
        are_served(clients(web, 40), &doorbell);
    }
    end(doorbell);
    // All workers share one kept socket without SO_REUSEPORT.
    let web = free_addr();
    let listeners = listener("web", web);
    let mut manager = Manager::new();
    let doorbell = manager.start(engine, &config(1, "", &listeners), Some(16));
    manager.until("READY=1");
    end(doorbell);
    let waiting = clients(web, 20);
    let doorbell = manager.start(engine, &config(3, "", &listeners), Some(16));
    are_served(waiting, &doorbell);
    assert_eq!(manager.kept.len(), 1);
}

fn removed_listeners_refuse_connections(engine: &str) {
    let Some(_bash) = program("bash") else { return };
    let mut manager = Manager::new();
    let [web, more, other] = [free_addr(), free_addr(), free_addr()];
    let both = config(2, "", &(listener("web", web) + &listener("more", more)));
    let mut doorbell = manager.start(engine, &both, Some(16));
    manager.until("READY=1");
    // A reload removes a listener from the file.
    manager.file(&config(2, "", &(listener("web", web) + &listener("other", other))));
    doorbell.process.signal(Signal::HUP);
    manager.until("RELOADING=1");
    manager.until("READY=1");
    assert_eq!(manager.names(), [name_of(web), name_of(web), name_of(other), name_of(other)]);
    assert!(is_refused(more), "{}", doorbell.process.log());
    assert_eq!((get(web, "/livez", &[]).status, get(other, "/livez", &[]).status), (200, 200));
    end(doorbell);
    manager.until("STOPPING=1");
    // A start with a file that lacks the listener.
    doorbell = manager.start(engine, &config(2, "", &listener("web", web)), Some(16));
    manager.until("READY=1");
    assert_eq!(manager.names(), [name_of(web), name_of(web)]);
    assert!(wait_until(LIMIT, || is_refused(other)).is_some(), "{}", doorbell.process.log());
    are_served(clients(web, 10), &doorbell);
    // The address of the removed listener can be bound again.
    manager.file(&both);
    doorbell.process.signal(Signal::HUP);
    manager.until("RELOADING=1");
    manager.until("READY=1");
    assert_eq!(manager.kept.len(), 4);
    are_served(clients(more, 10), &doorbell);
}

/// A kept socket would keep the address in use, so that no start succeeds.
#[test]
fn kept_sockets_that_overlap_a_new_address_are_closed() {
    let (Some(_bash), true) = (program("bash"), has_ipv6()) else { return };
    let mut manager = Manager::new();
    let [web, other] = [free_addr(), free_addr()];
    let [v6, v4, local] = ["[::]", "0.0.0.0", "127.0.0.1"].map(|ip| format!("{ip}:{}", other.port()));
    let admin = format!("[admin]\nbind = \"{v4}\"\nopen = true\n");
    for (tables, kept) in [
        (listener("a", &v6), vec![&v6]),
        (listener("a", &v6) + &agent(&v4), vec![&v6, &v4]),
        (listener("a", &v6), vec![&v6]),
        (listener("a", &v4), vec![&v4]),
        (listener("a", &local), vec![&local]),
        (listener("a", &v4), vec![&v4]),
        (admin, vec![]),
    ] {
        let text = config(1, "", &(listener("web", web) + &tables));
        let doorbell = manager.start("epoll", &text, Some(16));
        manager.until("READY=1");
        let names = kept.into_iter().map(|addr| name_of(addr.parse().unwrap()));
        let names: Vec<_> = std::iter::once(name_of(web)).chain(names).collect();
        assert_eq!(manager.names(), names, "{tables}");
        assert_eq!(TcpStream::connect(other).map(drop).map_err(|error| error.kind()), Ok(()), "{tables}");
        end(doorbell);
        manager.until("STOPPING=1");
    }
}

#[test]
fn nothing_is_kept_without_room_or_configuration() {
    let Some(_bash) = program("bash") else { return };
    let web = free_addr();
    let listeners = listener("web", web);
    for (more, room, expected) in [
        ("", None, 0),
        ("", Some(0), 0),
        ("", Some(1), 0),
        ("", Some(2), 2),
        ("[systemd]\nfd_store = \"off\"\n", Some(16), 0),
        ("[systemd]\nfd_store = \"on\"\n", None, 2),
    ] {
        let mut manager = Manager::new();
        let doorbell = manager.start("epoll", &config(2, more, &listeners), room);
        manager.until("READY=1");
        assert_eq!(manager.kept.len(), expected, "{more:?} {room:?}");
        let warns = || doorbell.process.log().contains("set FileDescriptorStoreMax=");
        // Log lines of the start may arrive a moment later.
        let limit = if room == Some(1) { LIMIT } else { Duration::ZERO };
        assert_eq!(wait_until(limit, warns).is_some(), room == Some(1), "{more:?} {room:?}");
        if expected == 2 {
            // The kept sockets are used, and dropped once `fd_store` is off.
            end(doorbell);
            manager.until("STOPPING=1");
            let waiting = clients(web, 5);
            let text = config(2, "[systemd]\nfd_store = \"off\"\n", &listeners);
            let doorbell = manager.start("epoll", &text, Some(16));
            are_served(waiting, &doorbell);
            manager.until("READY=1");
            assert_eq!(manager.kept.len(), 0);
            assert_eq!(get(web, "/livez", &[]).status, 200);
        }
    }
    let mut manager = Manager::new();
    let port = SocketAddr::from(([127, 0, 0, 1], 0));
    let _doorbell = manager.start("epoll", &config(2, "", &listener("any", port)), Some(16));
    manager.until("READY=1");
    assert_eq!(manager.kept.len(), 0, "sockets of port 0 must not be kept");
}
