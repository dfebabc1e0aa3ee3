//! Runs against servers that delay: each ends at its timeout or soon after.

#[cfg(feature = "alias")]
mod alias;
mod chains;
#[cfg(feature = "udp")]
mod datagrams;
#[cfg(all(
    feature = "alias",
    feature = "mail",
    feature = "mysql",
    feature = "postgres",
    feature = "websocket"
))]
mod faults;
#[cfg(feature = "icmp")]
mod icmp;
mod kinds;
#[cfg(feature = "mail")]
mod mail;
#[cfg(feature = "mysql")]
mod mysql;
mod names;
#[cfg(feature = "postgres")]
mod postgres;
mod pushes;
mod real;
mod requests;
mod unary;
mod versions;
mod watches;
#[cfg(feature = "websocket")]
mod websocket;

use super::connect::certificate;
use super::connect::connector::Connector;
use super::connect::resolver::Resolver;
use super::finding::Finding;
use super::kinds::expectations;
use super::limits::LOOKUPS_MAX;
use super::progress::Progress;
use super::runner::{RunResult, Runner};
use super::scheduler::run_requests::{Request, RequestQueue};
use super::*;
use doorbell_config::Secret;
use doorbell_health::Outcome;
use doorbell_testkit::figures;
#[cfg(feature = "icmp")]
use options::IcmpCheck;
#[cfg(feature = "process")]
use options::ProcessCheck;
#[cfg(feature = "udp")]
use options::UdpCheck;
use options::{
    Address, BadIs, CertificateRule, Check, CheckKind, ClientTls, DnsCheck, DnsCode, DnsRecord,
    EgressOptions, ExecCheck, FieldValue, FileCheck, FollowRedirects, GaugeCheck, GrpcCheck, GrpcMode,
    HostPort, HttpCheck, HttpDegraded, HttpExpect, LatencyRule, Level, Metric, Pace, Pattern, Payload,
    Prefer, RedisCheck, Resolve, StatusSet, TcpCheck, TlsCheck, Url,
};
use std::fmt::Display;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Timeout of checks that should complete; long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Timeout of checks that should exceed their timeout.
const SOON: Duration = Duration::from_secs(1);

fn runner(kind: impl Into<CheckKind>) -> Runner {
    runner_within(TIMEOUT, kind)
}

fn runner_within(timeout: Duration, kind: impl Into<CheckKind>) -> Runner {
    runner_with(pace(timeout), kind, &connector())
}

fn runner_with(pace: Pace, kind: impl Into<CheckKind>, connector: &Arc<Connector>) -> Runner {
    let check = Check { pace, ..Check::new("a", kind) };
    Runner::build(&check, &mut SharedResources::new(Arc::clone(connector))).unwrap().unwrap()
}

fn pace(timeout: Duration) -> Pace {
    Pace { timeout, connect_timeout: timeout, ..Pace::default() }
}

fn connector() -> Arc<Connector> {
    Arc::new(Connector::open(&EgressOptions::default()).unwrap())
}

fn address(text: impl Display) -> Address {
    Address::parse(&text.to_string()).unwrap()
}

fn url(text: impl Display) -> Url {
    Url::parse(&text.to_string()).unwrap()
}

fn statuses(text: &str) -> StatusSet {
    StatusSet::parse(text).unwrap()
}

fn contains(text: &str) -> Payload {
    Payload { contains: text.into(), ..Payload::default() }
}

fn unverified() -> ClientTls {
    ClientTls { verify: false, ..ClientTls::default() }
}

/// Stops a program, and waits until all its threads have stopped.
fn stop(program: &std::process::Child) {
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
    let pid = Pid::from_child(program);
    kill_process(pid, Signal::STOP).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped());
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A server that runs `does` with every connection, and keeps it open.
fn server(does: impl Fn(&mut std::net::TcpStream) + Send + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            does(&mut stream);
            kept.push(stream);
        }
    });
    addr
}

/// Waits for the start of a request.
fn heard(stream: &mut std::net::TcpStream) -> &mut std::net::TcpStream {
    let _len = stream.read(&mut [0; 1024]).unwrap();
    stream
}

