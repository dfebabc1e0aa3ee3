//! A worker on a real ring needs no further allocation for ten times as many requests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::worker::Worker;
use super::{Ended, Gauge};
use crate::clock::Clock;
use crate::exit::Exit;
use crate::plan::{Closer, Flow, Plan, RequestParts, RequestTemplate};
use crate::reply::{CheckLevel, Expect};

/// A server that replies to any number of requests, each with its own write.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(len @ 1..) = stream.read(&mut bytes) {
                for _ in 0..memchr::memmem::find_iter(&bytes[..len], "\r\n\r\n").count() {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
                }
            }
        });
    }
}

fn plan(flow: Flow, ids: bool, port: u16, requests: u64) -> Plan {
    let parts = RequestParts {
        method: "GET".into(),
        path: "/".into(),
        host: "h".into(),
        id_header: ids,
        ..RequestParts::default()
    };
    let mut expect = Expect::new(CheckLevel::Body, None, false);
    expect.learn(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n", None).unwrap();
    Plan {
        targets: vec![(Ipv4Addr::LOCALHOST, port).into()],
        sources: Vec::new(),
        request: RequestTemplate::new(&parts).unwrap(),
        expect,
        ids,
        conns: 8,
        threads: 1,
        flow,
        rate: None,
        duration: Duration::from_secs(20),
        requests: Some(requests),
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(5),
        delayed_ack: false,
        ports: doorbell_egress::PortChoice::Auto,
    }
}

/// Number of allocations by the worker for this plan. `None` without io_uring.
fn allocations(plan: &Plan) -> Option<u64> {
    let mut ended: Option<Ended> = None;
    let info = allocation_counter::measure(|| match Worker::open(plan, 0) {
        Ok(worker) => {
            let run = worker.run(plan, Clock::start(), &AtomicBool::new(false), &Gauge::default());
            ended = Some(run.unwrap());
        }
        Err(failure) => assert_eq!(failure.exit, Exit::NoRing),
    });
    let ended = ended?;
    assert_eq!((Some(ended.stats.requests), ended.stats.failures.total()), (plan.requests, 0));
    Some(info.count_total)
}

#[test]
fn more_requests_need_no_more_allocations() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || serve(&listener));
    let flows = [
        Flow::New { closer: Closer::Client, gap: Duration::ZERO },
        Flow::New { closer: Closer::Client, gap: Duration::from_millis(1) },
        Flow::Keep { pipeline: 1 },
        Flow::Keep { pipeline: 8 },
    ];
    for flow in flows {
        for ids in [false, true] {
            let few = allocations(&plan(flow, ids, port, 80));
            let many = allocations(&plan(flow, ids, port, 800));
            assert_eq!(few, many, "{flow:?}, ids: {ids}");
        }
    }
}

#[test]
fn the_error_of_a_thread_without_a_ring_is_the_result() {
    let failure = || Err(crate::exit::Failure::new(Exit::NoRing, "io_uring_setup: EPERM"));
    for results in [vec![Ok(None), failure()], vec![failure(), Ok(None)]] {
        let error = super::sum(results).expect_err("no thread ran");
        assert_eq!(error.to_string(), "io_uring_setup: EPERM");
    }
}
