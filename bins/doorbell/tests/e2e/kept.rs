//! Limits of kept connections: maximum number of requests and maximum age. The last reply announces
//! the end.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{End, PATIENCE, Reply, connect_from, exchange, finish, misbehave};

use crate::https::{Https, ask};
use crate::pki::localhost;
use crate::support::{Doorbell, Scratch, on_both_engines};

on_both_engines! {
    requests_on_one_connection_are_limited
    a_connection_grows_so_old
    a_connection_grows_so_old_behind_tls
}

const REQUEST: &[u8] = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn serve(engine: &str, lines: &str) -> Doorbell {
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n{lines}\n[lifecycle]\ndrain_delay = \"0s\"\n\
             [route.hello]\npath = \"/hello\"\nreply = {{ body = \"hello\\n\" }}\n"
        ),
    )
}

fn closes(reply: &Reply) -> bool {
    assert_eq!((reply.status, reply.body.as_slice()), (200, &b"hello\n"[..]), "{}", reply.head);
    reply.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

fn requests_on_one_connection_are_limited(engine: &str) {
    let doorbell = serve(engine, "[listener.web]\nbind = \"127.0.0.1:0\"\nkeep_alive = { max_requests = 3 }");
    // Of five pipelined requests three get replies, and the third reply announces the end. The same
    // holds for sequential requests.
    let got = exchange(doorbell.addr, &REQUEST.repeat(5)).unwrap();
    let (replies, rest) = Reply::parse_all(&got.bytes);
    assert_eq!(replies.iter().map(closes).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!((got.end, rest), (End::Fin, 0));
    let mut stream = connect_from(Ipv4Addr::LOCALHOST, doorbell.addr).unwrap();
    for last in [false, false, true] {
        stream.write_all(REQUEST).unwrap();
        let bytes = misbehave::read_replies(&mut stream, 1, false).unwrap();
        assert_eq!(closes(&Reply::parse(&bytes, false).unwrap()), last);
    }
    let got = finish(&mut stream, PATIENCE);
    assert_eq!((got.end, got.bytes.len()), (End::Fin, 0));
    let totals = doorbell.totals();
    assert_eq!(
        (&totals["requests"], &totals["refused"]),
        (&6.into(), &"".into()),
        "no request was refused: {totals}"
    );
}

const AGE: Duration = Duration::from_secs(1);
/// Tolerance of an age: a worker reads its clock once per turn of its loop.
const BLUR: Duration = Duration::from_millis(20);

/// Sends requests until a reply announces the end, and returns their number. `start` is a time
/// before the connection was opened.
fn ask_until_last(start: Instant, mut ask: impl FnMut() -> Reply) -> usize {
    let (mut count, mut overdue) = (1, 0);
    let mut is_last = closes(&ask());
    let opened = Instant::now();
    while !is_last {
        thread::sleep(Duration::from_millis(25));
        // A worker reads its clock once per turn of its loop, so one request after the maximum age
        // may be handled with an earlier time.
        overdue += usize::from(opened.elapsed() >= AGE);
        is_last = closes(&ask());
        count += 1;
        assert!(is_last || overdue < 2, "no end announced after {count} replies");
    }
    assert!(start.elapsed() + BLUR >= AGE, "ended before its maximum age: {:?}", start.elapsed());
    count
}

fn a_connection_grows_so_old(engine: &str) {
    let doorbell = serve(engine, "[listener.web]\nbind = \"127.0.0.1:0\"\nkeep_alive = { max_age = \"1s\" }");
    let start = Instant::now();
    let mut stream = connect_from(Ipv4Addr::LOCALHOST, doorbell.addr).unwrap();
    let count = ask_until_last(start, || {
        stream.write_all(REQUEST).unwrap();
        Reply::parse(&misbehave::read_replies(&mut stream, 1, false).unwrap(), false).unwrap()
    });
    let got = finish(&mut stream, PATIENCE);
    assert_eq!((got.end, got.bytes.len()), (End::Fin, 0));
    assert!(count >= 2, "the connection must first be kept");
    assert_eq!(two(&doorbell), [false, false], "a new connection of the same client has its own age");
    let unlimited =
        serve(engine, "[listener.web]\nbind = \"127.0.0.1:0\"\nkeep_alive = { max_age = \"off\" }");
    assert_eq!(two(&unlimited), [false, false]);
}

/// Returns for each of two replies on a new connection whether it announces the end.
fn two(doorbell: &Doorbell) -> Vec<bool> {
    let mut stream = connect_from(Ipv4Addr::LOCALHOST, doorbell.addr).unwrap();
    stream.write_all(&REQUEST.repeat(2)).unwrap();
    let bytes = misbehave::read_replies(&mut stream, 2, false).unwrap();
    Reply::parse_all(&bytes).0.iter().map(closes).collect()
}

fn a_connection_grows_so_old_behind_tls(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let doorbell = serve(
        engine,
        &format!(
            "[tls.web]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"off\"\n\
             [listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\nkeep_alive = {{ max_age = \"1s\" }}"
        ),
    );
    let start = Instant::now();
    let mut stream = Https::new(doorbell.addr).connect().unwrap();
    let count = ask_until_last(start, || ask(&mut stream, "/hello").unwrap());
    assert!(count >= 2, "the connection must first be kept");
    // The connection must end with a close_notify.
    assert_eq!(std::io::Read::read(&mut stream, &mut [0; 16]).unwrap(), 0);
}
