//! Promises about a server that replaces another one on the same sockets: no client in any state is
//! refused, reset or cut off.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "clients use real time, measurements are printed, and test helpers may panic"
)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use doorbell::id::WorkerIndex;
use doorbell::{
    Balance, Descriptors, Engine, Http1, HttpLimits, Listen, OnWorkerFailure, Server, ServerBuilder,
    StartErrorKind, StaticReply, Status, service_fn,
};
use doorbell_testkit::figures::at_most;
use doorbell_testkit::peers::{End, Reply, exchange, finish, misbehave, wait_until};

use crate::promise::{addr, alone, among_few, anywhere, builder, on_both_engines, sized, workers};

on_both_engines! {
    fifty_generations_lose_no_request
    a_connection_lives_on_for_one_reply
    accepted_silent_clients_keep_their_timeout
    remaining_connections_are_drained_when_patience_ends
    a_successor_that_cannot_start_changes_nothing
    listeners_come_and_go
    a_socket_file_stays_until_the_last_server
    a_socket_file_lives_through_generations
    a_server_that_drains_leaves_the_file_to_its_successor
    the_file_of_another_server_is_not_removed
    a_generation_that_is_skipped_passes_clients_on
    balanced_workers_lose_no_request
    direct_descriptors_lose_no_request
    a_client_whose_wake_up_went_to_the_old_server_is_served
    a_server_that_has_ended_is_taken_over_at_once
    listeners_on_port_0_keep_their_ports
    a_successor_replaces_the_socket_of_a_failed_worker
    a_successor_accepts_from_a_shared_socket_after_a_worker_failed
}

const CLOSE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const KEPT: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// A service that replies with `number`.
fn numbered(number: usize) -> Http1 {
    let reply = StaticReply::text(Status::OK, format!("{number}\n"));
    Http1::new(service_fn(move |_, respond| respond.send(&reply)))
}

fn number_of(reply: &[u8]) -> usize {
    let reply = Reply::parse(reply, false).unwrap_or_else(|| panic!("{}", reply.escape_ascii()));
    assert_eq!(reply.status, 200);
    String::from_utf8_lossy(&reply.body).trim().parse().unwrap()
}

fn number_at(server: SocketAddr) -> usize {
    let got = exchange(server, CLOSE).unwrap();
    assert_eq!(got.end, End::Fin);
    number_of(&got.bytes)
}

fn kept(server: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(KEPT).unwrap();
    misbehave::read_replies(&mut stream, 1, false).unwrap();
    stream
}

fn first(engine: Engine) -> Server {
    builder(engine).listen(anywhere(), numbered(0)).start().unwrap()
}

/// Starts the next server at the same address, and lets it take over.
fn follow(before: &Server, next: ServerBuilder) -> Server {
    let next = next.succeed(&before.handle()).start().unwrap();
    assert!(next.handle().take_over(PATIENCE), "every worker stops accepting at once");
    next
}

/// A predecessor that has ended has no workers that could confirm the take-over.
fn a_server_that_has_ended_is_taken_over_at_once(engine: Engine) {
    for drains in [false, true] {
        let before = first(engine);
        let handle = before.handle();
        let next = builder(engine).listen(anywhere(), numbered(1)).succeed(&handle).start().unwrap();
        match drains {
            true => before.drain(Duration::ZERO).unwrap(),
            false => before.stop().unwrap(),
        }
        assert!(next.handle().take_over(PATIENCE), "only the successor accepts: {drains}");
        assert_eq!(number_at(addr(&next)), 1);
    }
}

/// Each of several listeners with the same requested address keeps its port when one of them is
/// removed.
fn listeners_on_port_0_keep_their_ports(engine: Engine) {
    let named = |name: &str| anywhere().label(name);
    let before = builder(engine)
        .listen(named("a"), numbered(1))
        .listen(named("b"), numbered(2))
        .listen(named("c"), numbered(3))
        .start()
        .unwrap();
    let ports = |server: &Server| (0..3).map_while(|at| server.tcp_addr(at)).collect::<Vec<_>>();
    let known = ports(&before);
    let next = builder(engine)
        .listen(named("c"), numbered(3))
        .listen(named("new"), numbered(4))
        .listen(named("b"), numbered(2));
    let next = follow(&before, next);
    let followed = ports(&next);
    assert_eq!((followed[0], followed[2]), (known[2], known[1]));
    assert!(!known.contains(&followed[1]));
    assert_eq!(followed.iter().map(|&at| number_at(at)).collect::<Vec<_>>(), [3, 4, 2]);
    assert!(TcpStream::connect(known[0]).is_err(), "the first listener is closed");
}

