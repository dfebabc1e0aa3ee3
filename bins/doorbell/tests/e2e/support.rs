//! Starts and stops the binary and other programs, and reports missing ones.

use std::fmt::{Debug, Display};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use doorbell_testkit::figures;
pub(crate) use doorbell_testkit::peers::{free_addr, free_port};
use doorbell_testkit::peers::{process, wait_until};
use doorbell_testkit::skip::{self, Need};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Maximum time for a process to become ready or to exit.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A configuration for most tests: one listener, three health routes, a redirect and a fixed reply.
pub(crate) const CONFIG: &str = r#"
version = 1

[runtime]
workers = 2

[lifecycle]
drain_delay = "0s"

[listener.probes]
bind = "127.0.0.1:0"

[route.health]
listener = "probes"
path = ["/livez", "/readyz", "/healthz"]
health = "livez"

[route.hello]
listener = "probes"
path = "/hello"
reply = { status = 200, body = "hello\n", content_type = "text/plain" }

[route.old]
listener = "probes"
path = "/old/{*rest}"
hosts = ["example.com"]
redirect = { scheme = "https", host = "example.com", status = 308 }
"#;

/// Runs a test body on both drivers; io_uring is skipped with a message if the kernel denies it.
macro_rules! on_both_engines {
    ($($name:ident)*) => {
        mod io_uring { $(#[test] fn $name() { if doorbell_testkit::skip::io_uring() { super::$name("io_uring"); } })* }
        mod epoll { $(#[test] fn $name() { super::$name("epoll"); })* }
    };
}
pub(crate) use on_both_engines;

/// Runs a test body once with the default driver, for behaviour that does not depend on the driver.
macro_rules! on_auto {
    ($($name:ident)*) => {
        mod auto { $(#[test] fn $name() { super::$name("auto"); })* }
    };
}
pub(crate) use on_auto;

/// Path of the binary under test.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("DOORBELL_BIN").map_or_else(|| env!("CARGO_BIN_EXE_doorbell").into(), PathBuf::from)
}

/// Whether the long versions are requested. They need an idle machine.
pub(crate) fn is_full() -> bool {
    figures::is_long()
}

/// Whether to run a test that takes minutes or needs an idle machine. If not, prints the name of
/// the test.
pub(crate) fn is_long_version(test: &str) -> bool {
    if !is_full() {
        print_line(&format!("LONG: {test} runs with DOORBELL_FULL=1"));
    }
    is_full()
}

/// Prints a measured value of the binary. If figures are judged, the value must be at most `limit`;
/// otherwise a test must not depend on the speed of the machine.
#[track_caller]
pub(crate) fn at_most<T: PartialOrd + Debug>(what: impl Display, measured: T, limit: T) {
    print_line(&format!("{what}: {measured:?} of at most {limit:?}"));
    assert!(!is_judged() || measured <= limit, "{what}: {measured:?} is more than {limit:?}");
}

/// Whether the binary under test is the shipped build.
pub(crate) fn is_release() -> bool {
    !cfg!(debug_assertions) || std::env::var_os("DOORBELL_BIN").is_some()
}

/// Whether measured values are compared with the promised limits, which hold for the shipped build
/// on an idle machine.
pub(crate) fn is_judged() -> bool {
    is_full() && is_release()
}

/// Prints a measurement, even if the test passes.
pub(crate) fn print_line(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Reports that something was not tested because a program or permission is missing. Fails if
/// `DOORBELL_REQUIRE_CLIENTS` is 1.
#[track_caller]
pub(crate) fn skipped(what: &str) {
    skip::skipped(Need::Clients, what);
}

/// The path of a program. If it is missing, prints a message and returns `None`. Also searches
/// Debian's folders for daemons and plugins.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin:/usr/lib/nagios/plugins";
    let found =
        path.split(':').map(|folder| Path::new(folder).join(name)).find(|candidate| candidate.is_file());
    found_or_skipped(name, found)
}

/// Whether IPv6 is available. If not, prints a message.
pub(crate) fn has_ipv6() -> bool {
    let has = TcpListener::bind("[::1]:0").is_ok();
    if !has {
        skipped("IPv6 is not available");
    }
    has
}

/// Path of the `doorbell-load` from the same build as the binary under test; `cargo test
/// --workspace` builds it. If it is missing, prints a message and returns `None`.
pub(crate) fn load_program() -> Option<PathBuf> {
    let beside = binary().with_file_name("doorbell-load");
    found_or_skipped("doorbell-load", beside.is_file().then_some(beside))
}

/// Path of Python if it has this module.
pub(crate) fn python(module: &str) -> Option<PathBuf> {
    let python = program("python3")?;
    let found = run(&python, &["-c", &format!("import {module}")]).status.success();
    found_or_skipped(&format!("{module} of Python"), found.then_some(python))
}

fn found_or_skipped(name: &str, found: Option<PathBuf>) -> Option<PathBuf> {
    if found.is_none() {
        skipped(&format!("{name} is not installed; its test was not run"));
    }
    found
}

/// A folder for one test, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("doorbell-e2e-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Appends the lines of a child's output stream to its log.
fn keep_lines(stream: impl std::io::Read + Send + 'static, log: &Arc<Mutex<Vec<String>>>) {
    let log = Arc::clone(log);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            log.lock().unwrap().push(line);
        }
    });
}

/// A running child with its output, killed on drop.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    _scratch: Option<Scratch>,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::spawn_with_stdin(command, Stdio::null())
    }

    pub(crate) fn spawn_with_stdin(command: &mut Command, stdin: Stdio) -> Self {
        let command = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A runtime directory of the system must not be used, unless a test sets one.
        if !command.get_envs().any(|(name, _)| name == "RUNTIME_DIRECTORY") {
            command.env("RUNTIME_DIRECTORY", std::env::temp_dir().join("doorbell-e2e-run"));
        }
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        keep_lines(child.stdout.take().unwrap(), &log);
        keep_lines(child.stderr.take().unwrap(), &log);
        Self { child, log, _scratch: None }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the exit. Returns the status, and the time until the exit.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Duration) {
        let took = wait_until(LIMIT, || self.child.try_wait().unwrap().is_some());
        let Some(took) = took else { panic!("did not end in {LIMIT:?}:\n{}", self.log()) };
        (self.child.wait().unwrap(), took)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `doorbell serve`.
#[derive(Debug)]
pub(crate) struct Doorbell {
    pub(crate) process: Process,
    pub(crate) addr: SocketAddr,
}

impl Doorbell {
    /// Starts an instance with [`CONFIG`].
    pub(crate) fn start(engine: &str) -> Self {
        Self::start_with(engine, CONFIG)
    }

    /// Starts an instance with this configuration; its first listener must be on 127.0.0.1.
    pub(crate) fn start_with(engine: &str, config: &str) -> Self {
        let scratch = Scratch::new();
        let file = scratch.write("doorbell.toml", config);
        let mut doorbell = Self::try_start(&["serve", "-c", &file, "--driver", engine])
            .unwrap_or_else(|log| panic!("{log}"));
        doorbell.process._scratch = Some(scratch);
        doorbell
    }

    /// Starts with these arguments, and waits until the log has a bound address. On failure,
    /// returns the log.
    pub(crate) fn try_start(args: &[&str]) -> Result<Self, String> {
        Self::try_start_command(Command::new(binary()).args(args))
    }

    pub(crate) fn try_start_command(command: &mut Command) -> Result<Self, String> {
        let mut process = Process::spawn(command);
        let mut addr = None;
        wait_until(LIMIT, || {
            addr = bound_addrs(&process.log()).next();
            addr.is_some() || process.has_ended()
        });
        match addr {
            Some(addr) => Ok(Self { process, addr }),
            None => {
                // Output may arrive a moment after the exit.
                thread::sleep(Duration::from_millis(50));
                Err(process.log())
            }
        }
    }

    /// Stops the instance with SIGTERM, and returns the last line of its log, with totals. The
    /// configuration must have no drain delay.
    pub(crate) fn totals(mut self) -> Value {
        self.process.signal(Signal::TERM);
        let (status, _) = self.process.wait();
        assert!(status.success(), "{}", self.process.log());
        let mut last = None;
        // Output may arrive a moment after the exit.
        wait_until(LIMIT, || {
            let log = self.process.log();
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            last = lines.find(|line| line["message"] == "stopped");
            last.is_some()
        });
        last.unwrap_or_else(|| panic!("{}", self.process.log()))
    }

    /// The TCP address of the listener at this position in the file. All listeners must be on
    /// 127.0.0.1.
    pub(crate) fn addr_of(&self, position: usize) -> SocketAddr {
        bound_addrs(&self.process.log()).nth(position).unwrap()
    }

    /// Number of open descriptors once the start has finished, which is after the first replies.
    pub(crate) fn fds_at_rest(&self) -> usize {
        let count = || process::fds(&self.process.pid()).unwrap();
        let mut last = count();
        let is_at_rest = || {
            thread::sleep(Duration::from_millis(200));
            let before = std::mem::replace(&mut last, count());
            before == last
        };
        assert!(wait_until(LIMIT, is_at_rest).is_some(), "the number of descriptors must become stable");
        last
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }
}

/// Every listening address `127.0.0.1:PORT` in a log with a non-zero port. Those of listeners come
/// first. Addresses of checks are ignored.
fn bound_addrs(log: &str) -> impl Iterator<Item = SocketAddr> {
    // Other ports may log their addresses earlier, but listeners must come first, so wait until the
    // instance is ready.
    let others = if log.lines().any(|line| is_ready(&line)) { log } else { "" };
    log.lines().filter(is_ready).chain(others.lines().filter(listens)).flat_map(addrs_of_line)
}

fn is_ready(line: &&str) -> bool {
    line.contains(" is ready")
}

fn listens(line: &&str) -> bool {
    line.contains("addresses") && !is_ready(line)
}

fn addrs_of_line(line: &str) -> impl Iterator<Item = SocketAddr> {
    line.match_indices("127.0.0.1:").filter_map(|(at, start)| {
        let port: String = line[at + start.len()..].chars().take_while(char::is_ascii_digit).collect();
        let port: u16 = port.parse().ok()?;
        (port != 0).then(|| SocketAddr::from(([127, 0, 0, 1], port)))
    })
}

/// Sets a flag to false on drop, so that threads end even if a test fails.
#[derive(Debug)]
pub(crate) struct StopAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Runs a program until it exits.
pub(crate) fn run(program: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Runs a program that must succeed, and returns its standard output.
pub(crate) fn stdout(program: &Path, args: &[&str]) -> String {
    let output = run(program, args);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program:?} {args:?}: {}\n{out}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    out
}
