//! Checks that send datagrams, against correct and faulty peers and against real servers.

use super::kinds::{is, is_within};
use super::*;
use doorbell_testkit::peers::{free_addr, wait_until};
use doorbell_testkit::skip::{Need, skipped};
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};

fn udp(addr: SocketAddr, payload: Payload) -> UdpCheck {
    UdpCheck { payload, ..UdpCheck::new(address(addr)) }
}

fn asks(send: &[u8], response: &str) -> Payload {
    Payload { send: send.to_vec(), ..contains(response) }
}

/// A peer that replies to each datagram with the datagrams that `answer` returns. `answer` gets the
/// number of the datagram and its content.
fn answers(answer: impl Fn(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        for number in 0.. {
            let Ok((len, from)) = socket.recv_from(&mut bytes) else { return };
            for answer in answer(number, &bytes[..len]) {
                let _gone = socket.send_to(&answer, from);
            }
        }
    });
    addr
}

#[test]
fn replies_to_datagrams_are_evaluated() {
    let echo = |_: usize, sent: &[u8]| vec![sent.to_vec()];
    is(udp(answers(echo), asks(b"ping", "in")), Outcome::Success, "");
    is(
        udp(answers(echo), asks(&[0xff, 0], "ping")),
        Outcome::Failure,
        r#"the reply is "\xff\x00", without "ping""#,
    );
    is(udp(answers(echo), asks(b"", "ping")), Outcome::Failure, "the reply is nothing, without \"ping\"");
    let matches = |text: &str, payload| Payload { matches: Some(Pattern::new(text).unwrap()), ..payload };
    is(udp(answers(echo), matches("^v[0-9]$", asks(b"v1", "v"))), Outcome::Success, "");
    // An expression that every text matches requires any reply.
    is(udp(answers(echo), matches("", Payload::default())), Outcome::Success, "");
    let reason = "the reply is \"v\", without anything that matches \"^v[0-9]$\"";
    is(udp(answers(echo), matches("^v[0-9]$", asks(b"v", "v"))), Outcome::Failure, reason);
    // The first reply counts, even if it is half of an answer.
    let half = |_: usize, _: &[u8]| vec![b"po".to_vec(), b"ng".to_vec()];
    is(udp(answers(half), asks(b"", "pong")), Outcome::Failure, "the reply is \"po\", without \"pong\"");
    let long = |_: usize, _: &[u8]| vec![vec![b'x'; 60_000]];
    is(udp(answers(long), asks(b"", "xx")), Outcome::Success, "");
    let silent = |_: usize, _: &[u8]| vec![];
    is_within(SOON, udp(answers(silent), asks(b"", "x")), Outcome::Timeout, "no response within 1s");
    let addr = free_addr();
    is(udp(addr, asks(b"", "x")), Outcome::Failure, &format!("{addr}: connection refused"));
    let slow = LatencyRule { degraded_above: Some(Duration::from_nanos(1)), ..LatencyRule::default() };
    let late = UdpCheck { latency: slow, ..udp(answers(echo), asks(b"x", "x")) };
    is(late, Outcome::Degraded, "above the maximum of");
}

/// A lost datagram is sent again, if it may be sent more than once.
#[test]
fn lost_datagrams_are_sent_again() {
    let third = |number: usize, sent: &[u8]| if number < 2 { vec![] } else { vec![sent.to_vec()] };
    let check = |sends| UdpCheck { sends, ..udp(answers(third), asks(b"x", "x")) };
    is_within(SOON, check(3), Outcome::Success, "");
    is_within(SOON, check(2), Outcome::Timeout, "no response within 1s");
}

/// Without a required reply the check waits only for an error.
#[test]
fn a_datagram_without_an_error_is_a_success() {
    let silent = |_: usize, _: &[u8]| vec![];
    let check = |addr, wait| UdpCheck { wait, ..udp(addr, asks(b"a:1|c", "")) };
    let run = |check: UdpCheck| block_on(runner(check).run());
    let found = run(check(answers(silent), Some(Duration::from_millis(30))));
    assert_eq!((found.outcome, &*found.reason), (Outcome::Success, ""));
    assert!(found.latency >= Duration::from_millis(30));
    // By default, the wait is a tenth of the timeout.
    assert!(run(check(answers(silent), None)).latency >= TIMEOUT / 10);
    // A reply ends the wait.
    let long = check(answers(|_, _| vec![b"any".to_vec()]), Some(TIMEOUT * 2));
    is(long, Outcome::Success, "");
    let addr = free_addr();
    is(check(addr, Some(TIMEOUT * 2)), Outcome::Failure, &format!("{addr}: connection refused"));
    is(UdpCheck { sends: 3, ..check(addr, None) }, Outcome::Failure, "connection refused");
}

/// A datagram from another address is not a reply.
#[test]
fn datagrams_of_strangers_are_ignored() {
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = peer.local_addr().unwrap();
    std::thread::spawn(move || {
        let (_len, from) = peer.recv_from(&mut [0; 8]).unwrap();
        stranger.send_to(b"forged", from).unwrap();
        peer.send_to(b"real", from).unwrap();
    });
    is(udp(addr, asks(b"x", "real")), Outcome::Success, "");
}

