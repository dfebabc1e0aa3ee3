//! Faults of the application and invalid arguments do not end the server and affect nothing else:
//! panics of application code, unusable limits and descriptors, signals of a ring.
//!
//! Does not know about: handlers that panic while they handle a request (see `server.rs`).
#![cfg(feature = "rayon")]
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real sockets and may panic"
)]

mod promise;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use doorbell::id::WorkerIndex;
use doorbell::offload::{Executor, JobReply, Offload, Pump};
use doorbell::{
    Engine, Event, HandOver, HandedConn, Http1, Limits, Listen, OnWorkerFailure, Replied, Reply, Responder,
    Server, StartErrorKind, StaticReply, Status, Taker, service_fn,
};
use doorbell_testkit::peers::{exchange, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use promise::{addr, alone, anywhere, builder, on_both_engines, workers};

on_both_engines! {
    a_taker_that_panics_loses_only_its_batch
    an_observer_that_panics_ends_nothing
    a_panic_payload_may_panic_when_dropped
    an_executor_that_panics_costs_the_job
    values_captured_by_a_job_may_panic_when_dropped
    notified_layers_may_panic
    values_held_by_a_service_may_panic_when_dropped
    a_drain_of_lent_sockets_ends_under_load
    a_start_interrupts_no_call_of_its_thread
    a_server_may_be_dropped_on_its_own_threads
}

const LIMIT: Duration = Duration::from_secs(60);
const CLOSE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// A value that panics when dropped, with another value of this type as the payload.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic_any(Self);
    }
}

fn ok() -> Http1 {
    let ok = StaticReply::text(Status::OK, "ok\n");
    Http1::new(service_fn(move |_, reply| reply.send(&ok)))
}

fn status(server: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let got = exchange(server, request.as_bytes()).unwrap();
    String::from_utf8_lossy(got.bytes.get(9..12).unwrap_or_default()).into_owned()
}

fn assert_serves(server: &Server) {
    assert!(server.handle().is_healthy());
    for _ in 0..4 {
        assert_eq!(status(addr(server), "/livez"), "200");
    }
}

struct PanickingTaker;

impl Taker for PanickingTaker {
    fn take(&self, conns: &mut Vec<HandedConn>) {
        drop(conns.pop());
        panic_any(Grenade);
    }
}

fn a_taker_that_panics_loses_only_its_batch(engine: Engine) {
    let _turn = alone();
    let ok = StaticReply::text(Status::OK, "ok\n");
    let service = service_fn(move |request, reply| match request.path() {
        "/away" => reply.hand_over(),
        _ => reply.send(&ok),
    });
    let to = HandOver::new(PanickingTaker);
    let server = builder(engine).hand_over(to).listen(anywhere(), Http1::new(service)).start().unwrap();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(addr(&server)).unwrap();
        stream.write_all(b"GET /away HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut reply = Vec::new();
        let _reset = stream.read_to_end(&mut reply);
        assert_eq!(reply, b"");
    }
    assert!(wait_until(LIMIT, || server.stats().handler_panics >= 1).is_some());
    assert_serves(&server);
    server.stop().unwrap();
}

fn an_observer_that_panics_ends_nothing(engine: Engine) {
    let _turn = alone();
    for on_failure in [OnWorkerFailure::Degrade, OnWorkerFailure::Stop] {
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let observer = move |event: &Event| {
            sink.lock().unwrap().push(event.clone());
            panic_any(Grenade);
        };
        let server = builder(engine)
            .on_worker_failure(on_failure)
            .observer(observer)
            .listen(anywhere(), ok())
            .start()
            .unwrap();
        let handle = server.handle();
        handle.fail_worker(WorkerIndex(0));
        assert!(wait_until(LIMIT, || !handle.is_healthy()).is_some());
        assert!(wait_until(LIMIT, || !events.lock().unwrap().is_empty()).is_some());
        let stops = on_failure == OnWorkerFailure::Stop;
        assert!(wait_until(LIMIT, || handle.is_draining() == stops).is_some());
        let failure = match on_failure {
            OnWorkerFailure::Degrade => server.stop().err(),
            OnWorkerFailure::Stop => server.wait().err(),
        };
        assert_eq!(failure.is_some(), stops, "{failure:?}");
    }
}

