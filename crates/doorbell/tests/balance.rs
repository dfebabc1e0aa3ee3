//! Balancing between workers: which worker gets the clients of an address or of a processor, and
//! which one gets the next connection, also after a reload and after the failure of a worker.
//!
//! Does not know about: the program that hashes addresses (see `net::balance`), the queues between
//! workers (see `worker::balancer`).
#![expect(clippy::unwrap_used, reason = "these tests may panic")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell::id::WorkerIndex;
use doorbell::stats::ListenerSnapshot;
use doorbell::{
    Balance, Engine, Http1, Listen, OnWorkerFailure, Server, ServerBuilder, StartErrorKind, Status, Workers,
    service_fn,
};
use doorbell_testkit::peers::{End, connect_from, exchange, misbehave, wait_until};
use doorbell_testkit::skip;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const PATIENCE: Duration = Duration::from_secs(20);
const CLOSE: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const KEEP: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn engines() -> Vec<Engine> {
    if skip::io_uring() { vec![Engine::Epoll, Engine::IoUring] } else { vec![Engine::Epoll] }
}

/// A server whose replies are the name of the worker's thread.
fn builder(engine: Engine, workers: u16, balance: Balance, addr: SocketAddr) -> ServerBuilder {
    let service = service_fn(|_, reply| {
        let thread = std::thread::current();
        reply.status(Status::OK).text(thread.name().unwrap_or_default())
    });
    Server::builder()
        .engine(engine)
        .workers(Workers::Count(NonZeroU16::new(workers).unwrap()))
        .on_worker_failure(OnWorkerFailure::Degrade)
        .conns_max(1024)
        .listen(Listen::tcp(addr).balance(balance), Http1::new(service))
}

fn start(engine: Engine, workers: u16, balance: Balance) -> Server {
    builder(engine, workers, balance, (Ipv4Addr::LOCALHOST, 0).into()).start().unwrap()
}

/// Returns the worker that replies to a request on this connection, for example `doorbell-1`.
fn worker_of(stream: TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    worker_at(stream)
}

fn worker_at(mut stream: impl Read + Write) -> String {
    stream.write_all(CLOSE).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let name = reply.rsplit("\r\n\r\n").next().unwrap();
    assert!(name.starts_with("doorbell-"), "{reply}");
    // A worker that has changed its driver has another thread, but the same number.
    name.trim_end_matches("-epoll").to_owned()
}

/// Returns the worker for each of 100 addresses. Asserts that two requests from one address have
/// the same worker.
fn workers_by_address(addr: SocketAddr) -> HashMap<Ipv4Addr, String> {
    let worker = |source: Ipv4Addr| {
        let first = worker_of(connect_from(source, addr).unwrap());
        assert_eq!(worker_of(connect_from(source, addr).unwrap()), first, "{source}");
        (source, first)
    };
    (1..=100).map(|last| worker(Ipv4Addr::new(127, 0, 7, last))).collect()
}

#[test]
fn an_address_has_one_worker_also_after_a_reload_and_a_failure() {
    for engine in engines() {
        let server = start(engine, 3, Balance::SourceHash);
        let addr = server.tcp_addr(0).unwrap();
        let before = workers_by_address(addr);
        for worker in 0..3 {
            let name = format!("doorbell-{worker}");
            assert!(before.values().filter(|known| **known == name).count() >= 15, "{engine:?} {before:?}");
        }
        let asked: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let successor =
            builder(engine, 3, Balance::SourceHash, asked).succeed(&server.handle()).start().unwrap();
        assert!(successor.handle().take_over(PATIENCE));
        server.wait().unwrap();
        assert_eq!(workers_by_address(addr), before, "{engine:?}");
        successor.stop().unwrap();
    }
    let server = start(Engine::Epoll, 3, Balance::SourceHash);
    server.handle().fail_worker(WorkerIndex(1));
    wait_until(PATIENCE, || !server.handle().is_healthy()).unwrap();
    let after = workers_by_address(server.tcp_addr(0).unwrap());
    let gone = after.values().filter(|known| *known == "doorbell-1").count();
    assert_eq!(gone, 0, "the addresses of the failed worker have another worker");
    server.stop().unwrap();
}