/// Performs a run; also returns what its server reads after the first bytes: an end or a reset.
fn end_seen_by_server(
    kind: impl Fn(SocketAddr) -> CheckKind,
    answer: &'static [u8],
    closes: bool,
) -> (Finding, std::io::Result<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let runner = runner(kind(listener.local_addr().unwrap()));
    let seen = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        if !answer.is_empty() {
            heard(&mut stream).write_all(answer).unwrap();
        }
        if closes {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        stream.read(&mut [0; 64])
    });
    (block_on(runner.run()), seen.join().unwrap())
}

/// A server that closes as requested gets no reset. If a server does not close, no local port stays
/// in TIME-WAIT.
#[test]
fn connections_end_as_they_should() {
    let http = |addr: SocketAddr| HttpCheck::new(url(format!("http://{addr}/"))).into();
    let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (finding, end) = end_seen_by_server(http, ok, true);
    assert_eq!((finding.outcome, end.unwrap()), (Outcome::Success, 0), "the server closed");
    let (finding, end) = end_seen_by_server(http, ok, false);
    assert_eq!(finding.outcome, Outcome::Success);
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset, "the server did not close");
    let (finding, end) = end_seen_by_server(|addr| TcpCheck::new(address(addr)).into(), b"", false);
    assert_eq!((finding.outcome, end.unwrap()), (Outcome::Success, 0), "no data was sent");
}

#[test]
fn connection_attempts_are_counted_by_result() {
    let connector = connector();
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let closed = full.local_addr().unwrap().as_socket().unwrap();
    let open = server(|_| {});
    for addr in [open, open, closed] {
        block_on(runner_with(pace(TIMEOUT), TcpCheck::new(address(addr)), &connector).run());
    }
    let counted: Vec<_> = connector.counters().fields().into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [("connected", 2), ("refused", 1)]);
}

/// Each run ends at its timeout and reports the stage. The long version of the test also limits the
/// delay after the timeout, measured as the best of several runs.
#[test]
fn each_run_ends_at_its_timeout() {
    // A busy machine needs more time to reach the stage.
    let (time, rounds) = if figures::is_long() { ("150ms", 8) } else { ("2s", 1) };
    let limit = doorbell_config::parse_duration(time).unwrap();
    let silent = server(|_| {});
    let begun = server(|stream| {
        heard(stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx").unwrap();
    });
    let names = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let unanswered = names.local_addr().unwrap();
    let grpc = || GrpcCheck::new(address(silent));
    let redis = || RedisCheck::new(address(silent));
    let http = |at: SocketAddr| HttpCheck::new(url(format!("http://{at}/")));
    let https = HttpCheck { tls: unverified(), ..HttpCheck::new(url(format!("https://{silent}/"))) };
    let server = HostPort::parse(&unanswered.to_string(), None).unwrap();
    let command = ["/usr/bin/tail", "-f", "/dev/null"].map(str::to_owned).to_vec();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let all: [(CheckKind, &str); 12] = [
        (redis().into(), "no response within TIME"),
        (RedisCheck { tls: Some(unverified()), ..redis() }.into(), "no TLS handshake within TIME"),
        (
            TlsCheck { tls: unverified(), ..TlsCheck::new(address(silent)) }.into(),
            "no TLS handshake within TIME",
        ),
        (DnsCheck::new(server, "a.example".to_owned()).into(), "no response within TIME"),
        (grpc().into(), "no response within TIME"),
        (GrpcCheck { mode: GrpcMode::Watch, ..grpc() }.into(), "no response within TIME"),
        (GrpcCheck { tls: Some(unverified()), ..grpc() }.into(), "no TLS handshake within TIME"),
        (ExecCheck { command, degraded_exit_code: None }.into(), "no end within TIME"),
        (http(silent).into(), "no response within TIME"),
        (http(begun).into(), "no end of the response within TIME"),
        (https.into(), "no TLS handshake within TIME"),
        (
            TcpCheck { payload: contains("x"), ..TcpCheck::new(address(silent)) }.into(),
            "no response within TIME",
        ),
    ];
    let runners = all.map(|(kind, reason)| {
        (runner_within(limit, kind.clone()), format!("{kind:?}"), reason.replace("TIME", time))
    });
    let mut best = runners.each_ref().map(|_| Duration::MAX);
    for _round in 0..rounds {
        // Includes the cleanup before the finding is returned.
        let took = async |at: usize| {
            let (runner, kind, reason) = &runners[at];
            let from = Instant::now();
            let (finding, took) = (runner.run().await, from.elapsed());
            assert_eq!((finding.outcome, &finding.reason), (Outcome::Timeout, reason), "{kind}");
            assert!(finding.latency >= limit && took >= finding.latency);
            took
        };
        runtime.block_on(async {
            if figures::is_long() {
                for (at, best) in best.iter_mut().enumerate() {
                    *best = took(at).await.min(*best);
                }
            } else {
                futures_util::future::join_all((0..runners.len()).map(took)).await;
            }
        });
    }
    if figures::is_long() {
        for ((_, kind, _), best) in runners.iter().zip(best) {
            figures::at_most(kind, best, Duration::from_millis(170));
        }
    }
}

/// The memory of a run is small, because ten thousand runs may wait at once.
#[test]
fn a_run_is_small() {
    let http = runner(HttpCheck::new(url("http://a/")));
    let tcp = runner(TcpCheck::new(address("a:1")));
    for runner in [http, tcp] {
        let size = size_of_val(&runner.run());
        assert!(size <= 4096, "{size} bytes");
    }
}

/// A connection that is not established ends at `connect_timeout`. A listener with a full queue
/// drops packets, so the connection is never established.
#[test]
fn a_connection_attempt_ends_at_connect_timeout() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(1).unwrap();
    let addr = socket.local_addr().unwrap().as_socket().unwrap();
    let _queued: Vec<_> =
        (0..4).map(|_| std::net::TcpStream::connect_timeout(&addr, Duration::from_millis(50))).collect();
    let pace = Pace { connect_timeout: Duration::from_millis(60), ..pace(TIMEOUT) };
    let runner = runner_with(pace, TcpCheck::new(address(addr)), &connector());
    let finding = block_on(runner.run());
    assert_eq!(finding.outcome, Outcome::Timeout);
    assert!(finding.reason.ends_with("no connection within 60ms"), "{}", finding.reason);
    assert!(finding.latency >= Duration::from_millis(60), "{:?}", finding.latency);
    figures::at_most("a connection that is never established", finding.latency, Duration::from_millis(140));
}

