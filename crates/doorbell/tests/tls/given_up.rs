//! Tests of deadlines: which connections close at once, which linger so that a request in transit
//! causes no reset, and the close reason of each.
//!
//! The linger timeout is an hour, so that a lingering connection stays open.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use doorbell::tls::{Acceptor, TlsLimits};
use doorbell::{CloseReason, Engine, Http1, HttpLimits, Server};

use crate::memory::{answer, config};
use crate::promise::{addr, anywhere, builder, on_both_engines};

on_both_engines! {
    an_unfinished_handshake_holds_no_slot_while_its_client_stays
    an_idle_client_lingers_and_sees_no_reset
}

const SOON: Duration = Duration::from_millis(200);
const WAIT: Duration = Duration::from_secs(20);

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(addr(server)).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT;
    while !holds() {
        assert!(Instant::now() < until, "the condition did not become true within {WAIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn an_unfinished_handshake_holds_no_slot_while_its_client_stays(engine: Engine) {
    let limits = TlsLimits { handshake_timeout: SOON, ..TlsLimits::default() };
    let acceptor = Acceptor::with_limits(&config(), limits, None).unwrap();
    let http = Http1::new(doorbell::service_fn(answer)).tls(acceptor);
    let server =
        builder(engine).linger_timeout(Duration::from_secs(3_600)).listen(anywhere(), http).start().unwrap();
    let mut client = connect(&server);
    client.write_all(&[22, 3, 1, 1, 0, 1]).unwrap();
    // The connection may end with a FIN or a reset, because a busy worker may not have read these
    // bytes.
    let _end = client.read(&mut [0; 1]);
    eventually(|| server.stats().closed_because(CloseReason::HandshakeTimeout) == 1);
    // Reasons are counted at once, live connections at the end of the turn.
    eventually(|| server.stats().conns_live == 0);
    server.stop().unwrap();
}

fn an_idle_client_lingers_and_sees_no_reset(engine: Engine) {
    let limits = HttpLimits { idle_timeout: SOON, ..HttpLimits::default() };
    let http = Http1::new(doorbell::service_fn(answer)).limits(limits);
    let server =
        builder(engine).linger_timeout(Duration::from_secs(3_600)).listen(anywhere(), http).start().unwrap();
    let mut client = connect(&server);
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut reply = String::new();
    client.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    // A request that crossed the close is read and discarded.
    for _ in 0..2 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "no reset");
    assert_eq!(server.stats().conns_live, 1);
    drop(client);
    eventually(|| server.stats().closed_because(CloseReason::IdleTimeout) == 1);
    server.stop().unwrap();
}
