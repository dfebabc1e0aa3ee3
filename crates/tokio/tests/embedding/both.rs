//! Jobs and hand-over in one server: a drain finishes both, and a panic in one does not affect the
//! other.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use doorbell::{
    Handler, Http1, MessageStart, Offload, Replied, Reply, Request, Responder, Server, StaticReply, Status,
    Workers,
};
use doorbell_testkit::peers::{End, Reply as Got, exchange};
use doorbell_tokio::{Control, Embed, Handed, Probes};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::Notify;

use crate::common::{ENGINES, anywhere, patient, ready, until};

/// Concurrent clients of each kind; more than the pool has threads.
const CLIENTS: usize = 6;

/// `/job` blocks a thread of the pool until it is released, `/panic` panics there, `/here` replies
/// at once; other paths are for the program.
struct Lanes {
    jobs: Offload,
    here: StaticReply,
    go: Arc<Mutex<Receiver<()>>>,
}

impl Handler for Lanes {
    fn hands_over(&self, _begun: MessageStart<'_>) -> bool {
        true
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        match request.path() {
            "/here" => reply.send(&self.here),
            "/job" => {
                let go = Arc::clone(&self.go);
                self.jobs.run(request, reply, move || {
                    let let_go = go.lock().unwrap_or_else(PoisonError::into_inner);
                    let in_time = let_go.recv_timeout(Duration::from_secs(20)).is_ok();
                    Reply::text(Status::OK, if in_time { "job" } else { "late" })
                })
            }
            "/panic" => self.jobs.run(request, reply, || -> Reply { panic!("a job of this test") }),
            _ => reply.hand_over(),
        }
    }
}

struct Bench {
    control: Control,
    addr: SocketAddr,
    /// A message releases one job.
    go: SyncSender<()>,
    /// Releases requests of the program.
    answer: Arc<Notify>,
    serving: tokio::task::JoinHandle<usize>,
}

async fn bench(way: usize) -> Bench {
    let (engine, descriptors) = ENGINES[way];
    let (go, gone) = sync_channel(CLIENTS);
    let lanes = Lanes {
        jobs: Offload::builder().threads(NonZeroU16::new(2).unwrap()).build().unwrap(),
        here: StaticReply::text(Status::OK, "here"),
        go: Arc::new(Mutex::new(gone)),
    };
    let health = patient();
    let server = Server::builder()
        .engine(engine)
        .descriptors(descriptors)
        .conns_per_ip_max(0)
        .workers(Workers::Count(NonZeroU16::MIN))
        .conns_max(4_000)
        .listen(anywhere(), Http1::new(Probes::new(&health).before(lanes)));
    let (control, handed) = Embed::new(server).health(&health).start();
    let addr = ready(&control, ENGINES[way]).await;
    health.set_ready(true);
    let answer = Arc::new(Notify::new());
    let serving = tokio::spawn(serve(handed, Arc::clone(&answer)));
    Bench { control, addr, go, answer, serving }
}

/// Serves handed-over connections after `answer` is notified, until there are no more; returns
/// their number.
async fn serve(mut handed: Handed, answer: Arc<Notify>) -> usize {
    let mut serving = tokio::task::JoinSet::new();
    while let Some(connection) = handed.accept().await {
        let answer = Arc::clone(&answer);
        let slow = service_fn(move |_: hyper::Request<Incoming>| {
            let answer = Arc::clone(&answer);
            async move {
                answer.notified().await;
                Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::from_static(b"app"))))
            }
        });
        serving.spawn(async move {
            http1::Builder::new().serve_connection(TokioIo::new(connection.stream), slow).await.unwrap();
        });
    }
    let count = serving.len();
    serving.join_all().await;
    count
}

/// Status, body, whether the reply has `Connection: close`, and how the connection ended.
type TestReply = (u16, Vec<u8>, bool, End);

fn ask(addr: SocketAddr, path: &'static str) -> JoinHandle<TestReply> {
    std::thread::spawn(move || {
        // Except for `/app`, the client keeps the connection open, so a close comes from the
        // server.
        let last = if path == "/app" { "Connection: close\r\n" } else { "" };
        let got = exchange(addr, format!("GET {path} HTTP/1.1\r\nHost: a\r\n{last}\r\n").as_bytes()).unwrap();
        let reply = Got::parse(&got.bytes, false).unwrap();
        let announces_close = reply.field("connection") == Some("close");
        (reply.status, reply.body, announces_close, got.end)
    })
}

