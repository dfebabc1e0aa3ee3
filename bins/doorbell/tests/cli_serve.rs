//! The running program: replies, start, drain, stop, failures.
//!
//! The kernel assigns each server its own port.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test watches a process from outside and has to wait for it"
)]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time to wait for an expected event, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A started program, killed if the test ends early.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    addr: String,
    ready: serde_json::Value,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        Self::with_env(args, &[])
    }

    fn with_env(args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_doorbell"))
            .args(args)
            .env_clear()
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let ready = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "{args:?} exited before it was ready");
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if line["addresses"].is_string() {
                break line;
            }
        };
        let addr = ready["addresses"].as_str().unwrap().split(' ').next().unwrap().to_owned();
        Self { child, lines, addr, ready }
    }

    /// Starts with a configuration file that binds to `127.0.0.1:0`.
    fn with_file(name: &str, text: &str, args: &[&str]) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).unwrap();
        Self::start(&[&["-c", path.to_str().unwrap()], args].concat())
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn status(&self, path: &str) -> String {
        let answer = self.ask(&format!("GET {path} HTTP/1.0\r\n\r\n"));
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the exit and returns the exit code.
    fn end(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("still running");
    }

    fn wait_for_line(&mut self, part: &str) {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "exited before it wrote {part:?}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(command: &mut Command) -> (Option<i32>, String) {
    let output = command.env_clear().stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn probes_are_answered_without_a_file() {
    for engine in ["auto", "epoll"] {
        let mut server = Running::start(&["--listen", "127.0.0.1:0", "--driver", engine, "--workers", "1"]);
        for path in ["/livez", "/readyz", "/healthz", "/health/live", "/health/ready", "/"] {
            assert_eq!(server.status(path), "200", "{path}");
        }
        assert_eq!(server.status("/nope"), "404");
        let answer = server.ask("HEAD /livez HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
        let answer = server.ask("OPTIONS / HTTP/1.0\r\n\r\n");
        assert!(
            answer.contains(" 200 OK\r\n") && answer.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"),
            "{answer}"
        );
        let answer = server.ask("POST /livez HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
        assert!(answer.contains(" 405 ") && answer.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"), "{answer}");
        let address = server.addr.clone();
        let check = |endpoint: &str| {
            let args = ["healthcheck", "--address", &address, "--endpoint", endpoint];
            Command::new(env!("CARGO_BIN_EXE_doorbell")).args(args).output().unwrap().status.code()
        };
        assert_eq!([check("readyz"), check("livez"), check("nope")], [Some(0), Some(0), Some(1)]);
        let driver = server.ready["driver"].as_str().unwrap();
        assert!(driver == "epoll" || engine == "auto" && driver == "io_uring", "{driver}");
        assert!(!server.ready["why"].as_str().unwrap().is_empty());
        server.signal(Signal::INT);
        assert_eq!(server.end(), Some(0));
    }
}

const DRAIN: &str = "version = 1\n[listener.a]\nbind = \"127.0.0.1:0\"\n[lifecycle]\n";
const FOR_EVER: &str = "drain_delay = \"1h\"\ndrain_timeout = \"1h\"\n";

#[test]
fn term_drains_and_the_second_one_stops() {
    let text = format!("{DRAIN}drain_delay = \"50ms\"\ndrain_timeout = \"1s\"\n");
    let mut server = Running::with_file("drain.toml", &text, &[]);
    server.signal(Signal::TERM);
    assert_eq!(server.end(), Some(0));

    let text = format!("{DRAIN}{FOR_EVER}");
    for second in [Signal::TERM, Signal::INT] {
        let mut server = Running::with_file("hurry.toml", &text, &["--driver", "epoll"]);
        server.signal(Signal::TERM);
        server.wait_for_line("draining");
        assert_eq!([server.status("/readyz"), server.status("/livez")], ["503", "200"]);
        server.signal(second);
        assert_eq!(server.end(), Some(0));
    }
    let mut server = Running::with_file("now.toml", &text, &[]);
    server.signal(Signal::INT);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn routes_of_a_file_are_served() {
    let text = r#"
version = 1
[listener.web]
bind = "127.0.0.1:0"
[health.orders]
initial = "down"
[route.orders]
path = "/orders"
health = "orders"
[route.hello]
path = "/hello/{name}"
reply = { body = "hello\n", headers = { X-A = "1" } }
headers = { X-B = "2" }
[route.old]
hosts = ["a.example"]
path = "/old/{*rest}"
redirect = { host = "b.example", path = "/new/{rest}", status = 301, port = 8443 }
[route.https]
hosts = ["a.example", "c.example"]
redirect = {}
"#;
    let server = Running::with_file("routes_served.toml", text, &[]);
    let get = |host: &str, path: &str| {
        server.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    let far = format!("/{}", "x".repeat(7000));
    for (host, path, status, location) in [
        ("a.example", "/orders", "503", None),
        ("a.example:8080", "/p//q?r=s", "308", Some("https://a.example/p//q?r=s".to_owned())),
        ("C.example", "/", "308", Some("https://c.example/".to_owned())),
        ("a.example", "/old/x/y?z", "301", Some("https://b.example:8443/new/x/y?z".to_owned())),
        ("c.example", "/old/x", "308", Some("https://c.example/old/x".to_owned())),
        ("c.example", "//evil.example/", "308", Some("https://c.example//evil.example/".to_owned())),
        ("c.example", "/%0d%0aX:y", "308", Some("https://c.example/%0d%0aX:y".to_owned())),
        ("c.example", "/%00", "400", None),
        ("c.example", &far, "308", Some(format!("https://c.example{far}"))),
        ("evil.example", "/", "421", None),
    ] {
        let answer = get(host, path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host} {path}: {answer}");
        let found = answer.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned);
        assert_eq!(found, location, "{host} {path}");
    }
    let answer = get("any", "/hello/you");
    assert!(answer.contains("\r\nX-A: 1\r\n") && answer.contains("\r\nX-B: 2\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello\n"), "{answer}");
}

#[test]
fn a_raw_listener_answers_and_may_speak_first() {
    for (speaks_first, request) in [(true, ""), (false, "PING\n")] {
        let text = format!(
            "version = 1\n[listener.a]\nbind = \"127.0.0.1:0\"\nprotocol = \"raw\"\nreply = \"PONG\\n\"\nspeaks_first = {speaks_first}\n"
        );
        let server = Running::with_file(&format!("raw_{speaks_first}.toml"), &text, &[]);
        assert_eq!(server.ask(request), "PONG\n");
    }
}

#[test]
fn tuning_reaches_the_engine_and_changes_no_reply() {
    for (number, (tuning, said)) in [
        ("accept = \"multishot\"", "multishot accept, ordinary descriptors"),
        ("accept = \"poll\"\nwait_min = \"200us\"", "accept by polling, ordinary descriptors"),
        ("accept = \"single-shot\"\nreceive = \"single-shot\"", "single-shot accept, ordinary descriptors"),
        ("descriptors = \"direct\"", "direct"),
        ("send_more = false\ndirect_calls = false", "multishot accept"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!(
            "version = 1\n[lifecycle]\ndrain_delay = \"0s\"\n[tuning]\n{tuning}\n[listener.web]\nbind = \"127.0.0.1:0\"\ntcp = {{ quickack = false }}\n[connections]\nper_ip_max = \"off\"\n"
        );
        let mut server = Running::with_file(&format!("tuning-{number}.toml"), &text, &[]);
        // Without io_uring the settings are accepted, but have no effect.
        if server.ready["driver"] == "io_uring" {
            let why = server.ready["why"].as_str().unwrap();
            assert!(why.contains(said), "{tuning}: {why}");
        }
        for _ in 0..3 {
            assert_eq!(server.status("/livez"), "200", "{tuning}");
        }
        server.signal(Signal::TERM);
        assert_eq!(server.end(), Some(0), "{tuning}");
    }
}

#[test]
fn redirect_needs_no_file() {
    let args =
        ["redirect", "--listen", "127.0.0.1:0", "--to", "https", "--host", "example.com", "--status", "307"];
    let server = Running::start(&args);
    let answer = server.ask("GET /a?b HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 307 "), "{answer}");
    assert!(answer.contains("\r\nLocation: https://example.com/a?b\r\n"), "{answer}");
    let answer = server.ask("GET / HTTP/1.1\r\nHost: evil.com\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 421 ") && !answer.contains("Location"), "{answer}");
    assert_eq!(server.status("/readyz"), "200");
}

#[test]
fn variables_configure_the_listeners_of_a_redirect() {
    let args = ["redirect", "--host", "example.com", "--admin", "off"];
    let listen = [&args[..], &["--listen", "127.0.0.1:0"]].concat();
    for (args, env) in [
        (&listen[..], &[("DOORBELL__UDP__U__BIND", "127.0.0.1:0")][..]),
        (&listen, &[("DOORBELL__AGENT__A__BIND", "127.0.0.1:0")]),
        (&listen, &[("DOORBELL__LISTENER__L__BIND", "127.0.0.1:1")]),
        (&args, &[("DOORBELL__LISTENER__L__BIND", "127.0.0.1:0")]),
    ] {
        let server = Running::with_env(args, env);
        let answer = server.ask("GET /a HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n");
        assert!(answer.contains("\r\nLocation: https://example.com/a\r\n"), "{env:?}: {answer}");
        assert_eq!(server.status("/readyz"), "200", "{env:?}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .args(args)
        .env_clear()
        .envs([
            ("DOORBELL__LISTENER__R__BIND", "127.0.0.1:0"),
            ("DOORBELL__LISTENER__R__PROTOCOL", "raw"),
            ("DOORBELL__LISTENER__R__REPLY", "x"),
        ])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(78) && error.contains("no HTTP listener"), "{error}");
}

/// Challenges take precedence over the redirect on every host (RFC 8555 8.3).
#[test]
fn challenges_take_precedence_over_a_redirect() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("acme");
    let dir = root.join(".well-known/acme-challenge");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("token"), "token.thumbprint").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_doorbell")).args(["config", "init", "redirect"]).output();
    let file = String::from_utf8(output.unwrap().stdout).unwrap();
    let file = file.replace("[::]:80", "127.0.0.1:0").replace("127.0.0.1:9130", "127.0.0.1:0");
    let file = file.replace("/var/lib/acme", root.to_str().unwrap());
    let dir = dir.to_str().unwrap();
    let args = ["redirect", "--listen", "127.0.0.1:0", "--host", "example.com", "--acme", dir];
    for server in [Running::start(&args), Running::with_file("init-acme.toml", &file, &[])] {
        for host in ["example.com", "other.example", "127.0.0.1"] {
            let request = |path: &str| {
                server.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
            };
            let answer = request("/.well-known/acme-challenge/token");
            assert!(
                answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\ntoken.thumbprint"),
                "{answer}"
            );
            let answer = request("/.well-known/acme-challenge/none");
            assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
            let answer = request("/.well-known/other");
            let expected = if host == "example.com" { "308" } else { "421" };
            assert_eq!(answer.split(' ').nth(1), Some(expected), "{host}: {answer}");
        }
    }
}

#[test]
fn a_file_is_no_directory_of_challenges() {
    let program = env!("CARGO_BIN_EXE_doorbell");
    for wrong in ["", program] {
        let (code, err) =
            failed(Command::new(program).args(["redirect", "--host", "example.com", "--acme", wrong]));
        assert!(code == Some(2) && err.contains("expected a directory"), "{wrong}: {err}");
    }
}

#[test]
fn successful_probes_are_not_logged() {
    let mut server = Running::start(&["--listen", "127.0.0.1:0", "--log-level", "info"]);
    for _ in 0..20 {
        assert_eq!(server.status("/readyz"), "200");
    }
    server.signal(Signal::INT);
    server.end();
    let mut rest = String::new();
    server.lines.read_to_string(&mut rest).unwrap();
    assert!(rest.lines().count() <= 2 && !rest.contains("readyz"), "{rest}");
}

#[test]
fn each_failed_start_has_a_message_and_a_code() {
    let program = env!("CARGO_BIN_EXE_doorbell");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, err) = failed(Command::new(program).args(["--listen", &address]));
    assert_eq!(code, Some(73), "{err}");
    assert!(
        err.starts_with(&format!("doorbell: cannot bind {address}: address in use"))
            && err.lines().count() == 1,
        "{err}"
    );

    let script = format!("ulimit -n 32; exec {program} --listen 127.0.0.1:0");
    let (code, err) = failed(Command::new("/bin/sh").args(["-c", &script]));
    assert_eq!(code, Some(71), "{err}");
    assert!(err.contains("file descriptors") && err.lines().count() == 1, "{err}");

    let (code, err) = failed(Command::new(program).args(["--listen", "unix:/nonexistent/doorbell.sock"]));
    assert_eq!((code, err.lines().count()), (Some(1), 1), "{err}");

    let (code, err) = failed(Command::new(program).args(["--listen", "systemd:web"]));
    assert_eq!((code, err.lines().count()), (Some(78), 1), "{err}");
    let (code, err) = failed(Command::new(program).args(["--listen", "fd:3"]));
    assert_eq!((code, err.lines().count()), (Some(78), 1), "{err}");

    // Root may bind low ports, so the error appears only for other users.
    let (code, err) = failed(Command::new(program).args(["--listen", "127.0.0.1:1", "validate"]));
    assert_eq!(code, Some(2), "{err}");
    if std::net::TcpListener::bind("127.0.0.1:1")
        .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    {
        let (code, err) = failed(Command::new(program).args(["--listen", "127.0.0.1:1"]));
        assert_eq!((code, err.lines().count()), (Some(77), 1), "{err}");
    }
}

#[test]
fn a_socket_of_the_parent_is_served() {
    // The shell executes doorbell in its own process, so LISTEN_PID=$$ is correct.
    let program = env!("CARGO_BIN_EXE_doorbell");
    let script = format!(
        "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web; exec {program} --listen systemd:web --workers 1"
    );
    // Descriptor 3 is not a listening socket, so the start fails.
    let (code, err) = failed(Command::new("/bin/sh").args(["-c", &script]));
    assert_eq!(code, Some(78), "{err}");
    assert!(err.starts_with("doorbell: descriptor 3 ") && err.lines().count() == 1, "{err}");

    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let script = format!(
        "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web; exec {program} --listen systemd:web --workers 1"
    );
    let mut child = Command::new("/bin/sh")
        .args(["-c", &script])
        .env_clear()
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("addresses") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "exited before it was ready");
    }
    let mut server =
        Running { child, lines, addr: address.to_string(), ready: serde_json::from_str(&line).unwrap() };
    assert_eq!(server.ready["addresses"], address.to_string());
    assert_eq!(server.status("/livez"), "200");
    server.signal(Signal::INT);
    assert_eq!(server.end(), Some(0));
}

/// With a full disk for the log and for standard error, the server keeps serving and stops cleanly.
#[test]
fn a_full_disk_costs_log_lines_and_nothing_else() {
    let socket = std::env::temp_dir().join(format!("doorbell-full-{}.sock", std::process::id()));
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .args(["--listen", &format!("unix:{}", socket.display())])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(full())
        .stderr(full())
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    let mut stream = loop {
        match std::os::unix::net::UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < until, "the server does not serve: {error}"),
        }
        assert_eq!(child.try_wait().unwrap(), None, "the server exited instead of serving");
        std::thread::sleep(Duration::from_millis(10));
    };
    stream.write_all(b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_dump_that_does_not_fit_is_a_failure() {
    let full = Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .args(["config", "dump", "--with-defaults"])
        .env_clear()
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("cannot write to standard output"), "{said}");
}
