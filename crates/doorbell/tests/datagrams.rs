//! Datagram listeners on real sockets: addresses, limits, drains, successors and failures.
//!
//! Does not know about: single drivers (see `conformance`), lost datagrams (see `simulator`).
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real sockets and may panic"
)]

mod promise;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use doorbell::control::WorkerShared;
use doorbell::datagram::{DatagramListen, DatagramReply, DatagramRequest};
use doorbell::driver::epoll::Epoll;
use doorbell::driver::uring::{Uring, UringOptions};
use doorbell::driver::{DatagramSocket, Driver, DriverSockets, Waker};
use doorbell::http::limit::Quota;
use doorbell::id::WorkerIndex;
use doorbell::time::OsClock;
use doorbell::worker::{Flow, ServerShared, Worker};
use doorbell::{DatagramSnapshot, Engine, Limits, Server, ServerBuilder};
use doorbell_testkit::peers::wait_until;
use doorbell_testkit::skip;

use promise::{anywhere, builder, on_both_engines, raw};

on_both_engines! {
    replies_leave_from_the_address_that_was_asked
    every_outcome_is_counted
    a_drain_answers_what_is_queued_and_closes_the_port
    generations_lose_no_datagram
    a_successor_that_ends_early_leaves_the_sockets
    another_process_continues_with_the_sockets
    a_port_can_be_refused_and_opened_again
    a_batch_allocates_nothing
}

const PATIENCE: Duration = Duration::from_secs(20);
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn echo(request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>) {
    reply.send(request.payload());
}

fn listen() -> DatagramListen {
    DatagramListen::udp(LOOPBACK)
}

fn start(builder: ServerBuilder) -> (Server, SocketAddr) {
    let server = builder.start().unwrap();
    let addr = server.datagram_addrs()[0];
    (server, addr)
}

