//! Promise: each example is short, runs, and replies as its first line describes.
//!
//! Does not know about: the engine. The test starts the programs that cargo has built together with
//! it.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use doorbell_testkit::peers::{End, Reply, exchange};

const LINES_MAX: usize = 60;

struct Example {
    child: Child,
    addr: SocketAddr,
}

impl Example {
    /// Starts an example on a free port; the example prints its address on standard error.
    fn start(name: &str) -> Self {
        let mut command = Self::command(name);
        command.arg("127.0.0.1:0");
        Self::run(command, name)
    }

    fn command(name: &str) -> Command {
        let own = std::env::current_exe().unwrap();
        let program: PathBuf = own.parent().unwrap().parent().unwrap().join("examples").join(name);
        assert!(
            program.is_file(),
            "{program:?} is missing: a whole `cargo test` builds it, and so does `cargo build --examples`"
        );
        Command::new(&program)
    }

    fn run(mut command: Command, name: &str) -> Self {
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let addr = lines.find_map(|line| {
            let port = line.split("127.0.0.1:").nth(1)?;
            let port: String = port.chars().take_while(char::is_ascii_digit).collect();
            Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?)))
        });
        Self { child, addr: addr.unwrap_or_else(|| panic!("{name} did not print its address")) }
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
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < LINES_MAX, "{path:?} has {lines} lines");
        count += 1;
    }
    assert!(count >= 3);
}

#[test]
fn probe() {
    let mut example = Example::start("probe");
    // The example continues without standard input, as under systemd or in a container.
    drop(example.child.stdin.take());
    for (path, status) in [("/livez", 200), ("/readyz", 200), ("/other", 404)] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let got = exchange(example.addr, request.as_bytes()).unwrap();
        assert_eq!((Reply::parse(&got.bytes, false).unwrap().status, got.end), (status, End::Fin), "{path}");
    }
    assert!(example.child.try_wait().unwrap().is_none());
}

#[test]
fn redirect() {
    let example = Example::start("redirect");
    let got =
        exchange(example.addr, b"GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
            .unwrap();
    let reply = Reply::parse(&got.bytes, false).unwrap();
    assert_eq!(
        (reply.status, reply.field("location"), got.end),
        (308, Some("https://example.com/a?b=c"), End::Fin)
    );
}

#[test]
fn routes() {
    let example = Example::start("routes");
    let ask = |path: &str, field: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{field}Connection: close\r\n\r\n");
        let reply = Reply::parse(&exchange(example.addr, request.as_bytes()).unwrap().bytes, false).unwrap();
        let location = reply.field("location").map(str::to_owned);
        (reply.status, location, String::from_utf8(reply.body).unwrap())
    };
    let token = "Authorization: Bearer an-example-token-that-is-not-secret\r\n";
    for (path, field, status, location, body) in [
        ("/livez", "", 200, None, "ok\n"),
        ("/hello/you", "", 200, None, "you"),
        ("/whoami", "", 401, None, ""),
        ("/whoami", token, 200, None, "alice"),
        ("/old/a/b", "", 308, Some("https://example.com/a/b"), ""),
        ("/other", "", 404, None, "not found\n"),
    ] {
        assert_eq!(ask(path, field), (status, location.map(str::to_owned), body.to_owned()), "{path}");
    }
}

#[test]
fn raw_echo() {
    let example = Example::start("raw_echo");
    let got = exchange(example.addr, b"hello\n").unwrap();
    assert_eq!((got.bytes.as_slice(), got.end), (&b"hello\n"[..], End::Fin));
}

#[test]
fn layer() {
    let example = Example::start("layer");
    for number in ["0", "1"] {
        let got = exchange(example.addr, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let reply = Reply::parse(&got.bytes, false).unwrap();
        assert_eq!((reply.status, reply.field("x-request-number"), got.end), (200, Some(number), End::Fin));
    }
}

#[test]
#[cfg(feature = "rayon")]
fn offload() {
    let example = Example::start("offload");
    let ask = |request: &str| {
        Reply::parse(&exchange(example.addr, request.as_bytes()).unwrap().bytes, false).unwrap()
    };
    let hash = ask("POST /hash HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\nConnection: close\r\n\r\nhunter2");
    assert!(hash.status == 200 && hash.body.starts_with(b"$argon2id$v=19$"), "{hash:?}");
    assert_eq!(ask("GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").body, b"ok\n");
}

#[test]
fn access_log() {
    let path = std::env::temp_dir().join(format!("doorbell-example-{}.log", std::process::id()));
    let mut command = Example::command("access_log");
    command.arg("127.0.0.1:0").arg(&path);
    let mut example = Example::run(command, "access_log");
    let got = exchange(example.addr, b"GET /seen HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(got.end, End::Fin);
    drop(example.child.stdin.take());
    assert!(example.child.wait().unwrap().success());
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(log.lines().count() == 1 && log.contains("/seen"), "{log}");
}
