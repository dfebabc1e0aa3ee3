//! An executor without threads, whose jobs a test runs itself, and a server whose requests become
//! such jobs.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell::offload::{Class, Executor, JobReply, Offload, OffloadBuilder, Pump, StartedJob};
use doorbell::{
    Engine, Handler, Http1, Replied, Reply, Request, Responder, Server, ServerBuilder, Snapshot, Status,
};
use doorbell_testkit::peers::{Exchange, PATIENCE, finish, wait_until};

use crate::promise;

/// An executor whose jobs wait until a test takes them.
#[derive(Clone, Default)]
pub(crate) struct Hand(Arc<Mutex<Vec<Pump>>>);

impl Executor for Hand {
    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, pump: Pump) {
        self.0.lock().unwrap().push(pump);
    }
}

impl Hand {
    /// Takes the next job, if there is one.
    pub(crate) fn start(&self) -> Option<StartedJob> {
        let mut pumps = self.0.lock().unwrap();
        let job = pumps.iter_mut().find_map(Pump::take);
        if job.is_none() {
            pumps.clear();
        }
        job
    }

    /// Waits for a job and takes it.
    pub(crate) fn take(&self) -> StartedJob {
        let mut job = None;
        wait_until(PATIENCE, || {
            job = self.start();
            job.is_some()
        });
        job.expect("a job comes")
    }

    /// Waits for a job and runs it.
    pub(crate) fn run_one(&self) {
        self.take().run();
    }
}

/// The service of these tests. `/job/TEXT` replies with TEXT in a job; `/then/TEXT` replies with
/// TEXT on the ring thread after a job; `/high/TEXT` uses a job of high priority; `/twice/TEXT`
/// uses two jobs; `/panic` panics in a job; `/away` is handed over; `/now` replies without a job;
/// `/large/TEXT` replies with 100,000 times TEXT.
pub(crate) struct Jobs(pub(crate) Offload);

impl Handler for Jobs {
    fn wants_body(&self, _: &Request<'_>) -> bool {
        true
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let (kind, text) = request.path()[1..].split_once('/').unwrap_or_else(|| (&request.path()[1..], ""));
        let body = String::from_utf8_lossy(request.body());
        let text = format!("{text}{body}");
        let jobs = self.0.clone();
        match kind {
            "away" => reply.hand_over(),
            "high" => jobs.class(Class::High).run(request, reply, move || Reply::text(Status::OK, text)),
            "job" => {
                jobs.run(request, reply.header("X-Layer", "kept"), move || Reply::text(Status::OK, text))
            }
            "large" => jobs.run(request, reply, move || Reply::text(Status::OK, text.repeat(100_000))),
            "panic" => {
                jobs.run(request, reply, || -> Reply { std::panic::resume_unwind(Box::new("a job's fault")) })
            }
            "then" => {
                let owned = request.detach();
                jobs.run(request, reply, move || {
                    JobReply::then(move |reply| {
                        let path = owned.with(|request| request.path().to_owned());
                        reply.status(Status::OK).header("X-Path", path).content(text)
                    })
                })
            }
            "twice" => {
                let (owned, again) = (request.detach(), jobs.clone());
                jobs.run(request, reply, move || {
                    JobReply::then(move |reply| {
                        owned.with(|request| again.run(request, reply, || Reply::text(Status::OK, text)))
                    })
                })
            }
            _ => reply.status(Status::OK).content("now"),
        }
    }
}

/// Starts one worker whose requests become jobs of `hand`.
pub(crate) fn serve(engine: Engine, hand: &Hand) -> Server {
    serve_with(engine, hand, Offload::builder(), |server| server)
}

pub(crate) fn serve_with(
    engine: Engine,
    hand: &Hand,
    offload: OffloadBuilder,
    change: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> Server {
    let service = Jobs(offload.build_on(hand.clone()));
    let builder = promise::builder(engine).workers(promise::workers(1));
    change(builder.listen(promise::anywhere(), Http1::new(service))).start().unwrap()
}

pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

pub(crate) fn last(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").into_bytes()
}

/// Opens a connection and sends these bytes.
pub(crate) fn send(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(addr(server)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// Reads the next whole reply of a keep-alive connection, and no byte after it.
pub(crate) fn reply(stream: &mut TcpStream) -> doorbell_testkit::peers::Reply {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        bytes.extend(byte);
    }
    let head = doorbell_testkit::peers::Reply::parse(&bytes, true).unwrap();
    let body_len = head.field("content-length").map_or(0, |len| len.parse().unwrap());
    let head_len = bytes.len();
    bytes.resize(head_len + body_len, 0);
    stream.read_exact(&mut bytes[head_len..]).unwrap();
    doorbell_testkit::peers::Reply::parse(&bytes, false).unwrap()
}

/// Reads everything until the end.
pub(crate) fn rest(mut stream: TcpStream) -> Exchange {
    finish(&mut stream, PATIENCE)
}

pub(crate) fn addr(server: &Server) -> SocketAddr {
    promise::addr(server)
}

/// Waits until the counters satisfy a condition.
pub(crate) fn until(server: &Server, holds: impl Fn(&Snapshot) -> bool) {
    let waited = wait_until(Duration::from_secs(5), || holds(&server.stats()));
    assert!(waited.is_some(), "{:?}", server.stats());
}
