//! What is asked of a server twice: drains, successors, limits.
//!
//! Does not know about: what a drain does with each connection (see `promise_lifecycle.rs`).

#![expect(clippy::unwrap_used, reason = "these tests wait for real sockets and stop at the first surprise")]

mod promise;

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use doorbell::{
    Engine, Http1, HttpLimits, Limits, Server, ServerBuilder, StartErrorKind, Status, service_fn,
};
use doorbell_testkit::peers::wait_until;

use promise::{addr, alone, anywhere, builder, on_both_engines, workers};

on_both_engines! {
    a_second_drain_may_be_in_a_hurry
    a_second_drain_grants_no_more_time
    a_successor_that_was_given_up_has_lent_nothing
}

const LIMIT: Duration = Duration::from_secs(60);
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// One worker, which `/block` keeps busy: it says so, and goes on when it is told.
fn blocking(engine: Engine) -> (ServerBuilder, Receiver<()>, SyncSender<()>) {
    let (begun, begins) = sync_channel(1);
    let (go, goes) = sync_channel::<()>(1);
    let goes = Mutex::new(goes);
    let service = service_fn(move |request, reply| {
        if request.path() == "/block" {
            begun.send(()).unwrap();
            goes.lock().unwrap().recv().unwrap();
        }
        reply.status(Status::OK).body("ok")
    });
    (builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(service)), begins, go)
}

/// A connection whose request is never whole: a drain waits for it.
fn half(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(addr(server)).unwrap();
    stream.write_all(b"GET /half HTTP/1.1\r\n").unwrap();
    assert!(wait_until(LIMIT, || server.stats().conns_live == 1).is_some(), "{:?}", server.stats());
    stream
}

/// Whether a server ends by itself. It is stopped if not.
fn ends(server: Server, within: Duration) -> bool {
    let handle = server.handle();
    let (ended, has_ended) = sync_channel(1);
    thread::spawn(move || ended.send(server.wait().is_ok()));
    let ended = has_ended.recv_timeout(within);
    handle.stop();
    ended == Ok(true)
}

/// With time enough for a request that is never whole.
fn patient(engine: Engine) -> ServerBuilder {
    let limits = HttpLimits { header_timeout: FOR_EVER, ..HttpLimits::default() };
    let ok = service_fn(|_, reply| reply.status(Status::OK).body("ok"));
    builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(ok).limits(limits))
}

fn a_second_drain_may_be_in_a_hurry(engine: Engine) {
    let _turn = alone();
    let server = patient(engine).start().unwrap();
    let _half = half(&server);
    server.handle().drain_within(FOR_EVER);
    server.handle().drain_within(Duration::from_millis(200));
    assert!(ends(server, LIMIT), "within the time that was said last");
}

fn a_second_drain_grants_no_more_time(engine: Engine) {
    let _turn = alone();
    let server = patient(engine).start().unwrap();
    let _half = half(&server);
    server.handle().drain_within(Duration::from_millis(200));
    server.handle().drain_within(FOR_EVER);
    assert!(ends(server, LIMIT), "within the time that was said first");
}

/// Nobody else listens any more: a drain turns clients away again, who would be reset when the listener closes.
fn a_successor_that_was_given_up_has_lent_nothing(engine: Engine) {
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
    assert!(come.is_err(), "nobody new gets in");
    server.wait().unwrap();
}

#[test]
fn a_single_limit_stays_whatever_all_limits_say() {
    let ok = || Http1::new(service_fn(|_, reply| reply.status(Status::OK).body("ok")));
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
