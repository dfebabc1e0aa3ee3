//! Tests of repeated commands, and of commands while a ring fails: drains, stops, limits, and the
//! counters afterwards.
//!
//! Does not know about: the effect of a drain on each connection (see `promises/lifecycle.rs`).

#![expect(clippy::unwrap_used, reason = "these tests wait for real sockets and may panic")]

mod promise;

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use doorbell::id::WorkerIndex;
use doorbell::offload::{Class, Executor, Offload, Pump};
use doorbell::{
    Engine, Event, Http1, HttpLimits, Limits, Reply, Server, ServerBuilder, StartErrorKind, Status,
    service_fn,
};
use doorbell_testkit::peers::{exchange, wait_until};
use doorbell_testkit::skip;

use promise::{addr, alone, anywhere, builder, on_both_engines, workers};

on_both_engines! {
    a_second_drain_may_be_shorter
    a_second_drain_does_not_extend_the_first
    an_abandoned_successor_shares_no_sockets
}

const LIMIT: Duration = Duration::from_secs(60);
const FOR_EVER: Duration = Duration::from_secs(3_600);
const CLOSE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Creates a server with one worker. A request for `/block` blocks the worker: its handler sends a
/// message when it begins, and continues when it receives one.
fn blocking(engine: Engine) -> (ServerBuilder, Receiver<()>, SyncSender<()>) {
    let (begun, begins) = sync_channel(1);
    let (go, goes) = sync_channel::<()>(1);
    let goes = Mutex::new(goes);
    let service = service_fn(move |request, reply| {
        if request.path() == "/block" {
            begun.send(()).unwrap();
            goes.lock().unwrap().recv().unwrap();
        }
        reply.status(Status::OK).content("ok")
    });
    (builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(service)), begins, go)
}

/// Opens a connection with an incomplete request, for which a drain waits.
fn half(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(addr(server)).unwrap();
    stream.write_all(b"GET /half HTTP/1.1\r\n").unwrap();
    assert!(wait_until(LIMIT, || server.stats().conns_live == 1).is_some(), "{:?}", server.stats());
    stream
}

/// Returns whether a server ends within this time without a further command, and stops the server.
fn ends(server: Server, within: Duration) -> bool {
    let handle = server.handle();
    let (ended, has_ended) = sync_channel(1);
    thread::spawn(move || ended.send(server.wait().is_ok()));
    let ended = has_ended.recv_timeout(within);
    handle.stop();
    ended == Ok(true)
}

/// Creates a server whose limits permit a request to stay incomplete.
fn patient(engine: Engine) -> ServerBuilder {
    let limits = HttpLimits { header_timeout: FOR_EVER, ..HttpLimits::default() };
    let ok = service_fn(|_, reply| reply.status(Status::OK).content("ok"));
    builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(ok).limits(limits))
}

fn a_second_drain_may_be_shorter(engine: Engine) {
    let _turn = alone();
    let server = patient(engine).start().unwrap();
    let _half = half(&server);
    server.handle().drain_within(FOR_EVER);
    server.handle().drain_within(Duration::from_millis(200));
    assert!(ends(server, LIMIT), "within the time of the second drain");
}

fn a_second_drain_does_not_extend_the_first(engine: Engine) {
    let _turn = alone();
    let server = patient(engine).start().unwrap();
    let _half = half(&server);
    server.handle().drain_within(Duration::from_millis(200));
    server.handle().drain_within(FOR_EVER);
    assert!(ends(server, LIMIT), "within the time of the first drain");
}

