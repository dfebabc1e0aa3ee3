//! Checks against real servers, which are started in a folder of the test and stopped at its end.

#![expect(clippy::disallowed_methods, reason = "servers are awaited")]

mod grpc;
mod http;
#[cfg(feature = "mail")]
mod mail;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "websocket")]
mod websocket;

use super::*;
use doorbell_testkit::peers::wait_until;
use doorbell_testkit::skip::{Need, skipped};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Maximum number of attempts of a check while its server starts.
const ATTEMPTS: u32 = 1200;

/// A folder that is removed with its content.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("doorbell-real-{name}-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A certificate for localhost and its key, as PEM files.
    fn certificate(&self) -> [PathBuf; 2] {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let paths =
            [self.write("server.crt", &certificate.pem()), self.write("server.key", &key.serialize_pem())];
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&paths[1], private).unwrap();
        paths
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server.
struct Server(Child);

impl Server {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        let _gone = kill_process(Pid::from_child(&self.0), signal);
    }
}

impl Drop for Server {
    /// Ends the server by SIGTERM, so that it ends its child processes.
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let _gone = self.0.wait();
    }
}

/// The path of a program; without it the test is skipped.
fn program(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var("PATH").unwrap_or_default();
    let dirs = dirs.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
    let found = dirs.map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    if found.is_none() {
        skipped(Need::Clients, format!("{name} is not installed"));
    }
    found
}

/// Debian's Python, for which packages install their modules.
const PYTHON: &str = "/usr/bin/python3";

/// Whether a module of Python exists; without it the test is skipped.
fn has_python_module(name: &str) -> bool {
    let tried = Command::new(PYTHON).args(["-c", &format!("import {name}")]).output();
    let has_module = tried.is_ok_and(|tried| tried.status.success());
    if !has_module {
        skipped(Need::Clients, format!("python3-{name} is not installed"));
    }
    has_module
}

fn free_port() -> u16 {
    doorbell_testkit::peers::free_port()
}

fn local(port: u16) -> Address {
    address(format!("localhost:{port}"))
}

/// The address of this port without a name.
#[cfg(any(feature = "mail", feature = "mysql", feature = "postgres"))]
fn at(port: u16) -> Address {
    address(format!("127.0.0.1:{port}"))
}

fn trusted(certificate: &Path) -> ClientTls {
    ClientTls { ca: Some(certificate.to_owned()), ..ClientTls::default() }
}

fn found(kind: impl Into<CheckKind>) -> (Outcome, String) {
    let finding = block_on(runner(kind).run());
    (finding.outcome, finding.reason)
}

/// Repeats a check until it succeeds.
#[track_caller]
fn await_success(kind: impl Into<CheckKind>) {
    let runner = runner(kind);
    let mut last = String::new();
    for _attempt in 0..ATTEMPTS {
        let finding = block_on(runner.run());
        if finding.outcome == Outcome::Success {
            return;
        }
        last = finding.reason;
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the server does not start: {last}");
}

/// Ends a server. Each check of an IPv4 address and this port then has the reason of a server that
/// is down.
#[track_caller]
fn ends(server: Server, checks: &[(CheckKind, u16)]) {
    drop(server);
    for (check, port) in checks {
        // Other processes of the server may end after the first one.
        let runner = runner(check.clone());
        let is_closed = || block_on(runner.run()).reason.ends_with("connection refused");
        assert!(wait_until(TIMEOUT * 5, is_closed).is_some(), "{:?}", found(check.clone()));
        let reason = format!("127.0.0.1:{port}: connection refused");
        assert_eq!(found(check.clone()), (Outcome::Failure, reason));
    }
}

/// Checks of a server whose process is stopped: the kernel still accepts connections.
#[track_caller]
fn hangs(server: &Server, check: impl Into<CheckKind>) {
    stop(&server.0);
    let finding = block_on(runner_within(SOON, check).run());
    server.signal(Signal::CONT);
    assert_eq!((finding.outcome, &*finding.reason), (Outcome::Timeout, "no response within 1s"));
}

#[track_caller]
fn succeeds(kind: impl Into<CheckKind>) {
    assert_eq!(found(kind), (Outcome::Success, String::new()));
}

#[track_caller]
fn fails(kind: impl Into<CheckKind>, reason: &str) {
    let found = found(kind);
    assert!(found.0 == Outcome::Failure && found.1.contains(reason), "{found:?}, expected {reason:?}");
}