fn run_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}

#[test]
fn a_client_on_a_processor_has_the_worker_of_that_processor() {
    let allowed = sched_getaffinity(None).unwrap();
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let workers = u16::try_from(cpus.len()).unwrap();
    for engine in engines() {
        let server = start(engine, workers, Balance::Cpu);
        let addr = server.tcp_addr(0).unwrap();
        let share = |gone: Option<usize>| {
            let mut hits = 0;
            let asked: Vec<_> = (0..cpus.len()).filter(|worker| Some(*worker) != gone).collect();
            for worker in &asked {
                run_on(cpus[*worker]);
                let name = format!("doorbell-{worker}");
                hits += (0..100).filter(|_| worker_of(TcpStream::connect(addr).unwrap()) == name).count();
            }
            hits * 100 / (100 * asked.len().max(1))
        };
        std::thread::scope(|scope| {
            // The affinity is set in a separate thread, so that the workers may use all processors.
            scope.spawn(|| assert!(share(None) >= 99, "{engine:?}")).join().unwrap();
        });
        let asked: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let successor =
            builder(engine, workers, Balance::Cpu, asked).succeed(&server.handle()).start().unwrap();
        assert!(successor.handle().take_over(PATIENCE));
        server.wait().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(share(None) >= 99, "{engine:?} after a reload")).join().unwrap();
        });
        if cpus.len() > 1 && engine == Engine::Epoll {
            successor.handle().fail_worker(WorkerIndex(0));
            wait_until(PATIENCE, || !successor.handle().is_healthy()).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(share(Some(0)) >= 99, "after a failure")).join().unwrap();
            });
        }
        successor.stop().unwrap();
    }
}

#[test]
fn the_other_workers_keep_their_processors_after_a_failure() {
    let allowed = sched_getaffinity(None).unwrap();
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    // The first processor has two workers: the second one remains when the first one has failed.
    let server = start(Engine::Epoll, u16::try_from(cpus.len() + 1).unwrap(), Balance::Cpu);
    let addr = server.tcp_addr(0).unwrap();
    server.handle().fail_worker(WorkerIndex(0));
    wait_until(PATIENCE, || !server.handle().is_healthy()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for worker in 1..=cpus.len() {
                run_on(cpus[worker % cpus.len()]);
                let name = format!("doorbell-{worker}");
                let hits = (0..100).filter(|_| worker_of(TcpStream::connect(addr).unwrap()) == name).count();
                assert!(hits >= 99, "{worker}: {hits}");
            }
        });
    });
    server.stop().unwrap();
}

/// A filter program, or the processors of the sockets, would assign all clients to one of the two
/// servers.
#[test]
fn servers_that_overlap_cannot_be_balanced() {
    for balance in [Balance::Cpu, Balance::SourceHash] {
        let service = service_fn(|_, reply| reply.status(Status::OK).empty());
        let listen = Listen::tcp((Ipv4Addr::LOCALHOST, 0).into()).balance(balance).overlap(true);
        let error = Server::builder().listen(listen, Http1::new(service)).start().unwrap_err();
        assert_eq!(error.kind(), StartErrorKind::Misconfigured, "{error}");
    }
}

#[test]
fn a_shared_socket_cannot_be_balanced() {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let service = service_fn(|_, reply| reply.status(Status::OK).empty());
    let listen = Listen::inherited(socket.into()).balance(Balance::SourceHash);
    let two = Workers::Count(NonZeroU16::new(2).unwrap());
    let error = Server::builder().workers(two).listen(listen, Http1::new(service)).start().unwrap_err();
    assert_eq!(error.kind(), StartErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("round-robin"), "{error}");
}

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn accepted(server: &Server) -> Vec<u64> {
    server.handle().worker_stats().iter().map(|stats| stats.conns_accepted).collect()
}