/// After its successor was stopped, a server is the only one that listens. A drain must then refuse
/// new clients: the closing listener would reset those that connect.
fn an_abandoned_successor_shares_no_sockets(engine: Engine) {
    let _turn = alone();
    let (first, begins, go) = blocking(engine);
    let server = first.start().unwrap();
    let place = addr(&server);
    let next = blocking(engine).0.succeed(&server.handle()).start().unwrap();
    next.stop().unwrap();
    let mut busy = TcpStream::connect(place).unwrap();
    busy.write_all(b"GET /block HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    begins.recv_timeout(LIMIT).unwrap();
    server.handle().drain_within(FOR_EVER);
    let come = TcpStream::connect_timeout(&place, Duration::from_millis(300));
    go.send(()).unwrap();
    assert!(come.is_err(), "no new client connects");
    server.wait().unwrap();
}

#[test]
fn a_drain_continues_after_its_ring_failed() {
    if !skip::io_uring() {
        return;
    }
    let _turn = alone();
    let (first, begins, go) = blocking(Engine::Auto);
    let (sender, receiver) = sync_channel(4);
    let server = first
        .observer(move |event: &Event| {
            let _gone = sender.try_send(event.clone());
        })
        .start()
        .unwrap();
    let mut busy = TcpStream::connect(addr(&server)).unwrap();
    busy.write_all(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    begins.recv_timeout(LIMIT).unwrap();
    // The worker takes both commands in one turn, before it closes its listener.
    server.handle().fail_worker(WorkerIndex(0));
    server.handle().drain_within(FOR_EVER);
    go.send(()).unwrap();
    assert!(matches!(receiver.recv_timeout(LIMIT), Ok(Event::DriverFellBack { .. })));
    assert!(
        ends(server, Duration::from_secs(10)),
        "the replacing worker gets the commands of the worker whose ring failed"
    );
}

#[test]
fn a_stop_is_a_stop_after_its_ring_failed() {
    if !skip::io_uring() {
        return;
    }
    let _turn = alone();
    let (first, begins, go) = blocking(Engine::Auto);
    let server = first.start().unwrap();
    let mut busy = TcpStream::connect(addr(&server)).unwrap();
    busy.write_all(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    begins.recv_timeout(LIMIT).unwrap();
    server.handle().fail_worker(WorkerIndex(0));
    server.handle().stop();
    go.send(()).unwrap();
    let (ended, has_ended) = sync_channel(1);
    let handle = server.handle();
    thread::spawn(move || ended.send(server.wait().is_ok()));
    let waited = has_ended.recv_timeout(Duration::from_secs(10));
    handle.stop();
    assert_eq!(waited, Ok(true));
}

#[test]
fn a_drain_ends_with_its_failed_ring() {
    if !skip::io_uring() {
        return;
    }
    let _turn = alone();
    let server = patient(Engine::Auto).start().unwrap();
    let _half = half(&server);
    let place = addr(&server);
    server.handle().drain_within(FOR_EVER);
    let refused = || {
        TcpStream::connect_timeout(&place, Duration::from_millis(100))
            .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    assert!(wait_until(LIMIT, refused).is_some(), "the listener closes");
    server.handle().fail_worker(WorkerIndex(0));
    let (ended, has_ended) = sync_channel(1);
    let handle = server.handle();
    thread::spawn(move || ended.send(server.wait()));
    let waited = has_ended.recv_timeout(Duration::from_secs(10));
    handle.stop();
    assert_eq!(waited, Ok(Ok(())), "the server ends, and the remaining connections are lost");
}

#[test]
fn counters_continue_after_a_ring_failed() {
    if !skip::io_uring() {
        return;
    }
    let _turn = alone();
    let ok = service_fn(|_, reply| reply.status(Status::OK).content("ok"));
    let server =
        builder(Engine::Auto).workers(workers(1)).listen(anywhere(), Http1::new(ok)).start().unwrap();
    for _ in 0..50 {
        exchange(addr(&server), CLOSE).unwrap();
    }
    let before = server.stats();
    server.handle().fail_worker(WorkerIndex(0));
    assert!(wait_until(LIMIT, || server.stats().driver_fallbacks == 1).is_some());
    exchange(addr(&server), CLOSE).unwrap();
    let after = server.stats();
    for ((name, before), (_, after)) in before.fields().zip(after.fields()) {
        assert!(name.ends_with("_live") || after >= before, "{name} went from {before} to {after}");
    }
    server.stop().unwrap();
}

#[test]
fn a_single_limit_overrides_the_limits_struct() {
    let ok = || Http1::new(service_fn(|_, reply| reply.status(Status::OK).content("ok")));
    let with = |f: fn(ServerBuilder) -> ServerBuilder| {
        let one = Server::builder().engine(Engine::Epoll).workers(workers(1)).listen(anywhere(), ok());
        f(one).limits(Limits::default()).start().map(drop).map_err(|error| error.kind())
    };
    let refused = Err(StartErrorKind::Misconfigured);
    assert_eq!(with(|builder| builder.client_v6_len(0)), refused);
    assert_eq!(with(|builder| builder.write_timeout(Duration::ZERO)), refused);
    assert_eq!(with(|builder| builder.linger_timeout(Duration::ZERO)), refused);
    assert_eq!(with(|builder| builder.conns_max(0)), refused);
    assert_eq!(with(|builder| builder), Ok(()));
}

/// An executor that stores pumps, so that no job starts.
struct NoThread(Mutex<Vec<Pump>>);

impl Executor for NoThread {
    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, pump: Pump) {
        self.0.lock().unwrap().push(pump);
    }
}

#[test]
fn jobs_of_lost_connections_are_cancelled() {
    if !skip::io_uring() {
        return;
    }
    let _turn = alone();
    let jobs = Offload::builder().timeout(FOR_EVER).build_on(NoThread(Mutex::default()));
    let queue = jobs.clone();
    let service = service_fn(move |request, reply| {
        jobs.run(request, reply, || Reply::text(Status::OK, "no client waits"))
    });
    let server =
        builder(Engine::Auto).workers(workers(1)).listen(anywhere(), Http1::new(service)).start().unwrap();
    let mut waiting = TcpStream::connect(addr(&server)).unwrap();
    waiting.write_all(CLOSE).unwrap();
    assert!(wait_until(LIMIT, || queue.queued(Class::Normal) == 1).is_some());
    server.handle().fail_worker(WorkerIndex(0));
    assert!(wait_until(LIMIT, || server.stats().driver_fallbacks == 1).is_some());
    assert!(
        wait_until(LIMIT, || queue.queued(Class::Normal) == 0).is_some(),
        "the cancelled job no longer counts"
    );
    assert_eq!(server.stats().jobs_cancelled, 1);
    server.stop().unwrap();
}
