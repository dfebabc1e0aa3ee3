//! Promise: each example is short, runs, and replies as its first line describes.
//!
//! The test starts the programs that cargo has built together with it.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use doorbell_testkit::peers::{End, Reply, exchange, wait_until};
use doorbell_testkit::skip::{self, Need};

const LINES_MAX: usize = 90;

const PATIENCE: Duration = Duration::from_secs(20);

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

fn read(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
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
    let resp = folder.join("resp");
    for path in [folder, resp].iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let path = path.unwrap().path();
        if path.is_dir() {
            continue;
        }
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
fn datagrams() {
    let example = Example::start("datagrams");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(example.addr).unwrap();
    // The other datagrams get no reply, so the replies to `ping` are the only ones.
    for payload in [&b"other"[..], b"ping", b"ping\n"] {
        client.send(payload).unwrap();
    }
    for _ in 0..2 {
        let mut reply = [0; 64];
        let len = client.recv(&mut reply).unwrap();
        assert_eq!(&reply[..len], b"pong");
    }
}

#[test]
fn lines() {
    let example = Example::start("lines");
    let mut room: Vec<_> = (0..3).map(|_| TcpStream::connect(example.addr).unwrap()).collect();
    room.iter_mut().for_each(|stream| assert_eq!(read(stream, 8), b"welcome\n"));
    room[0].write_all(b"hello ").unwrap();
    room[0].write_all(b"all\n").unwrap();
    room.iter_mut().for_each(|stream| assert_eq!(read(stream, 10), b"hello all\n"));
}

#[test]
#[cfg(feature = "rayon")]
fn frames() {
    #[derive(bitcode::Encode)]
    enum Ask {
        Echo(String),
        Sum(Vec<u32>),
    }

    #[derive(bitcode::Decode, Debug, PartialEq)]
    enum JobReply {
        Echo(String),
        Sum(u64),
    }

    let example = Example::start("frames");
    let mut stream = TcpStream::connect(example.addr).unwrap();
    let frames = [Ask::Sum(vec![7; 1000]), Ask::Echo("a".to_owned()), Ask::Sum(vec![1, 2])];
    let bytes: Vec<u8> = frames
        .iter()
        .map(bitcode::encode)
        .flat_map(|frame| [&u32::try_from(frame.len()).unwrap().to_be_bytes()[..], &frame].concat())
        .collect();
    for byte in bytes {
        stream.write_all(&[byte]).unwrap();
    }
    let answers = [JobReply::Sum(7000), JobReply::Echo("a".to_owned()), JobReply::Sum(3)];
    for expected in answers {
        let len = u32::from_be_bytes(read(&mut stream, 4).try_into().unwrap());
        let answer: JobReply = bitcode::decode(&read(&mut stream, len as usize)).unwrap();
        assert_eq!(answer, expected);
    }
}

#[test]
fn resp() {
    let example = Example::start("resp");
    let mut stream = TcpStream::connect(example.addr).unwrap();
    let set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nbc\r\n";
    let asked =
        format!("PING\r\n*1\r\n$4\r\nping\r\n{set}*2\r\n$3\r\nget\r\n$1\r\nk\r\nGET none\r\nDEL k\r\n");
    let expected = "+PONG\r\n+PONG\r\n+OK\r\n$5\r\na\r\nbc\r\n$-1\r\n-ERR unknown command";
    for piece in asked.as_bytes().chunks(3) {
        stream.write_all(piece).unwrap();
    }
    assert_eq!(String::from_utf8(read(&mut stream, expected.len())).unwrap(), expected);
    stream.write_all(b"*x\r\n").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("-ERR Protocol error: invalid multibulk length\r\n"), "{rest}");
}

/// `redis-cli` and `redis-benchmark` work with the example.
#[test]
fn redis_clients_use_the_resp_example() {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        return skip::skipped(Need::Clients, "redis-cli is not installed");
    }
    let example = Example::start("resp");
    let port = example.addr.port().to_string();
    let run = |program: &str, args: &[&str]| {
        let done = Command::new(program).args(["-h", "127.0.0.1", "-p", &port]).args(args).output().unwrap();
        assert!(done.status.success(), "{program} {args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let long = "v".repeat(100_000);
    for (args, expected) in [
        (&["PING"][..], "PONG"),
        (&["PING", "hi"], "hi"),
        (&["SET", "a key", &long], "OK"),
        (&["GET", "a key"], &long),
        (&["GET", "none"], ""),
    ] {
        assert_eq!(run("redis-cli", args).trim_end(), expected, "{}", args[0]);
    }
    for pipeline in ["1", "16"] {
        let tests = "ping_inline,ping_mbulk,set,get";
        let csv = run(
            "redis-benchmark",
            &["-t", tests, "-n", "20000", "-c", "20", "-P", pipeline, "-r", "1000", "--csv"],
        );
        // A header, and a line for each test.
        assert_eq!(csv.lines().count(), 5, "{csv}");
    }
}

/// Processor time of a process so far, in clock ticks (proc(5)).
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Server CPU time per command, in alternating runs. Only in the full tests of the shipped build.
#[test]
fn a_command_costs_no_more_than_in_redis_server() {
    if cfg!(debug_assertions) || std::env::var("DOORBELL_FULL").as_deref() != Ok("1") {
        return;
    }
    for program in ["redis-server", "redis-benchmark"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skip::skipped(Need::Clients, format!("{program} is not installed"));
        }
    }
    let example = Example::start("resp");
    let port = doorbell_testkit::peers::free_port().to_string();
    let mut redis = Command::new("redis-server");
    let mut redis = redis.args(["--port", &port, "--save", "", "--appendonly", "no"]);
    redis = redis.stdout(Stdio::null());
    let redis = Example { child: redis.spawn().unwrap(), addr: format!("127.0.0.1:{port}").parse().unwrap() };
    assert!(wait_until(PATIENCE, || TcpStream::connect(redis.addr).is_ok()).is_some());
    let cost = |server: &Example, test: &str, pipeline: &str| {
        let (before, port) = (cpu_ticks(server.child.id()), server.addr.port().to_string());
        let count = if pipeline == "1" { "100000" } else { "500000" };
        let args = ["-t", test, "-n", count, "-c", "50", "-P", pipeline, "-r", "10000", "-q", "-p", &port];
        assert!(Command::new("redis-benchmark").args(args).output().unwrap().status.success());
        cpu_ticks(server.child.id()) - before
    };
    for pipeline in ["1", "16"] {
        for test in ["ping_inline", "ping_mbulk", "set", "get"] {
            let mut sums = [0, 0];
            for _ in 0..3 {
                sums[0] += cost(&example, test, pipeline);
                sums[1] += cost(&redis, test, pipeline);
            }
            let [ours, theirs] = sums;
            assert!(ours <= theirs, "{test}, {pipeline} at once: {ours} ticks, redis-server {theirs}");
        }
    }
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