#[test]
fn datagrams_go_to_unix_sockets_too() {
    let dir = std::env::temp_dir().join(format!("doorbell-datagrams-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("a.sock");
    let check = |payload| UdpCheck { payload, ..UdpCheck::new(Address::Unix(path.clone())) };
    is(check(Payload::default()), Outcome::Failure, "a.sock: no such file or directory");
    let peer = UnixDatagram::bind(&path).unwrap();
    is(check(asks(b"<14>test", "")), Outcome::Success, "");
    let mut received = [0; 64];
    assert_eq!(peer.recv(&mut received).unwrap(), 8);
    // A socket that nothing reads fills up.
    let runner = runner_within(SOON, check(asks(b"x", "")));
    let full = (0..10_000).map(|_| block_on(runner.run())).find(|found| found.outcome != Outcome::Success);
    assert_eq!(full.unwrap().reason, "the receive queue is full");
    let reading = std::thread::spawn(move || {
        loop {
            let (len, from) = peer.recv_from(&mut received).unwrap();
            if &received[..len] == b"ping" {
                peer.send_to_addr(b"pong", &from).unwrap();
                return peer;
            }
        }
    });
    is(check(asks(b"ping", "pong")), Outcome::Success, "");
    drop(reading.join().unwrap());
    // A program that another test starts has the socket until its `exec`.
    let is_closed = || UnixDatagram::unbound().unwrap().send_to(b"", &path).is_err();
    assert!(wait_until(Duration::from_secs(30), is_closed).is_some());
    is(check(Payload::default()), Outcome::Failure, "a.sock: connection refused");
    std::fs::remove_file(&path).unwrap();
    let _stream = std::os::unix::net::UnixListener::bind(&path).unwrap();
    is(check(Payload::default()), Outcome::Failure, "a.sock: protocol wrong type for socket");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A QUIC server answers an unknown version with the versions that it supports (RFC 9000 6.1).
#[test]
fn a_version_negotiation_of_quic_is_a_reply() {
    let quic = |_: usize, sent: &[u8]| {
        // Datagrams of less than 1200 bytes are ignored (RFC 9000 14.1).
        if sent.len() < 1200 || sent[0] & 0xc0 != 0xc0 {
            return vec![];
        }
        let (to, from) = (&sent[6..14], &sent[15..23]);
        vec![[&[0x80, 0, 0, 0, 0, 8], from, &[8], to, &[0, 0, 0, 1]].concat()]
    };
    let ids = [&[8][..], b"doorbell", &[8], b"response"].concat();
    let mut send = [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a], &ids[..]].concat();
    let wanted = [&[0, 0, 0, 0, 8][..], b"response", &[8], b"doorbell"].concat();
    let check = |send: &[u8]| Payload { send: send.to_vec(), contains: wanted.clone(), matches: None };
    is_within(SOON, udp(answers(quic), check(&send)), Outcome::Timeout, "no response within 1s");
    send.resize(1200, 0);
    is(udp(answers(quic), check(&send)), Outcome::Success, "");
}

/// A program that is killed at the end of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Starts an external program; `None` after reporting the skip if it is not installed.
fn start(program: &str, args: &[&str]) -> Option<Server> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let child = Command::new(program).args(args).env("PATH", path).stdin(Stdio::null()).spawn();
    match child {
        Ok(child) => Some(Server(child)),
        Err(error) => {
            skipped(Need::Clients, format_args!("{program}: {error}"));
            None
        }
    }
}

/// Waits until the check of a server that has been started succeeds.
fn becomes_up(check: &UdpCheck) {
    let runner = runner_within(SOON, check.clone());
    let up = wait_until(Duration::from_secs(20), || block_on(runner.run()).outcome == Outcome::Success);
    assert!(up.is_some(), "{:?}", block_on(runner.run()));
}

/// Stops the process of the server, and then ends it.
fn goes_down(server: Server, check: &UdpCheck) {
    stop(&server.0);
    is_within(SOON, check.clone(), Outcome::Timeout, "no response within 1s");
    drop(server);
    is(check.clone(), Outcome::Failure, &format!("{}: connection refused", check.address));
}

#[test]
fn memcached_answers() {
    let addr = free_addr();
    let port = addr.port().to_string();
    let server = start("memcached", &["-u", "root", "-l", "127.0.0.1", "-p", "0", "-U", &port]);
    let Some(server) = server else { return };
    // A frame header of memcached: request ID, sequence number, number of datagrams, reserved.
    let frame = |command: &[u8]| [b"\0\x07\0\0\0\x01\0\0", command].concat();
    let check = udp(addr, asks(&frame(b"version\r\n"), "VERSION "));
    becomes_up(&check);
    is(udp(addr, asks(&frame(b"nonsense\r\n"), "VERSION ")), Outcome::Failure, "ERROR");
    goes_down(server, &check);
}

#[test]
fn dnsmasq_answers() {
    let addr = free_addr();
    let port = format!("--port={}", addr.port());
    let args = ["--no-daemon", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--user=root"];
    let own = ["--listen-address=127.0.0.1", "--bind-interfaces", "--address=/a.test/192.0.2.7", &port];
    let Some(server) = start("dnsmasq", &[&args[..], &own].concat()) else { return };
    let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
    let payload = Payload { send: question.to_vec(), contains: vec![192, 0, 2, 7], matches: None };
    let check = udp(addr, payload);
    becomes_up(&check);
    // A `dns` check gets the same answer.
    let name = DnsCheck::new(HostPort::parse(&addr.to_string(), None).unwrap(), "a.test".to_owned());
    is(DnsCheck { contains: vec!["192.0.2.7".to_owned()], ..name }, Outcome::Success, "");
    goes_down(server, &check);
}
