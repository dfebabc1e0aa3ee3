//! Tests of requests over TLS that wait for jobs: replies are in order and complete with any
//! pipelining, and the session ends with a close_notify.
//!
//! Does not know about: other outcomes of jobs (see `tests/offload`).
#![cfg(feature = "rayon")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use doorbell::tls::Acceptor;
use doorbell::{Engine, Http1, Offload, Reply, Status, service_fn};
use doorbell_testkit::peers::wait_until;
use rustls::StreamOwned;

use crate::memory::{VERSIONS, client, client_config, config};
use crate::promise::{addr, anywhere, builder, on_both_engines};

on_both_engines! {
    jobs_behind_tls_are_answered_in_order
    a_client_that_leaves_a_job_behind_tls_harms_no_other
    a_client_that_leaves_cancels_its_job_behind_tls
}

/// Starts a server that replies to `/job/N` with N bytes after a job of 2 ms, and to other paths
/// with `now`.
fn serve(engine: Engine) -> doorbell::Server {
    let jobs = Offload::builder().build().unwrap();
    let service = service_fn(move |request, reply| match request.path().strip_prefix("/job/") {
        Some(len) => {
            let len = len.parse().unwrap();
            jobs.run(request, reply, move || {
                thread::sleep(Duration::from_millis(2));
                Reply::text(Status::OK, vec![b'j'; len])
            })
        }
        None => reply.status(Status::OK).content("now"),
    });
    let acceptor = Acceptor::new(&config()).unwrap();
    builder(engine).listen(anywhere(), Http1::new(service).tls(acceptor)).start().unwrap()
}

fn jobs_behind_tls_are_answered_in_order(engine: Engine) {
    let server = serve(engine);
    for version in VERSIONS {
        let paths = ["/", "/job/10", "/job/100000", "/", "/job/20", "/", "/job/5"];
        for pause_after in 0..paths.len() {
            let stream = TcpStream::connect(addr(&server)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut session = StreamOwned::new(client(&Arc::new(client_config(version, None))), stream);
            for (at, path) in paths.iter().enumerate() {
                let close = if at + 1 == paths.len() { "Connection: close\r\n" } else { "" };
                session
                    .write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{close}\r\n").as_bytes())
                    .unwrap();
                if at == pause_after {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            let mut got = Vec::new();
            session.read_to_end(&mut got).unwrap();
            let (replies, left) = doorbell_testkit::peers::Reply::parse_all(&got);
            let lens: Vec<_> = replies.iter().map(|reply| reply.body.len()).collect();
            assert_eq!((lens, left), (vec![3, 10, 100_000, 3, 20, 3, 5], 0), "pause after {pause_after}");
        }
    }
    assert_eq!(server.stats().answers_dropped, 0);
}

fn a_client_that_leaves_a_job_behind_tls_harms_no_other(engine: Engine) {
    let server = serve(engine);
    for _ in 0..20 {
        let stream = TcpStream::connect(addr(&server)).unwrap();
        let mut session = StreamOwned::new(client(&Arc::new(client_config(VERSIONS[1], None))), stream);
        session.write_all(b"GET /job/10 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    let freed = wait_until(Duration::from_secs(5), || {
        let stats = server.stats();
        stats.conns_live == 0 && stats.conns_accepted == 20
    });
    assert!(freed.is_some() && server.handle().is_healthy(), "{:?}", server.stats());
}

/// A close_notify precedes the FIN of a client that closes its session.
fn a_client_that_leaves_cancels_its_job_behind_tls(engine: Engine) {
    let jobs = Offload::builder().threads(NonZeroU16::MIN).fin_cancels(true).build().unwrap();
    let (begun, has_begun) = sync_channel(1);
    let service = service_fn(move |request, reply| {
        let begun = begun.clone();
        jobs.run(request, reply, move || {
            let (permit, permitted) = sync_channel::<()>(1);
            begun.send(permit).unwrap();
            permitted.recv().unwrap();
            Reply::text(Status::OK, "done")
        })
    });
    let acceptor = Acceptor::new(&config()).unwrap();
    let server = builder(engine).listen(anywhere(), Http1::new(service).tls(acceptor)).start().unwrap();
    let send = || {
        let stream = TcpStream::connect(addr(&server)).unwrap();
        let mut session = StreamOwned::new(client(&Arc::new(client_config(VERSIONS[0], None))), stream);
        session.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        session
    };
    let mut stays = send();
    let permit = has_begun.recv().unwrap();
    let leave = [(); 5].map(|()| send());
    let patience = Duration::from_secs(20);
    wait_until(patience, || server.stats().jobs_queued == 6).unwrap();
    for mut session in leave {
        session.conn.send_close_notify();
        session.flush().unwrap();
    }
    wait_until(patience, || server.stats().jobs_cancelled == 5).unwrap();
    permit.send(()).unwrap();
    let mut got = String::new();
    stays.read_to_string(&mut got).unwrap();
    assert!(got.ends_with("done"), "{got}");
    server.stop().unwrap();
}
