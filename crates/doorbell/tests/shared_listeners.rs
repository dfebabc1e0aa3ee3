//! Tests of listening sockets shared by all workers: no client waits for a blocked worker while
//! another is idle, and no worker serves all clients.
//!
//! Does not know about: single drivers (see `conformance`), sockets that are not shared.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real sockets and may panic"
)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU16;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use doorbell::{
    Descriptors, Engine, Handler, Http1, Listen, Replied, Request, Responder, Server, StaticReply, Status,
    Workers, service_fn,
};
use doorbell_testkit::skip;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Timeout for events that must happen.
const LIMIT: Duration = Duration::from_secs(20);
const SHARE_PERCENT_MIN: u32 = 40;

/// A service that replies to `/block` when the test continues, to `/work` after a millisecond, and
/// to all other paths at once.
struct Blocking {
    begun: SyncSender<()>,
    goes_on: Mutex<Receiver<()>>,
    works: Mutex<HashMap<ThreadId, u32>>,
    ok: StaticReply,
}

impl Handler for Blocking {
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match request.path() {
            "/block" => {
                self.begun.send(()).unwrap();
                self.goes_on.lock().unwrap().recv().unwrap();
            }
            "/work" => {
                *self.works.lock().unwrap().entry(std::thread::current().id()).or_default() += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            _ => {}
        }
        reply.send(&self.ok)
    }
}

/// The address of a shared listener.
#[derive(Clone, Debug)]
enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl ListenAddress {
    fn ask(&self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        match self {
            Self::Tcp(addr) => {
                let stream = TcpStream::connect(addr).unwrap();
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                exchange(stream, &request)
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                exchange(stream, &request)
            }
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    match stream.read_to_string(&mut reply) {
        Ok(_) => reply,
        Err(error) => format!("no reply: {error}"),
    }
}

/// Creates a listener of each of the three shared kinds.
fn shared(name: &str) -> [(Listen, ListenAddress); 3] {
    let [inherited, listening] = [(); 2].map(|()| TcpListener::bind(LOOPBACK).unwrap());
    let [first, second] = [&inherited, &listening].map(|listener| listener.local_addr().unwrap());
    let path = std::env::temp_dir().join(format!("doorbell-shared-{name}-{}.sock", std::process::id()));
    [
        (Listen::inherited(inherited.into()), ListenAddress::Tcp(first)),
        (Listen::tcp(second).listening(vec![listening.into()]), ListenAddress::Tcp(second)),
        (Listen::unix(&path), ListenAddress::Unix(path)),
    ]
}

fn each_way(name: &str, case: impl Fn(&Server, &ListenAddress, &Blocking, &SyncSender<()>, &Receiver<()>)) {
    let uring = skip::io_uring();
    let ways = [
        (Engine::Epoll, Descriptors::Auto),
        (Engine::IoUring, Descriptors::Auto),
        (Engine::IoUring, Descriptors::Direct),
    ];
    for (engine, descriptors) in ways.into_iter().filter(|(engine, _)| uring || *engine == Engine::Epoll) {
        for (listen, place) in shared(name) {
            let (begun, begins) = sync_channel(1);
            let (go_on, goes_on) = sync_channel(1);
            let handler = Arc::new(Blocking {
                begun,
                goes_on: Mutex::new(goes_on),
                works: Mutex::default(),
                ok: StaticReply::text(Status::OK, "ok\n"),
            });
            let serves = Arc::clone(&handler);
            let http = Http1::new(service_fn(move |request, reply| serves.call(request, reply)));
            let server = Server::builder()
                .engine(engine)
                .descriptors(descriptors)
                .workers(Workers::Count(NonZeroU16::new(2).unwrap()))
                .conns_max(256)
                // Direct descriptors hide the peers' addresses, so the cap per address must be off.
                .conns_per_ip_max(0)
                .listen(listen, http)
                .start()
                .unwrap();
            assert!(!server.driver_report().direct, "{}", server.driver_report());
            case(&server, &place, &handler, &go_on, &begins);
            server.stop().unwrap();
        }
    }
}

#[test]
fn no_client_waits_behind_a_blocked_worker_while_another_is_idle() {
    each_way("blocked", |server, place, _, go_on, begins| {
        let blocked = std::thread::spawn({
            let place = place.clone();
            move || place.ask("/block")
        });
        begins.recv_timeout(LIMIT).unwrap();
        // The worker stays blocked until these clients are served.
        for round in 0..20 {
            let reply = place.ask("/livez");
            assert!(
                reply.ends_with("ok\n"),
                "{}, {place:?}, client {round}: {reply}",
                server.driver_report()
            );
        }
        // The check for stalled accepts would find waiting clients, but no client may have to wait
        // for that check.
        assert_eq!(server.stats().accept_stalls, 0, "{}, {place:?}", server.driver_report());
        go_on.send(()).unwrap();
        assert!(blocked.join().unwrap().ends_with("ok\n"));
    });
}

#[test]
fn each_of_two_workers_does_its_share() {
    const REQUESTS: u32 = 600;
    each_way("share", |server, place, handler, _, _| {
        let left = AtomicU32::new(REQUESTS);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let one = |left: u32| left.checked_sub(1);
                    while left.try_update(Ordering::Relaxed, Ordering::Relaxed, one).is_ok() {
                        assert!(place.ask("/work").ends_with("ok\n"));
                    }
                });
            }
        });
        let works: Vec<u32> = handler.works.lock().unwrap().values().copied().collect();
        assert_eq!(works.iter().sum::<u32>(), REQUESTS);
        let least = if works.len() == 2 { works.iter().copied().min().unwrap() } else { 0 };
        assert!(
            least * 100 >= REQUESTS * SHARE_PERCENT_MIN,
            "{}, {place:?}: {works:?}",
            server.driver_report()
        );
    });
}
