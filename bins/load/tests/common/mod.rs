//! Shared parts of the integration tests: running the program, and servers that misbehave.
#![allow(dead_code, reason = "each test program uses only some of these items")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use doorbell_testkit::skip;
use serde_json::Value;

/// A reply with a length, after which the server closes.
pub(crate) const REPLY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";
/// A reply after which the connection stays open.
pub(crate) const KEPT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";

/// Results of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) exit: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The report, or `Null` if standard output is not JSON.
    pub(crate) json: Value,
}

impl Run {
    pub(crate) fn number(&self, pointer: &str) -> f64 {
        self.json
            .pointer(pointer)
            .and_then(Value::as_f64)
            .unwrap_or_else(|| panic!("no {pointer}: {self:#?}"))
    }

    /// Returns the number of failures of this kind, and asserts that no other kind occurred.
    pub(crate) fn only_failure(&self, kind: &str) -> u64 {
        let rows = self.json["failures"].as_array().unwrap_or_else(|| panic!("no report: {self:#?}"));
        assert!(rows.len() == 1 && rows[0]["kind"] == kind, "not only {kind}: {self:#?}");
        rows[0]["count"].as_u64().unwrap()
    }

    pub(crate) fn assert_clean(&self, requests: u64) {
        assert_eq!(self.exit, 0, "{self:#?}");
        assert_eq!(self.json["requests"], requests, "{self:#?}");
        assert_eq!((&self.json["failed"], &self.json["unstarted"]), (&0.into(), &0.into()), "{self:#?}");
    }
}

/// Runs the program with `-o json`. Returns `None` without io_uring.
pub(crate) fn load(args: &[&str]) -> Option<Run> {
    skip::io_uring().then(|| run(&[&["-o", "json"], args].concat()))
}

pub(crate) fn run(args: &[&str]) -> Run {
    run_of(command(args).output().unwrap())
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell-load"));
    command.args(args);
    command
}

pub(crate) fn run_of(output: Output) -> Run {
    let stdout = String::from_utf8(output.stdout).unwrap();
    Run {
        exit: output.status.code().unwrap_or(-1),
        json: serde_json::from_str(&stdout).unwrap_or_default(),
        stdout,
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A server with a thread per connection. The preflight makes the first connection.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    stop: Arc<AtomicBool>,
    accepted: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server. `serve` gets each connection with its number, starting at 0.
    pub(crate) fn start(serve: impl Fn(u64, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let accepted = Arc::new(AtomicU64::new(0));
        let (stop_in_thread, count) = (Arc::clone(&stop), Arc::clone(&accepted));
        let serve = Arc::new(serve);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop_in_thread.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let number = count.fetch_add(1, Ordering::SeqCst);
                stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(number, stream));
            }
        });
        Self { addr, stop, accepted, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/x", self.addr)
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Stops listening.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads one request without a body. Returns `None` at the end or on an error.
pub(crate) fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return None,
        }
    }
    String::from_utf8(bytes).ok()
}

/// Reads a request, sends `reply`, and closes without a reset.
pub(crate) fn answer(stream: &mut TcpStream, reply: &str) -> Option<String> {
    let request = request(stream)?;
    stream.write_all(reply.as_bytes()).ok()?;
    let _ = stream.shutdown(Shutdown::Write);
    Some(request)
}

/// Returns the value of a header in a request.
pub(crate) fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[expect(clippy::disallowed_methods, reason = "a slow server is slow on the real clock")]
pub(crate) fn sleep(time: Duration) {
    thread::sleep(time);
}