fn a_panic_payload_may_panic_when_dropped(engine: Engine) {
    let _turn = alone();
    let ok = StaticReply::text(Status::OK, "ok\n");
    let service = service_fn(move |request, reply| {
        if request.path() == "/panic" {
            panic_any(Grenade);
        }
        reply.send(&ok)
    });
    let server = builder(engine).listen(anywhere(), Http1::new(service)).start().unwrap();
    for _ in 0..4 {
        assert_eq!(status(addr(&server), "/panic"), "500");
    }
    // A handler also panics on a connection that already has protocol state.
    let mut stream = TcpStream::connect(addr(&server)).unwrap();
    for path in ["/livez", "/panic"] {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let mut start = [0; 9];
        stream.read_exact(&mut start).unwrap();
    }
    assert!(wait_until(LIMIT, || server.stats().handler_panics == 5).is_some(), "{:?}", server.stats());
    assert_serves(&server);
    server.stop().unwrap();
}

/// An executor that panics instead of providing a thread.
struct PanickingExecutor;

impl Executor for PanickingExecutor {
    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, pump: Pump) {
        drop(pump);
        panic_any(Grenade);
    }
}

/// A server whose `/job` runs in `jobs`.
fn with_jobs(
    engine: Engine,
    jobs: Offload,
    job: impl Fn() -> JobReply + Copy + Send + Sync + 'static,
) -> Server {
    let ok = StaticReply::text(Status::OK, "ok\n");
    let service = service_fn(move |request, reply| match request.path() {
        "/job" => {
            let grenade = Grenade;
            jobs.run(request, reply, move || {
                let _captured = &grenade;
                job()
            })
        }
        _ => reply.send(&ok),
    });
    builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(service)).start().unwrap()
}

fn an_executor_that_panics_costs_the_job(engine: Engine) {
    let _turn = alone();
    let jobs = Offload::builder().timeout(Duration::from_secs(3_600)).build_on(PanickingExecutor);
    let server = with_jobs(engine, jobs, || Reply::new(Status::OK).into());
    for _ in 0..4 {
        assert_eq!(status(addr(&server), "/job"), "503");
    }
    assert_serves(&server);
    assert_eq!(server.stats().jobs_refused, 4);
    server.stop().unwrap();
}

fn values_captured_by_a_job_may_panic_when_dropped(engine: Engine) {
    let _turn = alone();
    // Captured values are dropped after the job has run.
    let jobs = Offload::builder().threads(std::num::NonZeroU16::MIN).build().unwrap();
    let server = with_jobs(engine, jobs, || Reply::new(Status::OK).into());
    for _ in 0..4 {
        assert_eq!(status(addr(&server), "/job"), "500");
    }
    assert_serves(&server);
    server.stop().unwrap();

    // Captured values are dropped on the ring thread when the job is cancelled, after a timeout or
    // because the client left.
    struct Never(Mutex<Vec<Pump>>);
    impl Executor for Never {
        fn threads(&self) -> usize {
            1
        }
        fn spawn(&self, pump: Pump) {
            self.0.lock().unwrap().push(pump);
        }
    }
    let jobs = Offload::builder().timeout(Duration::from_millis(20)).build_on(Never(Mutex::default()));
    let server = with_jobs(engine, jobs, || Reply::new(Status::OK).into());
    for _ in 0..4 {
        assert_eq!(status(addr(&server), "/job"), "503");
    }
    assert_serves(&server);
    server.stop().unwrap();

    // A late result is dropped together with the values that its closure captured.
    let (gone, is_gone) = sync_channel(1);
    let is_gone = Arc::new(Mutex::new(is_gone));
    let jobs = Offload::builder().timeout(Duration::from_millis(20)).build().unwrap();
    let service = service_fn(move |request, reply| match request.path() {
        "/job" => {
            let is_gone = Arc::clone(&is_gone);
            jobs.run(request, reply, move || {
                let grenade = Grenade;
                is_gone.lock().unwrap().recv().unwrap();
                JobReply::then(move |reply: Responder<'_>| {
                    let _captured = &grenade;
                    reply.status(Status::OK).content("late")
                })
            })
        }
        _ => reply.status(Status::OK).content("ok"),
    });
    let server = builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(service)).start().unwrap();
    assert_eq!(status(addr(&server), "/job"), "503");
    gone.send(()).unwrap();
    assert!(wait_until(LIMIT, || server.stats().answers_dropped == 1).is_some(), "{:?}", server.stats());
    assert_serves(&server);
    server.stop().unwrap();
}