fn live(server: &Server) -> Vec<u64> {
    server.handle().worker_stats().iter().map(|stats| stats.conns_live).collect()
}

/// A connection that stays open, and its worker.
fn kept(addr: SocketAddr) -> (TcpStream, usize) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(KEEP).unwrap();
    let reply = misbehave::read_replies(&mut stream, 1, false).unwrap();
    let name = String::from_utf8(reply).unwrap();
    let number = name.rsplit("doorbell-").next().unwrap();
    (stream, number.trim_end_matches("-epoll").parse().unwrap())
}

/// A TCP, a Unix and a passed socket.
#[test]
fn each_worker_gets_the_next_connection_in_turn() {
    for engine in engines() {
        let path = std::env::temp_dir().join(format!("doorbell-turn-{}.sock", std::process::id()));
        let passed = TcpListener::bind(ANYWHERE).unwrap();
        let passed_at = passed.local_addr().unwrap();
        let http = || {
            Http1::new(service_fn(|_, reply| {
                let thread = std::thread::current();
                reply.status(Status::OK).text(thread.name().unwrap_or_default())
            }))
        };
        let server = builder(engine, 4, Balance::RoundRobin, ANYWHERE)
            .listen(Listen::unix(&path).balance(Balance::RoundRobin), http())
            .listen(Listen::inherited(passed.into()).balance(Balance::RoundRobin), http())
            .start()
            .unwrap();
        let addr = server.tcp_addr(0).unwrap();
        let ways: [&dyn Fn() -> String; 3] = [
            &|| worker_of(TcpStream::connect(addr).unwrap()),
            &|| worker_at(UnixStream::connect(&path).unwrap()),
            &|| worker_of(TcpStream::connect(passed_at).unwrap()),
        ];
        for ask in ways {
            let names: Vec<_> = (0..40).map(|_| ask()).collect();
            let first: usize = names[0].trim_start_matches("doorbell-").parse().unwrap();
            let expected = (first..first + 40).map(|worker| format!("doorbell-{}", worker % 4));
            assert!(names.iter().eq(&expected.collect::<Vec<_>>()), "{engine:?} {names:?}");
        }
        wait_until(PATIENCE, || accepted(&server) == [30; 4]).unwrap();
        let is_counted = |stats: &ListenerSnapshot| stats.conns_accepted == 40 && stats.conns_live == 0;
        wait_until(PATIENCE, || server.handle().listener_stats().iter().all(is_counted)).unwrap();
        assert_eq!(server.stats().balance_queue_full, 0);
        server.stop().unwrap();
    }
}

#[test]
fn the_worker_with_the_fewest_connections_gets_the_next_one() {
    for engine in engines() {
        let server = start(engine, 3, Balance::LeastConnections);
        let addr = server.tcp_addr(0).unwrap();
        let mut held: Vec<_> = (0..9).map(|_| kept(addr)).collect();
        wait_until(PATIENCE, || live(&server) == [3; 3]).unwrap();
        // All connections of one worker end, and one of another worker.
        held.retain(|(_, worker)| *worker != 1);
        let one = held.iter().position(|(_, worker)| *worker == 2).unwrap();
        held.remove(one);
        wait_until(PATIENCE, || live(&server) == [3, 0, 2]).unwrap();
        let next: Vec<_> = (0..4).map(|_| kept(addr)).collect();
        let workers: Vec<_> = next.iter().map(|(_, worker)| *worker).collect();
        assert_eq!(workers.iter().filter(|worker| **worker == 1).count(), 3, "{engine:?} {workers:?}");
        assert_eq!(workers[..2], [1, 1], "{engine:?}");
        assert_eq!(workers.iter().filter(|worker| **worker == 2).count(), 1, "{engine:?} {workers:?}");
        wait_until(PATIENCE, || live(&server) == [3; 3]).unwrap();
        drop((held, next));
        wait_until(PATIENCE, || live(&server) == [0; 3]).unwrap();
        let idle: HashMap<_, _> =
            (0..30).map(|_| (worker_of(TcpStream::connect(addr).unwrap()), ())).collect();
        assert_eq!(idle.len(), 3, "an idle server is balanced, too: {engine:?}");
        server.stop().unwrap();
    }
}

