//! Tests of the access log of a whole server: served and refused requests are in the file, and
//! logging allocates nothing on worker threads.
//!
//! Does not know about: the queues (see `access_log/tests.rs`), escaping of lines (see
//! `doorbell_http::log`).
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io;
use std::num::NonZeroU16;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use allocation_counter::measure;
use doorbell::access_log::{AccessLog, LogTarget};
use doorbell::http::layer::ServiceExt as _;
use doorbell::http::log::{Entry, Filter, Format, Logger};
use doorbell::http::parse::Head;
use doorbell::http::{Client, RequestError, Time};
use doorbell::{
    Engine, Handler, Http1, HttpLimits, Listen, Request, Server, StaticReply, Status, Workers, service_fn,
};
use doorbell_testkit::peers::exchange;

const LONG: Duration = Duration::from_secs(20);

/// A service that replies to `/` with a 200 and to any other path with a 404.
fn service() -> impl Handler + Send + Sync {
    let (ok, missing) = (StaticReply::text(Status::OK, "ok\n"), StaticReply::text(Status::NOT_FOUND, ""));
    service_fn(move |request, reply| reply.send(if request.path() == "/" { &ok } else { &missing }))
}

/// Returns the lines of a log with this filter, after a server has handled `requests` with one
/// connection each.
fn lines(name: &str, engine: Engine, filter: Filter, requests: &[&str]) -> Vec<String> {
    let path: PathBuf = std::env::temp_dir().join(format!("doorbell-{}-{name}.log", std::process::id()));
    let log = AccessLog::builder(path.clone().into()).format(Format::Text).start().unwrap();
    let service = service().with(Logger::new(filter, log.sink()));
    let server = Server::builder()
        .engine(engine)
        .workers(Workers::Count(NonZeroU16::new(2).unwrap()))
        .conns_max(64)
        .listen(Listen::tcp(([127, 0, 0, 1], 0).into()), Http1::new(service))
        .start()
        .unwrap();
    let addr = server.tcp_addr(0).unwrap();
    for request in requests {
        exchange(addr, request.as_bytes()).unwrap();
    }
    server.drain(LONG).unwrap();
    assert!(log.stop(LONG));
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o007, 0, "others cannot read it");
    std::fs::remove_file(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // With two workers, only the lines of the same worker are in order.
    lines.sort_unstable_by_key(|line| line.split('"').nth(1).map(str::to_owned));
    lines
}

#[test]
fn answered_and_refused_requests_are_in_the_file() {
    let requests = [
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: kube-probe/1.34\r\nConnection: close\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nUser-Agent: \"\x01\r\nConnection: close\r\n\r\n",
        "GET /y HTTP/1.1\r\nHost: a\r\nUser-Agent: \"\r\nConnection: close\r\n\r\n",
    ];
    for (filter, name, ok) in [(Filter::ERRORS, "errors", false), (Filter::ALL, "all", true)] {
        let lines = lines(name, Engine::Epoll, filter, &requests);
        let mut expect = vec![
            "\"-\" 400 0 \"-\" \"-\" error=\"malformed field line\"",
            "\"GET /y HTTP/1.1\" 404 0 \"-\" \"\\x22\" host=\"a\"",
        ];
        if ok {
            expect.insert(1, "\"GET / HTTP/1.1\" 200 3 \"-\"");
            expect.insert(1, "\"GET / HTTP/1.1\" 200 3 \"-\"");
        }
        assert_eq!(lines.len(), expect.len(), "{lines:#?}");
        for (line, expect) in lines.iter().zip(expect) {
            assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
            assert!(line.contains("/20") && line.contains(expect), "{line}\nlacks\n{expect}");
        }
    }
}

#[test]
fn a_log_that_is_off_stays_empty() {
    assert!(lines("off", Engine::Auto, Filter::OFF, &["GET /x HTTP/1.0\r\n\r\n", "nonsense\r\n"]).is_empty());
}

#[test]
fn logging_allocates_nothing_after_the_first_record() {
    let log = AccessLog::builder(LogTarget::Writer(Box::new(io::sink()))).records_max(64).start().unwrap();
    let bytes =
        format!("GET /{} HTTP/1.1\r\nHost: a\r\nUser-Agent: {}\r\n\r\n", "x".repeat(500), "y".repeat(500));
    let mut head = Head::new();
    head.parse(bytes.as_bytes(), &HttpLimits::default()).unwrap().unwrap();
    let client = Client::at([192, 0, 2, 7].into());
    let request = Request::new(bytes.as_bytes(), &head, b"").from_client(&client, Time::ZERO, 0);
    let status = Some(Status::OK);
    let entry = Entry { status, content_len: 3, subject: Some("a"), ..Entry::unanswered(&request) };
    let logger = Logger::new(Filter::ALL, log.sink());
    let first = measure(|| logger.answered(&entry));
    assert_ne!(first.count_total, 0, "the first record allocates the queue, so the counter works");
    let info = measure(|| {
        // More records than the queue holds: dropping a record allocates nothing.
        for _ in 0..1000 {
            logger.answered(&entry);
        }
        logger.refused(RequestError::Host, &client, Time::ZERO);
    });
    assert_eq!(info.count_total, 0, "{info:?}");
    assert!(log.stop(LONG));
}