/// A layer that panics when it is notified of the end of a pending request affects nothing else.
fn notified_layers_may_panic(engine: Engine) {
    let _turn = alone();
    let (release, released) = sync_channel::<()>(8);
    let released = Arc::new(Mutex::new(released));
    let jobs = Offload::builder().timeout(Duration::from_millis(300)).build().unwrap();
    let endings = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&endings);
    let service = service_fn(move |request, reply| {
        let (released, sink, path) = (Arc::clone(&released), Arc::clone(&sink), request.path().to_owned());
        let (jobs, outer) = (jobs.clone(), Arc::clone(&sink));
        let job = move || -> JobReply {
            match path.as_str() {
                "/slow" => released.lock().unwrap().recv().unwrap(),
                "/then" => return JobReply::then(|_| panic_any(Grenade)),
                _ => {}
            }
            Reply::text(Status::OK, "done").into()
        };
        let outer = move |status| outer.lock().unwrap().push(status);
        watched(reply, outer, |reply| {
            let inner = move |status| {
                sink.lock().unwrap().push(status);
                panic_any(Grenade);
            };
            watched(reply, inner, |reply| jobs.run(request, reply, job))
        })
    });
    let server = builder(engine).workers(workers(1)).listen(anywhere(), Http1::new(service)).start().unwrap();
    let place = addr(&server);
    let take = |count: usize| {
        assert!(wait_until(LIMIT, || endings.lock().unwrap().len() >= count).is_some(), "{endings:?}");
        std::mem::take(&mut *endings.lock().unwrap())
    };
    // The ends of a request: a reply is sent; the reply panics; the timeout expires; the client
    // leaves.
    assert_eq!((status(place, "/job"), take(2)), ("200".to_owned(), vec![Some(200); 2]));
    assert_eq!((status(place, "/then"), take(2)), ("500".to_owned(), vec![Some(500); 2]));
    assert_eq!((status(place, "/slow"), take(2)), ("503".to_owned(), vec![Some(503); 2]));
    let gone = TcpStream::connect(place).unwrap();
    (&gone).write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(wait_until(LIMIT, || server.stats().jobs_queued == 4).is_some(), "{:?}", server.stats());
    rustix::net::sockopt::set_socket_linger(&gone, Some(Duration::ZERO)).unwrap();
    drop(gone);
    assert_eq!(take(2), [None; 2]);
    (0..2).for_each(|_| release.send(()).unwrap());
    assert!(server.handle().is_healthy());
    assert_eq!(status(place, "/job"), "200");
    server.stop().unwrap();
}

fn watched<'a>(
    reply: Responder<'a>,
    hears: impl FnOnce(Option<u16>) + Send + 'static,
    serve: impl FnOnce(Responder<'_>) -> Replied<'_>,
) -> Replied<'a> {
    reply.watch(serve, || Some(Box::new(move |status: Option<Status>, _| hears(status.map(Status::code)))))
}

fn values_held_by_a_service_may_panic_when_dropped(engine: Engine) {
    let _turn = alone();
    let grenade = Grenade;
    let service = service_fn(move |_, reply| {
        let _held = &grenade;
        reply.status(Status::OK).content("ok")
    });
    let server = builder(engine).listen(anywhere(), Http1::new(service)).start().unwrap();
    assert_serves(&server);
    server.stop().unwrap();
}

/// If another process has duplicates of the sockets and serves new clients, a backlog that is never
/// empty must not delay the end of a drain.
fn a_drain_of_lent_sockets_ends_under_load(engine: Engine) {
    let _turn = alone();
    let slow = service_fn(|_, reply| {
        thread::sleep(Duration::from_millis(2));
        reply.status(Status::OK).content("ok")
    });
    let server = builder(engine)
        .workers(workers(1))
        .listen(anywhere().defer_accept(None), Http1::new(slow))
        .start()
        .unwrap();
    let (place, handle) = (addr(&server), server.handle());
    let copies = handle.listening().unwrap();
    let (going, served) = (AtomicBool::new(true), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                while going.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect_timeout(&place, Duration::from_secs(1)) else {
                        continue;
                    };
                    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                    let _sent = stream.write_all(CLOSE);
                    let mut reply = Vec::new();
                    if stream.read_to_end(&mut reply).is_ok_and(|len| len > 0) {
                        served.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
        assert!(wait_until(LIMIT, || served.load(Ordering::Relaxed)).is_some());
        handle.drain_within(Duration::from_secs(3_600));
        let (ended, has_ended) = sync_channel(1);
        scope.spawn(move || ended.send(server.wait().is_ok()));
        let waited = has_ended.recv_timeout(LIMIT);
        going.store(false, Ordering::Relaxed);
        handle.stop();
        assert_eq!(waited, Ok(true), "the drain ends while clients connect");
    });
    drop(copies);
}

