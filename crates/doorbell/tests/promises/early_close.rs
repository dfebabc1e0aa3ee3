//! Promise: a reply that is sent before the whole request was read arrives without a reset.

#![expect(clippy::disallowed_methods, reason = "a client that sends in pieces needs real time")]
#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "measurements and skips are printed, and test helpers may panic"
)]

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use doorbell::{Engine, HttpLimits};
use doorbell_testkit::peers::{End, Exchange, Reply, exchange, finish, misbehave};

use crate::promise::{addr, on_both_engines, serve_with};

on_both_engines! {
    floods_of_headers_read_the_full_431
    floods_in_pieces_read_the_full_431
    an_oversized_body_reads_the_full_413
    a_client_that_half_closes_reads_its_reply
    a_request_may_arrive_byte_by_byte
}

const FLOODS: usize = 300;

fn limits() -> HttpLimits {
    HttpLimits { head_bytes_max: 2048, request_line_bytes_max: 1024, ..HttpLimits::default() }
}

/// Whether the client got the whole reply and a FIN, as the promise requires.
fn is_whole(got: &Exchange, status: u16) -> bool {
    let reply = Reply::parse(&got.bytes, false);
    got.end == End::Fin && reply.is_some_and(|reply| reply.status == status && reply.len == got.bytes.len())
}

fn floods_of_headers_read_the_full_431(engine: Engine) {
    let server = serve_with(engine, limits()).start().unwrap();
    let flood = misbehave::header_flood("/livez", 8 * 1024);
    let got: Vec<Exchange> = (0..FLOODS).map(|_| exchange(addr(&server), &flood).unwrap()).collect();
    let whole = got.iter().filter(|got| is_whole(got, 431)).count();
    eprintln!("{engine:?}: {whole} of {FLOODS} clients read the full 431");
    assert_eq!(
        whole,
        FLOODS,
        "{:?}",
        got.iter().find(|got| !is_whole(got, 431)).map(|got| (got.end, got.bytes.len()))
    );
    server.stop().unwrap();
}

/// Clients whose flood continues during and after the reply read the full 431.
fn floods_in_pieces_read_the_full_431(engine: Engine) {
    let server = serve_with(engine, limits()).start().unwrap();
    let flood = misbehave::header_flood("/livez", 8 * 1024);
    for round in 0..60 {
        let mut stream = TcpStream::connect(addr(&server)).unwrap();
        stream.set_nodelay(true).unwrap();
        for piece in flood.chunks(1024) {
            // Writing may fail because the server has closed; the client still reads the reply.
            let _ = stream.write_all(piece);
            thread::sleep(Duration::from_micros(200 * (round % 5)));
        }
        let got = finish(&mut stream, Duration::from_secs(5));
        assert!(is_whole(&got, 431), "round {round}: {got:?}");
    }
    server.stop().unwrap();
}

fn an_oversized_body_reads_the_full_413(engine: Engine) {
    let server = serve_with(engine, limits()).start().unwrap();
    let mut request = b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n".to_vec();
    request.resize(request.len() + 32 * 1024, b'x');
    for round in 0..100 {
        let got = exchange(addr(&server), &request).unwrap();
        assert!(is_whole(&got, 413), "round {round}: {got:?}");
    }
    server.stop().unwrap();
}

fn a_client_that_half_closes_reads_its_reply(engine: Engine) {
    let server = serve_with(engine, limits()).start().unwrap();
    for request in [&b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"GET /livez HTTP/1.0\r\n\r\n"] {
        for round in 0..100 {
            let got = misbehave::half_close(addr(&server), request).unwrap();
            assert!(is_whole(&got, 200), "round {round}: {got:?}");
        }
    }
    server.stop().unwrap();
}

fn a_request_may_arrive_byte_by_byte(engine: Engine) {
    let server = serve_with(engine, limits()).start().unwrap();
    let table: [(&[u8], u16); 3] = [
        (b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200),
        (b"GET /livez HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET /livez HTTP/3.0\r\nHost: a\r\n\r\n", 505),
    ];
    for (request, status) in table {
        for round in 0..20 {
            let got = misbehave::byte_by_byte(addr(&server), request).unwrap();
            assert!(is_whole(&got, status), "round {round}: {got:?}");
        }
    }
    server.stop().unwrap();
}