fn fifty_generations_lose_no_request(engine: Engine) {
    let _turn = among_few();
    let make = |number| builder(engine).listen(anywhere(), numbered(number));
    churn(make, sized(50, 500));
}

/// The workers pass connections to each other while servers with other balances replace them.
fn balanced_workers_lose_no_request(engine: Engine) {
    let _turn = among_few();
    for first in [Balance::Kernel, Balance::RoundRobin] {
        let turns = [first, Balance::RoundRobin, Balance::LeastConnections];
        let listen = |number| anywhere().balance(turns[number % turns.len()]);
        let make = |number| builder(engine).workers(workers(4)).listen(listen(number), numbered(number));
        churn(make, 20);
    }
}

fn direct_descriptors_lose_no_request(engine: Engine) {
    let _turn = among_few();
    let make = |number| builder(engine).descriptors(Descriptors::Direct).listen(anywhere(), numbered(number));
    churn(make, 20);
}

/// Runs clients of three kinds while servers replace each other; no request may be lost.
fn churn(make: impl Fn(usize) -> ServerBuilder, generations: usize) {
    let mut server = make(0).start().unwrap();
    let place = addr(&server);
    let going = AtomicBool::new(true);
    let (asked, lost) = thread::scope(|scope| {
        let mut clients: Vec<_> = (0..3).map(|_| scope.spawn(|| ask_until(place, &going))).collect();
        clients.extend((0..3).map(|_| scope.spawn(|| ask_kept_until(place, &going))));
        let mut idle = Vec::new();
        let mut retired = Vec::new();
        for number in 1..=generations {
            idle.push(kept(place));
            let next = follow(&server, make(number));
            assert_eq!(addr(&next), place);
            assert_eq!(number_at(place), number, "the successor serves the next client");
            retired.push(std::mem::replace(&mut server, next));
            if idle.len() == 10 {
                // The idle clients waited for up to ten generations, and each gets its reply.
                idle.drain(..).for_each(|mut stream| {
                    stream.write_all(KEPT).unwrap();
                    let got = finish(&mut stream, Duration::from_secs(5));
                    let reply = Reply::parse(&got.bytes, false).unwrap();
                    assert_eq!(
                        (reply.status, reply.field("connection"), got.end),
                        (200, Some("close"), End::Fin)
                    );
                });
            }
        }
        going.store(false, Ordering::Relaxed);
        let (mut asked, mut lost) = (0, Vec::new());
        for client in clients {
            let (some, lost_some) = client.join().unwrap();
            asked += some;
            lost.extend(lost_some);
        }
        drop(idle);
        // Each retired server ends long before its patience expires.
        let ends: Vec<_> = retired.into_iter().map(|server| scope.spawn(|| server.wait())).collect();
        ends.into_iter().for_each(|end| end.join().unwrap().unwrap());
        (asked, lost)
    });
    eprintln!(
        "{:?}: {generations} generations, {asked} requests, {} lost",
        server.driver_report().kind,
        lost.len()
    );
    assert!(asked > 10 * generations && lost.is_empty(), "{} of {asked}: {:?}", lost.len(), lost.first());
    assert_eq!(server.stats().accept_stalls, 0);
    server.stop().unwrap();
    assert!(TcpListener::bind(place).is_ok(), "the port is free");
}

fn ask_until(server: SocketAddr, going: &AtomicBool) -> (usize, Vec<String>) {
    let (mut asked, mut lost) = (0, Vec::new());
    while going.load(Ordering::Relaxed) {
        asked += 1;
        match exchange(server, CLOSE) {
            Ok(got) if got.end == End::Fin && got.bytes.starts_with(b"HTTP/1.1 200") => {
                if got.took > Duration::from_millis(900) {
                    lost.push(format!("waited for {:?}", got.took));
                }
            }
            other => lost.push(format!("{other:?}")),
        }
    }
    (asked, lost)
}

