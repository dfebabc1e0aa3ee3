//! Promise: each example is short, runs, and does what its first line describes.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]
#![expect(clippy::disallowed_methods, reason = "the test measures time")]

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use doorbell_testkit::peers::{Reply, exchange};
use tonic::transport::Endpoint;
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::common::status;

const LINES_MAX: usize = 60;

struct Example {
    child: Child,
    addr: SocketAddr,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Example {
    /// Starts an example on a free port; it prints its address on standard error.
    fn start(name: &str) -> Self {
        let own = std::env::current_exe().unwrap();
        let program: PathBuf = own.parent().unwrap().parent().unwrap().join("examples").join(name);
        assert!(program.is_file(), "{program:?} is missing: `cargo test --features axum` builds it");
        let mut child = Command::new(&program).arg("127.0.0.1:0").stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let addr = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let rest = line.split("http://").nth(1)?;
            rest.split('/').next()?.parse().ok()
        });
        Self { child, addr: addr.unwrap_or_else(|| panic!("{name} did not print its address")), lines }
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn examples_are_short() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/examples"));
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < LINES_MAX, "{path:?} has {lines} lines");
    }
}

#[test]
fn axum_probes() {
    let example = Example::start("axum_probes");
    let addr = example.addr;
    assert_eq!(
        (status(addr, "/"), status(addr, "/livez"), status(addr, "/readyz")),
        (Ok(200), Ok(200), Ok(200))
    );
    let blocked = std::thread::spawn(move || status(addr, "/block"));
    let mut statuses = Vec::new();
    while !blocked.is_finished() {
        statuses.push(status(addr, "/livez").unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(blocked.join().unwrap(), Ok(200), "the blocking request gets its reply");
    statuses.dedup();
    assert!(statuses.starts_with(&[200, 503]), "alive at first, and not when it stays blocked: {statuses:?}");
}

#[test]
fn grpc() {
    let mut example = Example::start("grpc");
    crate::common::eventually("its check has run", || status(example.addr, "/readyz") == Ok(200));
    // The preface of HTTP/2 is handed over, and tonic replies with its SETTINGS.
    let mut client = std::net::TcpStream::connect(example.addr).unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut header = [0; 9];
    client.read_exact(&mut header).unwrap();
    assert_eq!(header[3], 4);
    drop(client);
    let pid = rustix::process::Pid::from_child(&example.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(example.child.wait().unwrap().success());
}

#[test]
fn health_alone() {
    let example = Example::start("health_alone");
    let addr = example.addr;
    crate::common::eventually("its check has run", || status(addr, "/readyz/config") == Ok(200));
    assert_eq!(
        (status(addr, "/"), status(addr, "/livez"), status(addr, "/readyz")),
        (Ok(200), Ok(200), Ok(200))
    );
    assert_eq!((status(addr, "/readyz/queue"), status(addr, "/work")), (Ok(503), Ok(200)));
    crate::common::eventually("the result is known", || status(addr, "/readyz/queue") == Ok(200));
    assert_eq!((status(addr, "/readyz/other"), status(addr, "/other")), (Ok(404), Ok(404)));
}

/// Limits the length of the example without its imports and its stand-in for a database.
#[test]
fn service() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/service.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let (from, to) = (text.find("#[tokio::main]").unwrap(), text.find("async fn hello").unwrap());
    let lines = text[from..to].trim().lines().count();
    assert!(lines <= 25, "{lines} lines");
    let example = Example::start("service");
    let addr = example.addr;
    crate::common::eventually("it is ready", || status(addr, "/readyz") == Ok(200));
    crate::common::eventually("it is degraded", || body(addr, "/readyz").starts_with("degraded\n"));
    let verbose = body(addr, "/readyz?verbose");
    assert!(verbose.contains("[+]db ok") && verbose.contains("not configured"), "{verbose}");
    assert_eq!((status(addr, "/"), status(addr, "/startupz")), (Ok(200), Ok(200)));
    let metrics = body(addr, "/metrics");
    for line in ["doorbell_check_up{check=\"db\"} 1.0\n", "doorbell_endpoint_up{endpoint=\"readyz\"} 1.0\n"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert_eq!(grpc_status(addr), ServingStatus::Serving as i32);
}

/// What `grpc.health.v1` reports for the whole program.
fn grpc_status(addr: SocketAddr) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let channel = Endpoint::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap();
        let request = HealthCheckRequest { service: String::new() };
        HealthClient::new(channel).check(request).await.unwrap().get_ref().status
    })
}

fn body(addr: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let bytes = exchange(addr, request.as_bytes()).unwrap().bytes;
    String::from_utf8(Reply::parse(&bytes, false).unwrap().body).unwrap()
}

#[test]
fn hyper_probes() {
    let mut example = Example::start("hyper_probes");
    let addr = example.addr;
    assert_eq!(
        (status(addr, "/"), status(addr, "/readyz"), body(addr, "/")),
        (Ok(200), Ok(200), "hello\n".into())
    );
    // A probe after a request for the program, on its connection.
    let both = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let text = String::from_utf8(exchange(addr, both.as_bytes()).unwrap().bytes).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{text}");
    let pid = rustix::process::Pid::from_child(&example.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(example.child.wait().unwrap().success());
}

#[test]
fn redirects() {
    let example = Example::start("redirects");
    let request = "GET /old/page?q HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let got = exchange(example.addr, request.as_bytes()).unwrap();
    let text = String::from_utf8(got.bytes.clone()).unwrap();
    assert_eq!(Reply::parse(&got.bytes, false).unwrap().status, 308);
    assert!(text.contains("\r\nLocation: /new/page\r\n"), "{text}");
    let request = "GET /new/page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let got = exchange(example.addr, request.as_bytes()).unwrap();
    assert!(got.bytes.ends_with(b"hello Some(127.0.0.1)\n"), "{:?}", got.bytes.escape_ascii().to_string());
    assert_eq!(status(example.addr, "/livez"), Ok(200));
}

#[test]
fn shutdown() {
    let mut example = Example::start("shutdown");
    let addr = example.addr;
    let slow = std::thread::spawn(move || status(addr, "/slow"));
    std::thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_child(&example.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(slow.join().unwrap(), Ok(200), "requests in progress are finished");
    assert!(example.child.wait().unwrap().success());
    let last = example.lines.by_ref().map_while(Result::ok).last();
    assert_eq!(last.as_deref(), Some("over"));
    assert!(status(addr, "/livez").is_err());
}