/// Blocks its worker during a request for `/block`.
struct Blocker {
    server: Server,
    addr: SocketAddr,
    begins: Receiver<()>,
    go_on: SyncSender<()>,
}

impl Blocker {
    fn start(engine: Engine, workers: u16, balance: Balance) -> Self {
        let (begun, begins) = sync_channel(1);
        let (go_on, goes_on) = sync_channel(1);
        let goes_on = Arc::new(Mutex::new(goes_on));
        let http = Http1::new(service_fn(move |request, reply| {
            if request.path() == "/block" {
                begun.send(()).unwrap();
                goes_on.lock().unwrap().recv().unwrap();
            }
            let thread = std::thread::current();
            reply.status(Status::OK).text(thread.name().unwrap_or_default())
        }));
        let server = Server::builder()
            .engine(engine)
            .workers(Workers::Count(NonZeroU16::new(workers).unwrap()))
            .on_worker_failure(OnWorkerFailure::Degrade)
            .conns_max(1024)
            .listen(Listen::tcp(ANYWHERE).balance(balance), http)
            .start()
            .unwrap();
        let addr = server.tcp_addr(0).unwrap();
        Self { server, addr, begins, go_on }
    }

    /// Blocks a worker. The connection gets its reply when the worker continues.
    fn block(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.write_all(b"GET /block HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        self.begins.recv_timeout(PATIENCE).unwrap();
        stream
    }

    /// Connects clients that have sent a request.
    fn ask(&self, count: usize) -> Vec<TcpStream> {
        let ask = |_| {
            let mut stream = TcpStream::connect(self.addr).unwrap();
            stream.write_all(CLOSE).unwrap();
            stream
        };
        (0..count).map(ask).collect()
    }
}

/// Returns the worker that replies to a request that was already sent.
fn reply_of(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply:?}");
    reply.rsplit("\r\n\r\n").next().unwrap().trim_end_matches("-epoll").to_owned()
}

#[test]
fn connections_for_a_worker_that_fails_go_to_the_others() {
    let blocker = Blocker::start(Engine::Epoll, 2, Balance::RoundRobin);
    let blocked = blocker.block();
    let handle = blocker.server.handle();
    handle.fail_worker(WorkerIndex(0));
    let asked = blocker.ask(9);
    // The other worker serves every other connection, the first and the last included. The queue of
    // the blocked worker has the rest.
    wait_until(PATIENCE, || blocker.server.stats().requests >= 5).unwrap();
    blocker.go_on.send(()).unwrap();
    assert_eq!(reply_of(blocked), "doorbell-0", "the first connection has the first worker");
    wait_until(PATIENCE, || !handle.is_healthy()).unwrap();
    let later = blocker.ask(10);
    assert!(asked.into_iter().chain(later).all(|stream| reply_of(stream) == "doorbell-1"));
    blocker.server.stop().unwrap();
}

/// A worker that continues with another driver serves the connections in its queue.
#[test]
fn workers_with_different_drivers_pass_connections_to_each_other() {
    if !skip::io_uring() {
        return;
    }
    let blocker = Blocker::start(Engine::Auto, 2, Balance::RoundRobin);
    let blocked = blocker.block();
    let handle = blocker.server.handle();
    handle.fail_worker(WorkerIndex(0));
    let asked = blocker.ask(9);
    wait_until(PATIENCE, || blocker.server.stats().requests >= 5).unwrap();
    blocker.go_on.send(()).unwrap();
    reply_of(blocked);
    let count = |names: Vec<String>| names.iter().filter(|name| *name == "doorbell-0").count();
    assert_eq!(count(asked.into_iter().map(reply_of).collect()), 4);
    wait_until(PATIENCE, || blocker.server.stats().driver_fallbacks >= 1).unwrap();
    assert_eq!(count(blocker.ask(20).into_iter().map(reply_of).collect()), 10);
    assert!(handle.is_healthy());
    blocker.server.stop().unwrap();
}