/// Sends requests on each connection until a reply ends it.
fn ask_kept_until(server: SocketAddr, going: &AtomicBool) -> (usize, Vec<String>) {
    let (mut asked, mut lost) = (0, Vec::new());
    'connections: while going.load(Ordering::Relaxed) {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_nodelay(true).unwrap();
        while going.load(Ordering::Relaxed) {
            asked += 1;
            let sent = stream.write_all(KEPT);
            let replied = sent.and_then(|()| misbehave::read_replies(&mut stream, 1, false));
            match replied.map(|bytes| Reply::parse(&bytes, false)) {
                Ok(Some(reply)) if reply.status == 200 && reply.field("connection") == Some("close") => {
                    continue 'connections;
                }
                Ok(Some(reply)) if reply.status == 200 => {}
                other => {
                    lost.push(format!("kept: {other:?}"));
                    continue 'connections;
                }
            }
        }
    }
    (asked, lost)
}

fn a_connection_lives_on_for_one_reply(engine: Engine) {
    let _turn = among_few();
    let server = first(engine);
    let place = addr(&server);
    let mut idle = kept(place);
    let mut begun = TcpStream::connect(place).unwrap();
    begun.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n").unwrap();
    assert!(wait_until(Duration::from_secs(5), || server.stats().conns_live == 2).is_some());
    let next = follow(&server, builder(engine).listen(anywhere(), numbered(1)));
    thread::sleep(Duration::from_millis(1_500));
    assert_eq!(
        server.stats().conns_live,
        2,
        "no connection is closed, although a drain would have closed them"
    );
    for (stream, rest) in [(&mut idle, KEPT), (&mut begun, b"\r\n".as_slice())] {
        stream.write_all(rest).unwrap();
        let got = finish(stream, Duration::from_secs(5));
        let reply = Reply::parse(&got.bytes, false).unwrap();
        assert_eq!((number_of(&got.bytes), reply.field("connection"), got.end), (0, Some("close"), End::Fin));
    }
    server.wait().unwrap();
    assert_eq!(number_at(place), 1);
    next.stop().unwrap();
}

fn accepted_silent_clients_keep_their_timeout(engine: Engine) {
    let _turn = among_few();
    let listen = || anywhere().defer_accept(None);
    let server = builder(engine).listen(listen(), numbered(0)).start().unwrap();
    let mut silent = TcpStream::connect(addr(&server)).unwrap();
    assert!(wait_until(Duration::from_secs(5), || server.stats().conns_live == 1).is_some());
    let next = follow(&server, builder(engine).listen(listen(), numbered(1)));
    // A drain would have closed the connection after the linger timeout.
    thread::sleep(Duration::from_millis(1_500));
    silent.write_all(CLOSE).unwrap();
    assert_eq!(number_of(&finish(&mut silent, Duration::from_secs(5)).bytes), 0);
    server.wait().unwrap();
    next.stop().unwrap();
}

fn remaining_connections_are_drained_when_patience_ends(engine: Engine) {
    let _turn = among_few();
    let server = first(engine);
    let mut idle = kept(addr(&server));
    let next = builder(engine).listen(anywhere(), numbered(1)).succeed(&server.handle()).start().unwrap();
    assert!(next.handle().take_over(Duration::from_millis(300)));
    let got = finish(&mut idle, Duration::from_secs(5));
    assert_eq!((got.bytes.len(), got.end), (0, End::Fin), "closed with a FIN");
    assert!(got.took >= Duration::from_millis(200), "{:?}", got.took);
    server.wait().unwrap();
    // An explicit drain of the predecessor has the same effect.
    let mut idle = kept(addr(&next));
    let last = follow(&next, builder(engine).listen(anywhere(), numbered(2)));
    next.drain(Duration::from_secs(5)).unwrap();
    assert_eq!(finish(&mut idle, Duration::from_secs(5)).end, End::Fin);
    last.stop().unwrap();
}

