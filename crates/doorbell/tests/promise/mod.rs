//! Shared parts of the promise tests: a server with a given driver, a service for unique ids, and a
//! lock for measurements.
//!
//! `DOORBELL_FULL=1` runs the tests at the size that the promises state.

#![allow(dead_code, reason = "each test program uses its part")]

use std::io::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use doorbell::{
    Engine, Http1, HttpLimits, Listen, Raw, RawNext, Replied, Request, Responder, Server, ServerBuilder,
    StaticReply, Status, Workers,
};
use doorbell_testkit::peers::Unique;
use doorbell_testkit::skip::{self, Need};

/// Runs each named function as a test on io_uring and on epoll; io_uring is skipped with a message
/// if it is not available.
macro_rules! on_both_engines {
    ($($name:ident)*) => {
        mod io_uring {
            $(#[test] fn $name() { if doorbell_testkit::skip::io_uring() { super::$name(doorbell::Engine::IoUring); } })*
        }
        mod epoll { $(#[test] fn $name() { super::$name(doorbell::Engine::Epoll); })* }
    };
}
pub(crate) use on_both_engines;

/// Whether the full versions of the tests are requested.
pub(crate) fn is_full() -> bool {
    std::env::var("DOORBELL_FULL").is_ok_and(|value| value == "1")
}

/// Returns the reduced size, or the size that the promise states.
pub(crate) fn sized<T>(now: T, full: T) -> T {
    if is_full() { full } else { now }
}

/// Reports that a test is skipped because an external requirement is missing. Fails the test if the
/// environment requires all tests.
#[track_caller]
pub(crate) fn skipped(what: &str) {
    skip::skipped(Need::Clients, what);
}

/// Excludes tests that are [`alone`] or [`among_few`].
static TURN: RwLock<()> = RwLock::new(());

/// Locks out the other tests that take a turn, for a test that measures the whole process or the
/// processor.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Lets three tests run at a time, and none beside a test that is [`alone`]: for tests whose clients
/// load the processor, or wait until the kernel sends a segment again.
pub(crate) fn among_few() -> (RwLockReadGuard<'static, ()>, MutexGuard<'static, ()>) {
    static PLACES: [Mutex<()>; 3] = [const { Mutex::new(()) }; 3];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let place = &PLACES[NEXT.fetch_add(1, Ordering::Relaxed) % PLACES.len()];
    let place = place.lock().unwrap_or_else(PoisonError::into_inner);
    (TURN.read().unwrap_or_else(PoisonError::into_inner), place)
}

/// Converts `count` to the `Workers` setting.
pub(crate) fn workers(count: u16) -> Workers {
    Workers::Count(NonZeroU16::new(count).expect("at least one worker"))
}

/// Returns a listener on a free port of 127.0.0.1.
pub(crate) fn anywhere() -> Listen {
    Listen::tcp(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// Returns a builder with two workers and one HTTP listener with [`answer`] and default limits.
pub(crate) fn serve(engine: Engine) -> ServerBuilder {
    serve_with(engine, HttpLimits::default())
}

/// Returns a builder with these HTTP limits and without a cap per address, because all clients of a
/// test share a few addresses.
pub(crate) fn serve_with(engine: Engine, limits: HttpLimits) -> ServerBuilder {
    builder(engine).listen(anywhere(), Http1::new(doorbell::service_fn(answer)).limits(limits))
}

/// Returns a builder with two workers, no cap per address, at most 4,000 connections, and no
/// listener.
pub(crate) fn builder(engine: Engine) -> ServerBuilder {
    Server::builder().engine(engine).workers(workers(2)).conns_max(4_000).conns_per_ip_max(0)
}

/// Returns the address of the first listener.
pub(crate) fn addr(server: &Server) -> SocketAddr {
    server.tcp_addr(0).expect("a TCP listener")
}

/// The service. `/unique/ID/LEN` gets the body of that id, `/large` gets a shared body of a million
/// bytes, and any other path gets a 200.
pub(crate) fn answer<'a>(request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
    static ALIVE: OnceLock<StaticReply> = OnceLock::new();
    static LARGE: OnceLock<StaticReply> = OnceLock::new();
    if request.path() == "/large" {
        return reply.send(LARGE.get_or_init(|| StaticReply::text(Status::OK, vec![b'x'; 1_000_000])));
    }
    match Unique::parse(request.path()) {
        Some(unique) => reply.status(Status::OK).content_bytes(unique.body().into()),
        None => reply.send(ALIVE.get_or_init(|| StaticReply::text(Status::OK, "ok\n"))),
    }
}

/// Returns the same service over the raw protocol: one request, one reply that looks like HTTP,
/// close.
pub(crate) fn raw() -> Raw {
    Raw::new(|received: &[u8], reply: &mut Vec<u8>| {
        if !received.ends_with(b"\r\n\r\n") {
            return RawNext::NeedMore;
        }
        let text = String::from_utf8_lossy(received);
        let body =
            text.split(' ').nth(1).and_then(Unique::parse).map_or_else(|| b"ok\n".to_vec(), Unique::body);
        write!(reply, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())
            .expect("a vector takes any bytes");
        reply.extend_from_slice(&body);
        RawNext::Close
    })
}
