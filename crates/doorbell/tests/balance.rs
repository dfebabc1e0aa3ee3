//! Balancing between workers: which worker gets the clients of an address or of a processor, also
//! after a reload and after the failure of a worker.
//!
//! Does not know about: the program that hashes addresses (see `net::balance`).
#![expect(clippy::unwrap_used, reason = "these tests may panic")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::time::Duration;

use doorbell::id::WorkerIndex;
use doorbell::{
    Balance, Engine, Http1, Listen, OnWorkerFailure, Server, ServerBuilder, StartErrorKind, Status, Workers,
    service_fn,
};
use doorbell_testkit::peers::{connect_from, wait_until};
use doorbell_testkit::skip;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const PATIENCE: Duration = Duration::from_secs(20);

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
fn worker_of(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
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
    assert!(error.to_string().contains("Balance::Kernel"), "{error}");
}