fn a_successor_that_cannot_start_changes_nothing(engine: Engine) {
    let _turn = among_few();
    let server = first(engine);
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = Listen::tcp(stranger.local_addr().unwrap());
    let file = std::env::temp_dir().join(format!("doorbell-given-up-{}-{engine:?}", std::process::id()));
    let next = builder(engine).listen(anywhere(), numbered(1)).listen(Listen::unix(&file), numbered(1));
    let next = next.listen(taken, numbered(1));
    let error = next.succeed(&server.handle()).start().unwrap_err();
    assert_eq!(error.kind(), StartErrorKind::AddressInUse, "{error}");
    assert!(!file.exists(), "a failed start leaves no socket file");
    for _ in 0..20 {
        assert_eq!(number_at(addr(&server)), 0);
    }
    // A successor that started and was stopped before it took over also changes nothing.
    let next = builder(engine).listen(anywhere(), numbered(2)).succeed(&server.handle()).start().unwrap();
    next.drain(Duration::from_secs(5)).unwrap();
    for _ in 0..20 {
        assert_eq!(number_at(addr(&server)), 0);
    }
    server.stop().unwrap();
}

fn listeners_come_and_go(engine: Engine) {
    let _turn = among_few();
    let both = builder(engine).listen(anywhere(), numbered(0)).listen(anywhere(), numbered(10));
    let server = both.start().unwrap();
    let (kept_place, left_place) = (addr(&server), server.tcp_addr(1).unwrap());
    assert_ne!(kept_place, left_place);
    // The same address is requested twice: the second listener gets the second socket.
    let next =
        follow(&server, builder(engine).listen(anywhere(), numbered(1)).listen(anywhere(), numbered(11)));
    assert_eq!((addr(&next), next.tcp_addr(1)), (kept_place, Some(left_place)));
    server.wait().unwrap();
    // Then one listener is removed while clients connect, and another one is added.
    let begun: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(left_place).unwrap();
            stream.write_all(&CLOSE[..10]).unwrap();
            stream
        })
        .collect();
    let last = follow(
        &next,
        builder(engine)
            .listen(anywhere(), numbered(2))
            .listen(Listen::tcp(([127, 0, 0, 2], 0).into()), numbered(22)),
    );
    for mut stream in begun {
        stream.write_all(&CLOSE[10..]).unwrap();
        let got = finish(&mut stream, Duration::from_secs(5));
        assert_eq!((number_of(&got.bytes), got.end), (11, End::Fin));
    }
    next.wait().unwrap();
    assert!(TcpStream::connect(left_place).is_err(), "the listener is closed");
    assert_eq!((number_at(kept_place), number_at(last.tcp_addr(1).unwrap())), (2, 22));
    last.stop().unwrap();
}

fn a_socket_file_stays_until_the_last_server(engine: Engine) {
    let _turn = among_few();
    let path =
        std::env::temp_dir().join(format!("doorbell-succession-{}-{engine:?}.sock", std::process::id()));
    let make = |number| builder(engine).listen(Listen::unix(&path), numbered(number));
    let ask = || {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(CLOSE).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        number_of(&reply)
    };
    let server = make(0).start().unwrap();
    let refused = make(9).listen(Listen::unix("/nonexistent/doorbell.sock"), numbered(9));
    refused.succeed(&server.handle()).start().unwrap_err();
    assert_eq!(ask(), 0, "the file belongs to the running server");
    let next = follow(&server, make(1));
    for _ in 0..20 {
        assert_eq!(ask(), 1);
    }
    server.wait().unwrap();
    assert_eq!(ask(), 1);
    next.stop().unwrap();
    assert!(!path.exists(), "the last server removes it");
}

/// Returns a socket path for a test.
fn socket_path(name: &str, engine: Engine) -> PathBuf {
    std::env::temp_dir().join(format!("doorbell-{name}-{}-{engine:?}.sock", std::process::id()))
}

fn number_at_path(path: &Path) -> usize {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(CLOSE).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    number_of(&reply)
}