fn ask_all(addr: SocketAddr, path: &'static str) -> Vec<JoinHandle<TestReply>> {
    (0..CLIENTS).map(|_| ask(addr, path)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_of_both_finishes_jobs_and_handed_over_connections() {
    for way in 0..ENGINES.len() {
        let bench = bench(way).await;
        let (jobs, apps) = (ask_all(bench.addr, "/job"), ask_all(bench.addr, "/app"));
        let all = CLIENTS as u64;
        until("all are under way", || {
            let stats = bench.control.stats();
            stats.ring.jobs_queued == all && stats.handed_out as usize == CLIENTS && stats.handed_waiting == 0
        })
        .await;
        let control = bench.control.clone();
        let draining = tokio::spawn(async move { control.drain(Duration::from_secs(20)).await });
        let delivered = tokio::spawn(bench.control.shutdown());
        until("no more clients are accepted", || std::net::TcpStream::connect(bench.addr).is_err()).await;
        assert!(!draining.is_finished(), "jobs are awaited");
        assert!(!delivered.is_finished(), "a job could still be followed by a request for the program");
        (0..CLIENTS).for_each(|_| bench.go.send(()).unwrap());
        draining.await.unwrap().unwrap();
        delivered.await.unwrap();
        for job in jobs {
            let (status, body, announces_close, end) = job.join().unwrap();
            assert_eq!((status, body, announces_close, end), (200, b"job".to_vec(), true, End::Fin), "{way}");
        }
        assert_eq!(
            bench.control.stats().handed_out as usize,
            CLIENTS,
            "the program still has its connections"
        );
        assert!(apps.iter().all(|app| !app.is_finished()));
        bench.answer.notify_waiters();
        assert_eq!(bench.serving.await.unwrap(), CLIENTS);
        for app in apps {
            let (status, body, ..) = app.join().unwrap();
            assert_eq!((status, body), (200, b"app".to_vec()), "{way}");
        }
        let stats = bench.control.stats();
        assert_eq!((stats.handed_out, stats.ring.conns_live), (0, 0), "{stats:?}");
        let dropped = (stats.ring.answers_dropped, stats.ring.jobs_cancelled, stats.ring.jobs_timed_out);
        assert_eq!(dropped, (0, 0, 0), "{stats:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_job_does_not_affect_handed_over_connections() {
    for way in 0..ENGINES.len() {
        let bench = bench(way).await;
        let apps = ask_all(bench.addr, "/app");
        until("all are handed over", || bench.control.stats().handed_out as usize == CLIENTS).await;
        let panics = ask_all(bench.addr, "/panic");
        let panicked = tokio::task::spawn_blocking(move || {
            panics.into_iter().map(|panic| panic.join().unwrap()).collect::<Vec<_>>()
        });
        for (status, _, announces_close, end) in panicked.await.unwrap() {
            assert_eq!((status, announces_close, end), (500, true, End::Fin), "{way}");
        }
        // A request that follows `/panic` on the same connection is not handed over.
        let behind = b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\nGET /app HTTP/1.1\r\nHost: a\r\n\r\n";
        let addr = bench.addr;
        let got = tokio::task::spawn_blocking(move || exchange(addr, behind).unwrap()).await.unwrap();
        assert!(got.bytes.starts_with(b"HTTP/1.1 500 ") && !got.bytes.ends_with(b"app"), "{got:?}");
        let stats = bench.control.stats();
        assert_eq!(stats.ring.jobs_panicked, CLIENTS as u64 + 1, "{stats:?}");
        assert_eq!((stats.handed_out as usize, stats.ring.handler_panics), (CLIENTS, 0), "{stats:?}");
        assert!(apps.iter().all(|app| !app.is_finished()));
        bench.answer.notify_waiters();
        let answered = tokio::task::spawn_blocking(move || {
            apps.into_iter().map(|app| app.join().unwrap()).collect::<Vec<_>>()
        });
        for (status, body, ..) in answered.await.unwrap() {
            assert_eq!((status, body), (200, b"app".to_vec()), "{way}");
        }
        // The pool and the ring thread continue.
        bench.go.send(()).unwrap();
        let (status, body, ..) = tokio::task::spawn_blocking(move || {
            let request = b"GET /job HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let got = exchange(addr, request).unwrap();
            let reply = Got::parse(&got.bytes, false).unwrap();
            (reply.status, reply.body, got.end)
        })
        .await
        .unwrap();
        assert_eq!((status, body), (200, b"job".to_vec()), "{way}");
        bench.control.stop().await.unwrap();
        assert_eq!(bench.serving.await.unwrap(), CLIENTS);
    }
}
