//! Signals: SIGTERM drains; SIGINT, SIGQUIT or a second SIGTERM stops; after the stop the port is
//! free at once.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use doorbell_testkit::peers::{End, Reply, exchange, finish, misbehave, wait_until};
use rustix::process::Signal;

use crate::support::{CONFIG, Doorbell, LIMIT, at_most, on_both_engines};

on_both_engines! {
    sigterm_finishes_open_requests
    sigterm_stops_immediately_when_idle
    sigint_and_sigquit_stop
    a_second_sigterm_stops
    the_port_is_free_after_the_end
}

const HALF: &[u8] = b"GET /hello HTTP/1.1\r\nHost: web\r\n";

fn sigterm_finishes_open_requests(engine: &str) {
    let mut doorbell = Doorbell::start(engine);
    let mut begun = TcpStream::connect(doorbell.addr).unwrap();
    begun.write_all(HALF).unwrap();
    let mut kept = TcpStream::connect(doorbell.addr).unwrap();
    kept.write_all(b"GET /hello HTTP/1.1\r\nHost: web\r\n\r\n").unwrap();
    misbehave::read_replies(&mut kept, 1, false).unwrap();
    doorbell.process.signal(Signal::TERM);
    let refused = wait_until(LIMIT, || TcpStream::connect(doorbell.addr).is_err());
    assert!(refused.is_some(), "a draining server must close its listeners");
    assert!(!doorbell.process.has_ended(), "a request is in progress: {}", doorbell.process.log());
    begun.write_all(b"\r\n").unwrap();
    let got = finish(&mut begun, LIMIT);
    let reply = Reply::parse(&got.bytes, false).unwrap();
    assert_eq!((reply.status, reply.body.as_slice(), got.end), (200, &b"hello\n"[..], End::Fin));
    assert_eq!(reply.field("connection"), Some("close"));
    assert_eq!(finish(&mut kept, LIMIT).end, End::Fin, "an idle keep-alive connection is closed, not reset");
    let (status, _) = doorbell.process.wait();
    assert_eq!(status.code(), Some(0), "{}", doorbell.process.log());
}

fn sigterm_stops_immediately_when_idle(engine: &str) {
    let mut doorbell = Doorbell::start(engine);
    exchange(doorbell.addr, b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
    doorbell.process.signal(Signal::TERM);
    let (status, took) = doorbell.process.wait();
    assert_eq!(status.code(), Some(0), "{}", doorbell.process.log());
    at_most(format_args!("{engine}: time from the signal to the exit"), took, Duration::from_secs(1));
}

fn sigint_and_sigquit_stop(engine: &str) {
    for signal in [Signal::INT, Signal::QUIT] {
        let mut doorbell = Doorbell::start(engine);
        let mut begun = TcpStream::connect(doorbell.addr).unwrap();
        begun.write_all(HALF).unwrap();
        doorbell.process.signal(signal);
        let (status, took) = doorbell.process.wait();
        assert_eq!(status.code(), Some(0), "{}", doorbell.process.log());
        at_most(format_args!("{engine}: time from the signal to the exit"), took, Duration::from_secs(1));
    }
}

fn a_second_sigterm_stops(engine: &str) {
    let mut doorbell = Doorbell::start(engine);
    let mut begun = TcpStream::connect(doorbell.addr).unwrap();
    begun.write_all(HALF).unwrap();
    // This reply shows that the incomplete request has been accepted. In the backlog it would not
    // delay the drain.
    exchange(doorbell.addr, b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    doorbell.process.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    assert!(
        !doorbell.process.has_ended(),
        "the first SIGTERM waits for the request: {}",
        doorbell.process.log()
    );
    doorbell.process.signal(Signal::TERM);
    let (status, took) = doorbell.process.wait();
    assert_eq!(status.code(), Some(0), "{}", doorbell.process.log());
    at_most(format_args!("{engine}: time from the signal to the exit"), took, Duration::from_secs(1));
}

fn the_port_is_free_after_the_end(engine: &str) {
    let mut doorbell = Doorbell::start(engine);
    for round in 0..5 {
        exchange(doorbell.addr, b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
        let config = CONFIG.replace("127.0.0.1:0", &doorbell.addr.to_string());
        doorbell.process.signal(if round % 2 == 0 { Signal::TERM } else { Signal::INT });
        doorbell.process.wait();
        doorbell = Doorbell::start_with(engine, &config);
    }
}