/// A socket file exists through generations of servers, whether predecessors end at once or late.
fn a_socket_file_lives_through_generations(engine: Engine) {
    let _turn = among_few();
    let path = socket_path("generations", engine);
    let make = |number| builder(engine).listen(Listen::unix(&path), numbered(number));
    for ends_late in [false, true] {
        let mut server = make(0).start().unwrap();
        let mut retired = Vec::new();
        for number in 1..=5 {
            let next = follow(&server, make(number));
            retired.push(std::mem::replace(&mut server, next));
            if !ends_late {
                retired.drain(..).for_each(|server| server.wait().unwrap());
            }
            assert_eq!(number_at_path(&path), number);
        }
        drop(retired);
        assert_eq!(number_at_path(&path), 5);
        server.stop().unwrap();
        assert!(!path.exists(), "the last server removes it");
    }
}

/// A predecessor that ends before its successor has taken over leaves the file to the successor.
fn a_server_that_drains_leaves_the_file_to_its_successor(engine: Engine) {
    let _turn = among_few();
    let path = socket_path("drained", engine);
    let make = |number| builder(engine).listen(Listen::unix(&path), numbered(number));
    let server = make(0).start().unwrap();
    let next = make(1).succeed(&server.handle()).start().unwrap();
    server.drain(PATIENCE).unwrap();
    assert_eq!(number_at_path(&path), 1);
    // The workers of a server that has ended do not confirm.
    let _left = next.handle().take_over(PATIENCE);
    assert_eq!(number_at_path(&path), 1);
    next.stop().unwrap();
    assert!(!path.exists());
}

/// After the socket file of a server was removed, another server listens at the same path. When the
/// first server ends, it does not remove the file of the other one.
fn the_file_of_another_server_is_not_removed(engine: Engine) {
    let _turn = among_few();
    let path = socket_path("stranger", engine);
    let make = |number| builder(engine).listen(Listen::unix(&path), numbered(number));
    for ending in [Server::stop, |server: Server| server.drain(PATIENCE)] {
        let server = make(0).start().unwrap();
        std::fs::remove_file(&path).unwrap();
        let stranger = make(1).start().unwrap();
        ending(server).unwrap();
        assert_eq!(number_at_path(&path), 1);
        stranger.stop().unwrap();
        assert!(!path.exists());
    }
}

/// A middle server that accepts only for a moment must pass clients on to the last server, if the
/// kernel wakes the middle server for them.
fn a_generation_that_is_skipped_passes_clients_on(engine: Engine) {
    let _turn = among_few();
    let going = AtomicBool::new(true);
    let mut server = first(engine);
    let place = addr(&server);
    let last = thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| ask_until(place, &going))).collect();
        for _ in 0..sized(20, 200) {
            let middle =
                builder(engine).listen(anywhere(), numbered(0)).succeed(&server.handle()).start().unwrap();
            let last =
                builder(engine).listen(anywhere(), numbered(0)).succeed(&middle.handle()).start().unwrap();
            // The last server takes over first, so that the middle server has already ended when
            // the first server passes its clients on.
            assert!(last.handle().take_over(PATIENCE));
            assert!(middle.handle().take_over(PATIENCE));
            server.wait().unwrap();
            middle.wait().unwrap();
            server = last;
        }
        going.store(false, Ordering::Relaxed);
        for client in clients {
            let (asked, lost) = client.join().unwrap();
            assert!(asked > 0 && lost.is_empty(), "{} of {asked}: {:?}", lost.len(), lost.first());
        }
        server
    });
    last.stop().unwrap();
}

/// The new server must serve a client for which the kernel woke the old server. The kernel wakes
/// only one of the servers that wait for a socket. With io_uring this is the older server, which
/// may stop before it accepts the client.
fn a_client_whose_wake_up_went_to_the_old_server_is_served(engine: Engine) {
    let _turn = among_few();
    let busy = |number| {
        let reply = StaticReply::text(Status::OK, format!("{number}\n"));
        let handler = service_fn(move |request, respond| {
            if request.path() == "/busy" {
                thread::sleep(Duration::from_millis(400));
            }
            respond.send(&reply)
        });
        builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(handler))
    };
    let server = busy(0).start().unwrap();
    let place = addr(&server);
    let mut holds = TcpStream::connect(place).unwrap();
    holds.write_all(b"GET /busy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert!(wait_until(Duration::from_secs(5), || server.stats().conns_live == 0).is_some());
    thread::sleep(Duration::from_millis(50));
    let next = busy(1).succeed(&server.handle()).start().unwrap();
    let got = thread::scope(|scope| {
        let waits = scope.spawn(|| exchange(place, CLOSE).unwrap());
        thread::sleep(Duration::from_millis(50));
        assert!(next.handle().take_over(PATIENCE));
        waits.join().unwrap()
    });
    assert!(number_of(&got.bytes) <= 1);
    at_most(format_args!("{engine:?}: reply while a worker is busy"), got.took, Duration::from_millis(800));
    assert_eq!(number_of(&finish(&mut holds, PATIENCE).bytes), 0);
    assert_eq!(next.stats().accept_stalls, 0);
    server.wait().unwrap();
    next.stop().unwrap();
}