/// Endless content is read up to the limit, even with twenty concurrent runs; an endless response
/// head is an error.
#[test]
fn endless_responses_are_cut() {
    let flood = server(|stream| {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            let stream = heard(&mut stream);
            let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        });
    });
    let head = server(|stream| {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            let stream = heard(&mut stream);
            let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            while stream.write_all(b"a: b\r\n").is_ok() {}
        });
    });
    let http = |addr: SocketAddr| HttpCheck::new(url(format!("http://{addr}/")));
    let good = HttpCheck { body_bytes: 8 << 10, ..http(flood) };
    let good = Arc::new(runner_within(Duration::from_secs(3), good));
    block_on(async {
        let mut runs = JoinSet::new();
        for _ in 0..20 {
            let runner = Arc::clone(&good);
            runs.spawn(async move { runner.run().await.outcome });
        }
        // Some runs may time out on a machine with few cores.
        let outcomes = runs.join_all().await;
        assert!(outcomes.contains(&Outcome::Success), "{outcomes:?}");
        assert!(!outcomes.contains(&Outcome::Failure), "{outcomes:?}");
    });
    let finding = block_on(runner(http(head)).run());
    assert_eq!((finding.outcome, &*finding.reason), (Outcome::Failure, "the response is not HTTP/1"));
}

#[test]
fn invalid_responses_are_failures() {
    let http = |addr: SocketAddr| HttpCheck::new(url(format!("http://{addr}/")));
    for (says, reason) in [
        (&b""[..], "the connection ended before the response was complete"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
            "the connection ended before the response was complete",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the response is not HTTP/1"),
        (b"HTTP/1.1 999999 X\r\n\r\n", "the response is not HTTP/1"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let answer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            heard(&mut stream).write_all(says).unwrap();
        });
        let finding = block_on(runner(http(addr)).run());
        answer.join().unwrap();
        let says = says.escape_ascii();
        assert_eq!((finding.outcome, &*finding.reason), (Outcome::Failure, reason), "{says}");
    }
    let first = server(|stream| stream.write_all(b"220 mail\r\n").unwrap());
    let finding = block_on(runner(http(first)).run());
    // Whether the server's first bytes arrive before our request depends on timing.
    let reasons =
        ["the server closed the connection or sent data before the request", "the response is not HTTP/1"];
    assert!(reasons.contains(&&*finding.reason), "{}", finding.reason);
}
