//! Shared parts of the embedding tests: a server with a given driver, a program that serves unique
//! ids, and counts of descriptors.
//!
//! `DOORBELL_FULL=1` runs the tests at the size that the promises state.

#![allow(dead_code, reason = "each test program uses its part")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use doorbell::{Descriptors, DriverKind, Engine, Http1, Listen, Server, ServerBuilder, Workers};
use doorbell_testkit::peers::{Reply, Unique, exchange};
use doorbell_testkit::skip;
use doorbell_tokio::{Control, Details, Doorbell, Handed, Health, HealthBuilder, Probes};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

/// `full` with `DOORBELL_FULL=1`, otherwise `now`.
pub(crate) fn sized<T>(now: T, full: T) -> T {
    if is_full() { full } else { now }
}

pub(crate) fn is_full() -> bool {
    std::env::var("DOORBELL_FULL").is_ok_and(|value| value == "1")
}

/// Lock for tests that measure the whole process or processor time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A free port of 127.0.0.1.
pub(crate) fn anywhere() -> Listen {
    Listen::tcp(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// A health that is not ready at first, with limits that a loaded machine does not reach.
pub(crate) fn patient() -> Health {
    limited(|health| health)
}

/// Like [`patient`], with changed limits.
pub(crate) fn limited(change: impl FnOnce(HealthBuilder) -> HealthBuilder) -> Health {
    let limit = Duration::from_secs(60);
    let health = Health::builder()
        .details(Details::Always)
        .starts_unready()
        .stalled_after(limit, limit)
        .accept_within(limit, limit);
    change(health).build().expect("it is valid")
}

/// A health that is not ready at first and does not wake a runtime.
pub(crate) fn without_heartbeat() -> Health {
    Health::builder()
        .starts_unready()
        .without_heartbeat()
        .details(Details::Always)
        .build()
        .expect("it is valid")
}

/// The combinations of driver and descriptors.
pub(crate) const ENGINES: [(Engine, Descriptors); 3] = [
    (Engine::Auto, Descriptors::Auto),
    (Engine::Auto, Descriptors::Direct),
    (Engine::Epoll, Descriptors::Auto),
];

/// One worker with the probes of `health`; all other connections are handed over.
pub(crate) fn builder((engine, descriptors): (Engine, Descriptors), health: &Health) -> ServerBuilder {
    Server::builder()
        .engine(engine)
        .descriptors(descriptors)
        .workers(Workers::Count(NonZeroU16::MIN))
        .conns_max(4_000)
        .conns_per_ip_max(0)
        .listen(anywhere(), Http1::new(Probes::new(health)))
}

/// A server on the runtime itself, as on systems other than Linux.
pub(crate) async fn on_runtime(health: &Health) -> (Control, Handed) {
    let server = Doorbell::bind("127.0.0.1:0").health(health).without_signals().on_runtime();
    server.start().await.expect("a free port")
}

/// Serves unique ids with hyper on every connection that is handed over, until there are no more.
pub(crate) async fn serve_unique(mut handed: Handed) {
    while let Some(connection) = handed.accept().await {
        tokio::spawn(async move {
            // A client may leave early; it checks what it received.
            let _ended = http1::Builder::new()
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(connection.stream), service_fn(unique))
                .await;
        });
    }
}

async fn unique(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = Unique::parse(request.uri().path()).map_or_else(Vec::new, Unique::body);
    Ok(Response::new(Full::new(Bytes::from(body))))
}

/// The status of a GET, or the error.
pub(crate) fn status(addr: SocketAddr, path: &str) -> Result<u16, String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let got = exchange(addr, request.as_bytes()).map_err(|error| error.to_string())?;
    Reply::parse(&got.bytes, false).map(|reply| reply.status).ok_or_else(|| format!("no reply: {got:?}"))
}

/// Open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

/// Waits until `done` is true, for at most 20 s.
pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within 20 s");
}

/// Waits until `done` is true, for at most 20 s, without a runtime.
#[expect(clippy::disallowed_methods, reason = "it waits for another thread")]
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let is_done = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        done()
    });
    assert!(is_done, "{what}: not within 20 s");
}

/// Waits until the server runs and returns its address. Asserts that it uses the requested driver,
/// unless io_uring is unavailable here and not required.
pub(crate) async fn ready(control: &Control, (engine, descriptors): (Engine, Descriptors)) -> SocketAddr {
    control.ready().await.expect("it starts");
    let report = control.driver_report().expect("known once it is ready");
    let wanted = if engine == Engine::Epoll { DriverKind::Epoll } else { DriverKind::IoUring };
    if report.kind == wanted {
        assert_eq!(report.direct, descriptors == Descriptors::Direct, "{report:?}");
    } else {
        let stands_in = report.is_fallback && !skip::io_uring();
        assert!(stands_in, "{engine:?} was requested and works: {report:?}");
    }
    control.tcp_addr(0).expect("a TCP listener")
}