#[test]
fn a_full_queue_loses_no_connection() {
    for engine in engines() {
        for balance in [Balance::LeastConnections, Balance::RoundRobin] {
            let blocker = Blocker::start(engine, 2, balance);
            let blocked = blocker.block();
            let asked = blocker.ask(300);
            if balance == Balance::RoundRobin {
                wait_until(PATIENCE, || blocker.server.stats().balance_queue_full > 0).unwrap();
            }
            // The other worker serves all clients that are not in the queue.
            wait_until(PATIENCE, || blocker.server.stats().requests >= 300 - 64).unwrap();
            blocker.go_on.send(()).unwrap();
            reply_of(blocked);
            asked.into_iter().for_each(|stream| drop(reply_of(stream)));
            assert_eq!(blocker.server.stats().accepts_dropped, 0);
            blocker.server.stop().unwrap();
        }
    }
}

/// Workers with a full table get no connection, and clients wait in the backlog while all are full.
#[test]
fn a_full_table_is_left_out() {
    for engine in engines() {
        let server = builder(engine, 2, Balance::RoundRobin, ANYWHERE).conns_max(16).start().unwrap();
        let addr = server.tcp_addr(0).unwrap();
        let mut held: Vec<_> = (0..16).map(|_| kept(addr)).collect();
        wait_until(PATIENCE, || live(&server) == [8; 2]).unwrap();
        let waiting = TcpStream::connect(addr).unwrap();
        // The table of one worker gets room, so all further connections are its own.
        held.retain(|(_, worker)| *worker != 0);
        assert_eq!(worker_of(waiting), "doorbell-0", "{engine:?}");
        let names: Vec<_> = (0..5).map(|_| worker_of(TcpStream::connect(addr).unwrap())).collect();
        assert!(names.iter().all(|name| name == "doorbell-0"), "{engine:?} {names:?}");
        drop(held);
        server.stop().unwrap();
    }
}

/// A table that was full accepts again when a tenth of it is free. Until then its worker serves the
/// connections that others pass to it.
#[test]
fn a_connection_does_not_wait_for_a_table_that_was_full() {
    for engine in engines() {
        let server = builder(engine, 2, Balance::RoundRobin, ANYWHERE).conns_max(40).start().unwrap();
        let addr = server.tcp_addr(0).unwrap();
        let mut held: Vec<_> = (0..40).map(|_| kept(addr)).collect();
        wait_until(PATIENCE, || live(&server) == [20; 2]).unwrap();
        let one = held.iter().position(|(_, worker)| *worker == 1).unwrap();
        held.swap_remove(one);
        held.retain(|(_, worker)| *worker == 1);
        wait_until(PATIENCE, || live(&server) == [0, 19]).unwrap();
        let names: Vec<_> = (0..6).map(|_| worker_of(TcpStream::connect(addr).unwrap())).collect();
        assert_eq!(names.iter().filter(|name| *name == "doorbell-1").count(), 3, "{engine:?} {names:?}");
        drop(held);
        server.stop().unwrap();
    }
}

