//! Tests the messages to the manager when a worker fails, and the limit of descriptors.

use super::*;
use doorbell::http::{StaticReply, Status};
use doorbell::id::WorkerIndex;
use doorbell::{Engine, Http1, Listen, OnWorkerFailure, Server, Workers, service_fn};
use doorbell_testkit::peers::{exchange, free_addr, wait_until};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::num::NonZeroU16;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

/// Receives the next message to the manager, with its descriptors.
fn next(socket: &UnixDatagram) -> Option<(String, Vec<OwnedFd>)> {
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut iov, &mut control, flags).ok()?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Some((String::from_utf8(bytes[..got.bytes].to_vec()).unwrap(), fds))
}

fn server(addr: SocketAddr) -> Server {
    let ok = StaticReply::text(Status::OK, "ok\n");
    let http = Http1::new(service_fn(move |_, reply| reply.send(&ok)));
    Server::builder()
        .engine(Engine::Epoll)
        .workers(Workers::Count(NonZeroU16::new(2).unwrap()))
        .on_worker_failure(OnWorkerFailure::Degrade)
        .listen(Listen::tcp(addr), http)
        .start()
        .unwrap()
}

fn listens(socket: &OwnedFd) -> bool {
    sockopt::socket_acceptconn(socket).unwrap()
}

/// The socket of a failed worker is shut down. Otherwise the manager's copy would keep it open, and
/// its clients would wait forever.
#[test]
fn the_socket_of_a_failed_worker_is_shut_down_and_the_others_keep_serving() {
    let name = format!("doorbell-fdstore-{}", std::process::id());
    let at = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let manager = UnixDatagram::bind_addr(&at).unwrap();
    let addr = free_addr();
    let server = server(addr);
    let handle = server.handle();
    let mut store = Store::new(Manager::at(format!("@{name}")));
    store.update(&handle.listening().unwrap(), true, 16);
    let (said, stored) = next(&manager).unwrap();
    assert_eq!(said, format!("FDSTORE=1\nFDNAME={}\n", name_of(addr)));
    assert!(stored.len() == 2 && stored.iter().all(listens));
    handle.fail_worker(WorkerIndex(0));
    assert!(wait_until(LIMIT, || !handle.is_healthy()).is_some());
    assert!(stored.iter().all(listens), "a copy keeps a socket open");
    store.update(&handle.listening().unwrap(), true, 16);
    // The manager detects the hang-up of the socket that was shut down, and drops it (systemd's
    // FDPOLL).
    assert_eq!(stored.iter().map(listens).filter(|listens| *listens).count(), 1);
    assert!(next(&manager).is_none(), "no removal by name, because the other socket has the same name");
    assert_eq!(store.stored.len(), 1);
    for _ in 0..100 {
        let got = exchange(addr, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        assert!(got.bytes.ends_with(b"ok\n"), "all connections go to the socket of the running worker");
    }
    // After the second worker has failed, the manager drops the name and the address is free.
    handle.fail_worker(WorkerIndex(1));
    let gone = || handle.listening().unwrap().iter().all(|listening| listening.sockets.is_empty());
    assert!(wait_until(LIMIT, gone).is_some());
    store.update(&handle.listening().unwrap(), true, 16);
    assert_eq!(next(&manager).unwrap().0, format!("FDSTOREREMOVE=1\nFDNAME={}\n", name_of(addr)));
    assert!(store.stored.is_empty() && !stored.iter().any(listens));
    assert!(exchange(addr, b"GET / HTTP/1.0\r\n\r\n").is_err());
    drop(server);
}

#[test]
fn kept_sockets_are_counted_as_descriptors() {
    for (sockets, passed, capacity, expected) in [
        (4, 0, 0, 0),
        (4, 3, 0, 6),
        (4, 0, 16, 4 + 4 + 1),
        (4, 4, 16, 8 + 4 + 4 + 1),
        (4, 0, 2, 2 + 4 + 1),
        (4, 0, usize::MAX, 4 + 4 + 1),
    ] {
        assert_eq!(needed(sockets, passed, capacity), expected, "{sockets} {passed} {capacity}");
    }
}

#[test]
fn names_are_valid_for_the_manager() {
    for (addr, expected) in
        [("127.0.0.1:80", "doorbell-listener-127.0.0.1_80"), ("[::]:8080", "doorbell-listener-[__]_8080")]
    {
        assert_eq!(name_of(addr.parse().unwrap()), expected);
    }
}

#[test]
fn the_manager_announces_the_limit() {
    let settings = |fd_store, notify| Systemd { fd_store, notify, ..Systemd::default() };
    for (fd_store, announced, expected) in [
        (FdStore::Auto, None, 0),
        (FdStore::Auto, Some("x"), 0),
        (FdStore::Auto, Some("8"), 8),
        (FdStore::Off, Some("8"), 0),
        (FdStore::On, None, usize::MAX),
        (FdStore::On, Some("8"), 8),
        (FdStore::On, Some("0"), 0),
    ] {
        assert_eq!(capacity(settings(fd_store, true), announced), expected, "{fd_store:?} {announced:?}");
        assert_eq!(capacity(settings(fd_store, false), announced), 0);
    }
}