/// A connected client, which gets an error if the port is closed.
fn client(server: SocketAddr) -> UdpSocket {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let client = UdpSocket::bind((any, 0)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(server).unwrap();
    client
}

fn ask(client: &UdpSocket, payload: &[u8]) -> Vec<u8> {
    client.send(payload).unwrap();
    receive(client)
}

/// Receives a datagram. Work of a ring that this thread has opened can interrupt a receive with a
/// timeout.
fn recv(client: &UdpSocket, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match client.recv(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

fn receive(client: &UdpSocket) -> Vec<u8> {
    let mut reply = vec![0; 2_048];
    let len = recv(client, &mut reply).unwrap();
    reply.truncate(len);
    reply
}

fn stats(server: &Server) -> DatagramSnapshot {
    server.handle().datagram_stats()[0]
}

/// A connected client accepts replies only from the address to which it sends its requests.
fn replies_leave_from_the_address_that_was_asked(engine: Engine) {
    let local = |request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>| {
        reply.send(format!("{} {}", request.peer(), request.local().unwrap()));
    };
    for (bind, asked) in [
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), "127.0.0.1"),
        (Ipv4Addr::UNSPECIFIED.into(), "127.0.0.77"),
        (Ipv6Addr::UNSPECIFIED.into(), "127.0.0.77"),
        (Ipv6Addr::UNSPECIFIED.into(), "::1"),
    ] {
        if UdpSocket::bind((bind, 0)).is_err() {
            continue;
        }
        let listen = DatagramListen::udp((bind, 0).into()).amplification(NonZeroU16::new(100).unwrap());
        let (server, addr) = start(builder(engine).listen_datagrams(listen, local));
        let asked: IpAddr = asked.parse().unwrap();
        for _ in 0..4 {
            let client = client((asked, addr.port()).into());
            let own = client.local_addr().unwrap();
            assert_eq!(String::from_utf8(ask(&client, b"?")).unwrap(), format!("{own} {asked}"));
        }
        server.stop().unwrap();
    }
}

fn every_outcome_is_counted(engine: Engine) {
    let handle = |request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>| match request.payload() {
        b"bug" => panic!("a defect of the handler"),
        b"silent" => {}
        b"long" => reply.send("longer"),
        payload => reply.send(payload),
    };
    let quota = Quota::new(6, 1, Duration::from_secs(3_600)).unwrap();
    let listen = listen().size_max(20).limit(Some((quota, 100)));
    let (server, addr) = start(builder(engine).listen_datagrams(listen, handle));
    let client = client(addr);
    for payload in [&b"bug"[..], b"silent", b"long", &[b'x'; 21]] {
        client.send(payload).unwrap();
    }
    assert_eq!(ask(&client, b""), b"", "an empty datagram has an empty reply");
    assert_eq!(ask(&client, b"exactly twenty bytes"), b"exactly twenty bytes");
    assert_eq!(ask(&client, b"last"), b"last");
    client.send(b"one too many").unwrap();
    wait_until(PATIENCE, || stats(&server).limited > 0).unwrap();
    let expected = [
        ("received", 8),
        ("replied", 3),
        ("send_failed", 0),
        ("silent", 1),
        ("truncated", 1),
        ("limited", 1),
        ("guarded", 1),
        ("panicked", 1),
        ("invalid", 0),
        ("dropped", 0),
        ("recv_errors", 0),
    ];
    assert!(stats(&server).fields().eq(expected), "{:?}", stats(&server));
    assert_eq!(server.stats().handler_panics, 1);
    server.stop().unwrap();
}

fn a_drain_answers_what_is_queued_and_closes_the_port(engine: Engine) {
    const COUNT: usize = 100;
    let slow = |request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>| {
        thread::sleep(Duration::from_millis(1));
        reply.send(request.payload());
    };
    for stops in [false, true] {
        // The server also has a listener for connections, which must not keep it from ending.
        let builder = builder(engine).listen(anywhere(), raw()).listen_datagrams(listen(), slow);
        let (server, addr) = start(builder);
        let handle = server.handle();
        let client = client(addr);
        (0..COUNT).for_each(|_| assert_eq!(client.send(b"x").unwrap(), 1));
        if stops {
            server.stop().unwrap()
        } else {
            server.drain(PATIENCE).unwrap()
        }
        let stats = handle.datagram_stats()[0];
        assert_eq!(stats.received + stats.dropped, COUNT as u64, "{stats:?}");
        assert_eq!(stats.replied, stats.received, "{stats:?}");
        assert!(stops || stats.dropped == 0, "a drain drops nothing: {stats:?}");
        (0..stats.replied).for_each(|_| assert_eq!(receive(&client), b"x"));
        // The first send after the close is answered by ICMP.
        let refused = || client.send(b"x").is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        wait_until(PATIENCE, refused).unwrap();
    }
}

fn generations_lose_no_datagram(engine: Engine) {
    let (ended, generation) = (AtomicBool::new(false), Arc::new(AtomicU16::new(0)));
    let numbered = |number: u16| {
        let shown = Arc::clone(&generation);
        move |request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>| {
            shown.fetch_max(number, Ordering::Relaxed);
            reply.send(request.payload());
        }
    };
    let (mut server, addr) = start(builder(engine).listen_datagrams(listen(), numbered(0)));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let client = client(addr);
                for number in 0_u64.. {
                    let asked = number.to_ne_bytes();
                    assert_eq!(ask(&client, &asked), asked, "each datagram gets one reply");
                    if ended.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        for number in 1..=10 {
            let next = builder(engine).listen_datagrams(listen(), numbered(number));
            let next = next.succeed(&server.handle()).start().unwrap();
            assert_eq!(next.datagram_addrs(), [addr], "the same port");
            assert!(next.handle().take_over(PATIENCE));
            core::mem::replace(&mut server, next).wait().unwrap();
            wait_until(PATIENCE, || generation.load(Ordering::Relaxed) == number).unwrap();
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(stats(&server).dropped, 0);
    server.stop().unwrap();
}

/// Before the take-over, a successor neither filters nor empties the sockets of its predecessor.
fn a_successor_that_ends_early_leaves_the_sockets(engine: Engine) {
    let (server, addr) = start(builder(engine).listen_datagrams(listen(), echo));
    let clients: Vec<_> = (0..8).map(|_| client(addr)).collect();
    for stops in [false, true] {
        let next = builder(engine).listen_datagrams(listen(), echo);
        let next = next.succeed(&server.handle()).start().unwrap();
        let handle = next.handle();
        clients.iter().for_each(|client| assert_eq!(ask(client, b"both"), b"both"));
        if stops {
            next.stop().unwrap()
        } else {
            next.drain(PATIENCE).unwrap()
        }
        assert_eq!(handle.datagram_stats()[0].dropped, 0);
        clients.iter().for_each(|client| assert_eq!(ask(client, b"alone"), b"alone"));
    }
    server.stop().unwrap();
}

fn another_process_continues_with_the_sockets(engine: Engine) {
    let (server, addr) = start(builder(engine).listen_datagrams(listen(), echo));
    let client = client(addr);
    assert_eq!(ask(&client, b"first"), b"first");
    let passed = server.handle().receiving().unwrap().remove(0);
    assert_eq!((passed.addr, passed.sockets.len()), (addr, 2));
    server.drain(PATIENCE).unwrap();
    client.send(b"queued").unwrap();
    let listen = DatagramListen::udp(passed.asked).receiving(passed.sockets);
    let (server, next_addr) = start(builder(engine).listen_datagrams(listen, echo));
    assert_eq!(next_addr, addr);
    assert_eq!(receive(&client), b"queued");
    server.stop().unwrap();
}

fn a_port_can_be_refused_and_opened_again(engine: Engine) {
    for bind in [LOOPBACK, (Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv6Addr::UNSPECIFIED, 0).into()] {
        if UdpSocket::bind(bind).is_err() {
            continue;
        }
        let (server, addr) = start(builder(engine).listen_datagrams(DatagramListen::udp(bind), echo));
        let handle = server.handle();
        let asked = SocketAddr::from((Ipv4Addr::LOCALHOST, addr.port()));
        for _ in 0..2 {
            let client = client(asked);
            assert_eq!(ask(&client, b"open"), b"open");
            handle.refuse_datagrams(0, true).unwrap();
            client.send(b"refused").unwrap();
            let error = recv(&client, &mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
            assert!(UdpSocket::bind(addr).is_err(), "the port stays reserved");
            handle.refuse_datagrams(0, false).unwrap();
        }
        handle.refuse_datagrams(0, true).unwrap();
        let next = builder(engine).listen_datagrams(DatagramListen::udp(bind), echo);
        let next = next.succeed(&handle).start().unwrap();
        assert!(next.handle().take_over(PATIENCE));
        assert_eq!(ask(&client(asked), b"next"), b"next", "a successor receives again");
        next.stop().unwrap();
    }
}

/// The sockets survive the ring.
#[test]
fn epoll_continues_with_the_sockets_of_a_failed_ring() {
    if !skip::io_uring() {
        return;
    }
    let (server, addr) = start(builder(Engine::Auto).listen_datagrams(listen(), echo));
    let clients: Vec<_> = (0..8).map(|_| client(addr)).collect();
    let all = || clients.iter().for_each(|client| assert_eq!(ask(client, b"x"), b"x"));
    all();
    // A batch is counted after its replies have left.
    let counted = |count| wait_until(PATIENCE, || stats(&server).received == count).unwrap();
    counted(8);
    // No datagram is in progress here: the ring would lose one that it has received and not
    // reported.
    for worker in 0..2 {
        server.handle().fail_worker(WorkerIndex(worker));
    }
    wait_until(PATIENCE, || server.stats().driver_fallbacks == 2).unwrap();
    all();
    counted(16);
    server.stop().unwrap();
}

#[test]
fn a_socket_of_another_kind_is_refused() {
    let tcp = std::net::TcpListener::bind(LOOPBACK).unwrap();
    let error = Server::builder().listen_datagrams(DatagramListen::inherited(tcp.into()), echo).start();
    let error = error.unwrap_err();
    assert!(error.to_string().contains("not a UDP socket"), "{error}");
    let taken = UdpSocket::bind(LOOPBACK).unwrap();
    let listen = DatagramListen::udp(taken.local_addr().unwrap());
    let error = Server::builder().listen_datagrams(listen, echo).start().unwrap_err();
    assert_eq!(error.kind(), doorbell::StartErrorKind::AddressInUse, "{error}");
}

#[test]
fn workers_share_a_socket_that_was_passed() {
    for engine in [Engine::Epoll, Engine::Auto] {
        let socket = UdpSocket::bind(LOOPBACK).unwrap();
        let addr = socket.local_addr().unwrap();
        let own = socket.try_clone().unwrap();
        let builder = builder(engine).listen_datagrams(DatagramListen::inherited(socket.into()), echo);
        let (server, _) = start(builder);
        (0..4).for_each(|_| assert_eq!(ask(&client(addr), b"x"), b"x"));
        server.drain(PATIENCE).unwrap();
        client(addr).send(b"left").unwrap();
        own.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(receive(&own), b"left", "its owner still has the socket");
    }
}

fn a_batch_allocates_nothing(engine: Engine) {
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    socket.set_nonblocking(true).unwrap();
    doorbell_ring::sockopt::set_recv_pktinfo(socket.as_fd(), false).unwrap();
    let client = client(socket.local_addr().unwrap());
    let (waker, source) = Waker::pair().unwrap();
    let limit = Some((Quota::per_second(1_000_000).unwrap(), 100));
    let server = ServerShared::new(Vec::new(), Limits::default(), 1).receiving(&listen().limit(limit), echo);
    let socket = DatagramSocket { fd: socket.into(), is_v6: false, size_max: 1_500 };
    let sockets = DriverSockets { listeners: Vec::new(), datagrams: vec![Some(socket)] };
    let shared = Arc::new(WorkerShared::new(waker));
    if engine == Engine::Epoll {
        let driver = Epoll::new(sockets, 1, source).unwrap();
        measure(driver, server, &shared, &client);
    } else {
        let driver = Uring::new(sockets, 1, source, &UringOptions::default());
        let driver = driver.unwrap_or_else(|(error, _)| panic!("{error}"));
        measure(driver, server, &shared, &client);
    }
}

fn measure<D: Driver>(driver: D, server: ServerShared, shared: &Arc<WorkerShared>, client: &UdpSocket) {
    const BATCH: u64 = 50;
    let mut worker = Worker::new(driver, OsClock, Arc::new(server), Arc::clone(shared));
    let mut round = |target: u64| {
        (0..BATCH).for_each(|_| assert_eq!(client.send(b"x").unwrap(), 1));
        while shared.datagrams()[0].replied < target {
            let allocated = allocation_counter::measure(|| assert_eq!(worker.turn(), Ok(Flow::Continue)));
            assert!(target < 3 * BATCH || allocated.count_total == 0, "{allocated:?}");
        }
        (0..BATCH).for_each(|_| assert_eq!(receive(client), b"x"));
    };
    (1..=10).for_each(|number| round(number * BATCH));
}