/// A successor opens a new socket in place of the closed socket of a failed worker, and takes over
/// the sockets of the other workers.
fn a_successor_replaces_the_socket_of_a_failed_worker(engine: Engine) {
    let _turn = among_few();
    let make = |number| {
        builder(engine).on_worker_failure(OnWorkerFailure::Degrade).listen(anywhere(), numbered(number))
    };
    let before = make(0).start().unwrap();
    let place = addr(&before);
    before.handle().fail_worker(WorkerIndex(1));
    assert!(wait_until(PATIENCE, || !before.handle().is_healthy()).is_some());
    let sockets = |server: &Server| server.handle().listening().unwrap()[0].sockets.len();
    assert_eq!(sockets(&before), 1);
    let served = (0..50).map(|_| number_at(place));
    assert!(served.eq([0; 50]), "the other worker serves all clients");
    let next = follow(&before, make(1));
    assert_eq!((addr(&next), sockets(&next)), (place, 2));
    let served = (0..200).map(|_| number_at(place));
    assert!(served.eq([1; 200]));
    let accepted = next.handle().worker_stats().into_iter().map(|stats| stats.conns_accepted);
    assert!(accepted.clone().all(|count| count > 0), "{:?}", accepted.collect::<Vec<_>>());
    before.wait().unwrap();
    next.stop().unwrap();
}

/// If all workers accept from one socket, a successor also accepts from it, even after one of the
/// workers has failed.
fn a_successor_accepts_from_a_shared_socket_after_a_worker_failed(engine: Engine) {
    let _turn = among_few();
    let path = socket_path("shared", engine);
    let alone_at_port = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let place = alone_at_port.local_addr().unwrap();
    let make = |number, sockets: Vec<OwnedFd>| {
        let builder = builder(engine).on_worker_failure(OnWorkerFailure::Degrade);
        let listen = Listen::tcp(place).listening(sockets);
        builder.listen(listen, numbered(number)).listen(Listen::unix(&path), numbered(number))
    };
    let before = make(0, vec![alone_at_port.into()]).start().unwrap();
    before.handle().fail_worker(WorkerIndex(0));
    assert!(wait_until(PATIENCE, || !before.handle().is_healthy()).is_some());
    let next = follow(&before, make(1, Vec::new()));
    for _ in 0..20 {
        assert_eq!((number_at(place), number_at_path(&path)), (1, 1));
    }
    before.wait().unwrap();
    assert_eq!((number_at(place), number_at_path(&path)), (1, 1));
    next.stop().unwrap();
}

/// The cap per address applies to both servers together.
#[test]
fn one_address_has_one_cap() {
    let _turn = alone();
    let make = |number| {
        let http = numbered(number).limits(HttpLimits::default());
        let listen = anywhere().defer_accept(None);
        builder(Engine::Epoll).workers(workers(1)).conns_per_ip_max(4).listen(listen, http)
    };
    let server = make(0).start().unwrap();
    let place = addr(&server);
    // More connections than a worker's share, so that addresses are counted.
    let held: Vec<_> = (0..5).map(|_| TcpStream::connect(place).unwrap()).collect();
    assert!(wait_until(Duration::from_secs(5), || server.stats().conns_accepted == 5).is_some());
    let next = follow(&server, make(1));
    let mut one_more = TcpStream::connect(place).unwrap();
    one_more.write_all(b"GET /half").unwrap();
    let got = finish(&mut one_more, Duration::from_secs(5));
    assert!(got.bytes.starts_with(b"HTTP/1.1 503 "), "{got:?}");
    drop(held);
    server.wait().unwrap();
    next.stop().unwrap();
}