/// Clients send requests without a pause while the server drains, with another server at the same
/// socket, or while a successor takes over: each gets its reply.
#[test]
fn a_drain_loses_no_connection() {
    for engine in engines() {
        let listener = TcpListener::bind(ANYWHERE).unwrap();
        let addr = listener.local_addr().unwrap();
        let serve = |balance| {
            let fd: OwnedFd = listener.try_clone().unwrap().into();
            let service = service_fn(|_, reply| reply.status(Status::OK).text("here"));
            let server = Server::builder()
                .engine(engine)
                .workers(Workers::Count(NonZeroU16::new(4).unwrap()))
                .conns_max(1024);
            server.listen(Listen::inherited(fd).balance(balance), Http1::new(service)).start().unwrap()
        };
        let going = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let ask = || {
                let mut asked = 0;
                while going.load(Ordering::Relaxed) {
                    let got = exchange(addr, CLOSE).unwrap();
                    assert!(got.bytes.starts_with(b"HTTP/1.1 200 "), "{engine:?} {got:?}");
                    assert_eq!(got.end, End::Fin);
                    asked += 1;
                }
                asked
            };
            let clients: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            let mut server = serve(Balance::RoundRobin);
            for balance in [Balance::LeastConnections, Balance::RoundRobin].repeat(5) {
                let next = serve(balance);
                server.drain(PATIENCE).unwrap();
                server = next;
                wait_until(PATIENCE, || server.stats().requests >= 100).unwrap();
            }
            going.store(false, Ordering::Relaxed);
            let asked: u32 = clients.into_iter().map(|client| client.join().unwrap()).sum();
            assert!(asked >= 1_000, "{asked}");
            assert_eq!(server.stats().accepts_dropped, 0);
            server.stop().unwrap();
        });
    }
}

/// Whether 40 connections from one address are distributed evenly between 4 workers.
fn is_even(server: &Server) -> bool {
    let addr = server.tcp_addr(0).unwrap();
    (0..40).for_each(|_| drop(worker_of(TcpStream::connect(addr).unwrap())));
    wait_until(PATIENCE, || accepted(server).iter().sum::<u64>() == 40).unwrap();
    accepted(server) == [10; 4]
}

/// A new process with a socket for each worker opens the missing ones; with one socket for all
/// workers it takes over the existing one.
#[test]
fn the_next_process_may_have_any_balance() {
    for engine in engines() {
        let mut server = start(engine, 4, Balance::RoundRobin);
        let addr = server.tcp_addr(0).unwrap();
        for balance in [Balance::SourceHash, Balance::RoundRobin, Balance::SourceHash] {
            let sockets = server.handle().listening().unwrap().remove(0).sockets;
            let service = service_fn(|_, reply| {
                let thread = std::thread::current();
                reply.status(Status::OK).text(thread.name().unwrap_or_default())
            });
            let listen = Listen::tcp(addr).balance(balance).listening(sockets);
            let next = Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::new(4).unwrap()));
            let next = next.conns_max(1024).listen(listen, Http1::new(service)).start().unwrap();
            server.drain(PATIENCE).unwrap();
            assert_eq!(next.handle().listening().unwrap()[0].sockets.len(), 4, "{engine:?} {balance:?}");
            assert_eq!(is_even(&next), balance == Balance::RoundRobin, "{engine:?} {balance:?}");
            server = next;
        }
        server.stop().unwrap();
    }
}

/// The sockets stay: one per worker, or one for all workers.
#[test]
fn a_successor_may_have_another_balance() {
    for engine in engines() {
        let follow = |before: Server, balance| {
            let next = builder(engine, 4, balance, ANYWHERE).succeed(&before.handle()).start().unwrap();
            assert!(next.handle().take_over(PATIENCE));
            before.wait().unwrap();
            next
        };
        let sockets = |server: &Server| server.handle().listening().unwrap()[0].sockets.len();
        let server = start(engine, 4, Balance::SourceHash);
        let server = follow(server, Balance::RoundRobin);
        assert!(is_even(&server) && sockets(&server) == 4, "{engine:?}");
        let server = follow(server, Balance::SourceHash);
        assert!(!is_even(&server), "all clients have one address: {engine:?}");
        server.stop().unwrap();
        let server = start(engine, 4, Balance::RoundRobin);
        assert!(is_even(&server) && sockets(&server) == 1, "{engine:?}");
        let server = follow(server, Balance::LeastConnections);
        let server = follow(server, Balance::Kernel);
        let hash = builder(engine, 4, Balance::SourceHash, ANYWHERE).succeed(&server.handle());
        let error = hash.start().unwrap_err();
        assert_eq!(error.kind(), StartErrorKind::Misconfigured, "{error}");
        assert!(is_even(&follow(server, Balance::RoundRobin)), "{engine:?}");
    }
}
