//! io_uring denied at set-up or at run time: epoll serves within the promised time, the reason is
//! reported once, and no listener is lost.
//!
//! Each case runs in its own thread, because a seccomp filter cannot be removed.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests measure the time of a fallback and may panic"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroU16;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use doorbell::driver::DriverKind;
use doorbell::driver::examine::Cause;
use doorbell::{
    Engine, Event, Http1, Listen, Server, ServerBuilder, StartErrorKind, StaticReply, Status, Workers,
    service_fn,
};
use doorbell_ring::Errno;
use doorbell_ring::sandbox::{Denial, deny};
use doorbell_testkit::figures::at_most;
use doorbell_testkit::skip;

/// Errors of container runtimes, old kernels, tight memory limits and unknown flags (errno(3) on
/// Linux).
const ERRNOS: [(&str, Errno); 4] =
    [("EPERM", Errno(1)), ("ENOMEM", Errno(12)), ("EINVAL", Errno(22)), ("ENOSYS", Errno(38))];

/// The promised maximum time from the start to the first reply.
const SERVES_WITHIN: Duration = Duration::from_millis(50);

fn builder() -> ServerBuilder {
    let ok = StaticReply::text(Status::OK, "ok\n");
    let service = Http1::new(service_fn(move |request, reply| {
        if let Some(errno) = request.path().strip_prefix("/deny/") {
            deny(&Denial::later(Errno(errno.parse().unwrap()))).unwrap();
        }
        reply.send(&ok)
    }));
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Server::builder()
        .workers(Workers::Count(NonZeroU16::new(2).unwrap()))
        .conns_max(64)
        .listen(Listen::tcp(loopback), service)
}

fn get(addr: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut reply = String::new();
    // A connection that was open when its ring failed is lost; the caller checks the bytes that
    // arrived.
    let _lost = stream.read_to_string(&mut reply);
    reply
}

fn in_own_thread(case: impl FnOnce() + Send + 'static) {
    std::thread::spawn(case).join().unwrap();
}

/// Returns the shortest of several tries, to exclude other activity of the machine.
fn quickest(tries: usize, mut timed: impl FnMut() -> Duration) -> Duration {
    (0..tries).map(|_| timed()).min().unwrap()
}

#[test]
fn denied_at_set_up_epoll_serves_within_50_ms_and_names_the_reason() {
    for (name, errno) in ERRNOS {
        in_own_thread(move || {
            deny(&Denial::at_setup(errno)).unwrap();
            let took = quickest(5, || {
                let began = Instant::now();
                let server = builder().start().unwrap();
                assert!(get(server.tcp_addr(0).unwrap(), "/livez").ends_with("ok\n"));
                let took = began.elapsed();
                let report = server.driver_report();
                assert_eq!(report.kind, DriverKind::Epoll);
                assert!(report.is_fallback, "{name}: epoll replaces io_uring: {report}");
                assert!(report.why.contains(name), "{name}: the cause is named: {report}");
                assert!(!matches!(report.cause, Cause::Forced | Cause::Ok), "{name}: {report:?}");
                server.stop().unwrap();
                took
            });
            at_most(format_args!("{name}: start and first reply"), took, SERVES_WITHIN);
        });
    }
}

#[test]
fn denied_at_set_up_a_forced_io_uring_does_not_start() {
    for (name, errno) in ERRNOS {
        in_own_thread(move || {
            deny(&Denial::at_setup(errno)).unwrap();
            let error = builder().engine(Engine::IoUring).start().unwrap_err();
            assert_eq!(error.kind(), StartErrorKind::EngineUnavailable, "{name}: {error}");
            assert!(error.to_string().contains(name), "{name}: {error}");
        });
    }
}

#[test]
fn denied_at_run_time_each_worker_continues_with_epoll_and_reports_once() {
    if !skip::io_uring() {
        return;
    }
    for (name, errno) in ERRNOS {
        in_own_thread(move || {
            let (sender, receiver) = sync_channel(64);
            let server =
                builder().observer(move |event| sender.try_send(event.clone()).unwrap()).start().unwrap();
            let addr = server.tcp_addr(0).unwrap();
            assert_eq!(server.driver_report().kind, DriverKind::IoUring);
            // The kernel distributes connections to both workers. The first request on each worker
            // installs the filter.
            let mut failed = 0;
            for _ in 0..200 {
                let _lost = get(addr, &format!("/deny/{}", errno.0));
                failed +=
                    receiver.try_iter().filter(|event| matches!(event, Event::DriverFellBack { .. })).count();
                if failed == 2 {
                    break;
                }
            }
            assert_eq!(failed, 2, "{name}: one event for each worker");
            for _ in 0..50 {
                assert!(get(addr, "/livez").ends_with("ok\n"), "{name}: both workers serve");
            }
            assert!(receiver.try_recv().is_err(), "{name}: no further event");
            assert_eq!(server.stats().driver_fallbacks, 2);
            server.stop().unwrap();
        });
    }
}