/// The start of a server must not interrupt system calls of its thread. A ring interrupts the
/// thread that opened it, even some time after it was closed.
fn a_start_interrupts_no_call_of_its_thread(engine: Engine) {
    let _turn = alone();
    for _ in 0..5 {
        let server = builder(engine).listen(anywhere(), ok()).start().unwrap();
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        assert_eq!(
            rustix::event::poll(&mut [], Some(&wait)),
            Ok(0),
            "a blocking call ends after its own timeout"
        );
        server.stop().unwrap();
    }
}

/// A panic while a panic unwinds the thread would abort the process.
fn a_server_may_be_dropped_on_its_own_threads(engine: Engine) {
    let _turn = alone();
    let own: Arc<Mutex<Option<Server>>> = Arc::default();
    let slot = Arc::clone(&own);
    let service = service_fn(move |_, _| {
        let _server = slot.lock().unwrap().take();
        panic_any("the server is dropped while this unwinds");
    });
    let server = builder(engine).workers(workers(2)).listen(anywhere(), Http1::new(service)).start().unwrap();
    let (place, handle) = (addr(&server), server.handle());
    *own.lock().unwrap() = Some(server);
    let _reply = exchange(place, CLOSE);
    assert!(wait_until(LIMIT, || TcpStream::connect(place).is_err()).is_some(), "the server stops");
    assert_eq!(handle.stats().handler_panics, 1, "the panic is contained");
}

#[test]
fn a_passed_socket_must_listen() {
    let _turn = alone();
    let udp: OwnedFd = UdpSocket::bind("127.0.0.1:0").unwrap().into();
    let connected = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp: OwnedFd = TcpStream::connect(connected.local_addr().unwrap()).unwrap().into();
    let (datagrams, _other) = UnixDatagram::pair().unwrap();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let bound =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&bound, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    for (fd, why) in [
        (udp, "not a stream socket"),
        (tcp, "does not listen"),
        (datagrams.into(), "not a stream socket"),
        (bound.try_clone().unwrap(), "does not listen"),
    ] {
        let error = builder(Engine::Epoll).listen(Listen::inherited(fd), ok()).start().unwrap_err();
        assert_eq!(error.kind(), StartErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let error = builder(Engine::Epoll).listen(Listen::inherited(pipe.into()), ok()).start().unwrap_err();
    assert!(error.to_string().contains("inherited descriptor"), "{error}");
    let sockets = Listen::tcp("127.0.0.1:0".parse().unwrap()).listening(vec![bound]);
    let error = builder(Engine::Epoll).listen(sockets, ok()).start().unwrap_err();
    assert_eq!(error.kind(), StartErrorKind::Misconfigured, "{error}");
}

/// Sets the descriptor limit of the process. The limit is shared, so these tests run one after
/// another.
fn with_nofile(limit: Rlimit, f: impl FnOnce()) {
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, limit).unwrap();
    f();
    setrlimit(Resource::Nofile, before).unwrap();
}

#[test]
fn limits_set_together_request_no_more_than_each_alone() {
    let _turn = alone();
    let one = || Server::builder().engine(Engine::Epoll).workers(workers(1)).listen(anywhere(), ok());
    let some = || Limits { write_timeout: Duration::from_secs(3), ..Limits::default() };
    let before = getrlimit(Resource::Nofile);
    with_nofile(Rlimit { current: Some(1_024), ..before }, || {
        let server = one().limits(some()).raise_descriptor_limit(false).start().unwrap();
        assert_eq!(server.notes().len(), 1, "fewer connections: {:?}", server.notes());
        assert_eq!(getrlimit(Resource::Nofile).current, Some(1_024));
        server.stop().unwrap();

        let refused = |error: doorbell::StartError| {
            assert_eq!(error.kind(), StartErrorKind::TooFewDescriptors, "{error}");
        };
        let demanded = || one().raise_descriptor_limit(false).conns_max(5_000);
        refused(demanded().start().unwrap_err());
        refused(demanded().limits(some()).start().unwrap_err());

        let server = one().conns_max(100).limits(some()).raise_descriptor_limit(false).start().unwrap();
        assert_eq!(server.notes(), [""; 0]);
        server.stop().unwrap();
        one().start().unwrap().stop().unwrap();
        assert_ne!(getrlimit(Resource::Nofile).current, Some(1_024), "by default the limit is raised");
    });
}
