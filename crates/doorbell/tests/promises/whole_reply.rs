//! Promise: a reply of 1 B to 64 MiB arrives whole, or the error is visible, also to readers that
//! are slow or pause.

#![expect(clippy::disallowed_methods, reason = "slow readers need real time")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use doorbell::{Engine, HttpLimits};
use doorbell_testkit::peers::{End, Reply, Unique, finish, misbehave, read_paced};

use crate::promise::{addr, on_both_engines, serve, serve_with, sized};

on_both_engines! {
    every_size_to_fast_readers
    readers_at_64_kib_a_second
    a_reader_that_pauses
    a_reader_that_never_reads_is_cut_visibly
    a_reader_that_pauses_has_its_time_for_the_next_request
    a_reader_that_resets_harms_no_other
}

const MIB: usize = 1 << 20;
const PACE: u64 = 64 * 1024;

fn ask(server: SocketAddr, unique: Unique) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    let request = format!("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", unique.path());
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads the head byte by byte, so that only the body is left to read.
fn skip_head(stream: &mut TcpStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
}

fn every_size_to_fast_readers(engine: Engine) {
    let server = serve(engine).start().unwrap();
    let sizes = [
        1,
        2,
        100,
        4_095,
        4_096,
        16_383,
        16_384,
        16_385,
        65_535,
        65_536,
        65_537,
        262_144,
        MIB,
        8 * MIB,
        64 * MIB,
    ];
    for (id, len) in (1..).zip(sizes) {
        let unique = Unique { id, len };
        let got = finish(&mut ask(addr(&server), unique), Duration::from_secs(60));
        let reply = Reply::parse(&got.bytes, false)
            .unwrap_or_else(|| panic!("{len}: incomplete, {} bytes", got.bytes.len()));
        assert_eq!((reply.body.len(), unique.foreign(&reply.body, 0), got.end), (len, 0, End::Fin), "{len}");
        assert_eq!(reply.len, got.bytes.len(), "{len}: nothing after the reply");
    }
    server.stop().unwrap();
}

/// Concurrent readers at 64 KiB/s get whole replies of 1 B to 256 KiB (1 MiB in the full version).
/// A reader of a reply of 16 MiB (64 MiB in the full version) reads at that speed for several write
/// timeouts. Except in the full version, this reader then reads fast, because the remaining bytes
/// would take minutes.
fn readers_at_64_kib_a_second(engine: Engine) {
    let write_timeout = sized(Duration::from_secs(3), doorbell::Limits::default().write_timeout);
    let limits = doorbell::Limits { write_timeout, conns_max: 1_000, ..doorbell::Limits::default() };
    let server = serve(engine).limits(limits).start().unwrap();
    let server_addr = addr(&server);
    thread::scope(|scope| {
        for (id, len) in (1..).zip([1, 1_000, 65_536, sized(MIB / 4, MIB)]) {
            scope.spawn(move || {
                let unique = Unique { id, len };
                let mut stream = ask(server_addr, unique);
                skip_head(&mut stream);
                let paced = read_paced(&mut stream, PACE, Duration::from_secs(60), |piece, at| {
                    unique.foreign(piece, index(at))
                });
                let paced = paced.unwrap();
                assert_eq!((paced.len, paced.wrong, paced.end), (len as u64, 0, End::Fin), "{len}");
            });
        }
        scope.spawn(move || {
            let unique = Unique { id: 99, len: sized(16, 64) * MIB };
            let mut stream = ask(server_addr, unique);
            skip_head(&mut stream);
            let slowly = sized(4 * write_timeout, Duration::from_secs(1_200));
            let slow =
                read_paced(&mut stream, PACE, slowly, |piece, at| unique.foreign(piece, index(at))).unwrap();
            let offset = slow.len;
            let mut total = slow;
            if total.end == End::Silence {
                let rest = read_paced(&mut stream, 1 << 40, Duration::from_secs(60), |piece, at| {
                    unique.foreign(piece, index(offset + at))
                });
                let rest = rest.unwrap();
                total = doorbell_testkit::peers::Paced {
                    len: offset + rest.len,
                    wrong: total.wrong + rest.wrong,
                    ..rest
                };
            }
            assert_eq!(
                (total.len, total.wrong, total.end),
                (unique.len as u64, 0, End::Fin),
                "after {offset} bytes at 64 KiB/s"
            );
        });
    });
    server.stop().unwrap();
}

fn index(at: u64) -> usize {
    usize::try_from(at).expect("an offset in a reply")
}

/// A reader that repeatedly pauses for a second gets a whole reply of 64 MiB.
fn a_reader_that_pauses(engine: Engine) {
    let server = serve(engine).start().unwrap();
    let server_addr = addr(&server);
    thread::scope(|scope| {
        for id in 1..=2 {
            scope.spawn(move || {
                let unique = Unique { id, len: 64 * MIB };
                let mut stream = ask(server_addr, unique);
                skip_head(&mut stream);
                let (mut buf, mut offset, mut foreign) = (vec![0; 256 * 1024], 0, 0);
                loop {
                    let n = stream.read(&mut buf).unwrap();
                    if n == 0 {
                        break;
                    }
                    foreign += unique.foreign(&buf[..n], offset);
                    if offset / (16 * MIB) != (offset + n) / (16 * MIB) {
                        thread::sleep(Duration::from_secs(1));
                    }
                    offset += n;
                }
                assert_eq!((offset, foreign), (unique.len, 0));
            });
        }
    });
    server.stop().unwrap();
}

/// The idle timeout and the header timeout of the next request begin only when the reply is sent,
/// also if a part of the next request has already arrived.
fn a_reader_that_pauses_has_its_time_for_the_next_request(engine: Engine) {
    const SECOND: Duration = Duration::from_secs(1);
    let limits = HttpLimits { idle_timeout: SECOND, header_timeout: SECOND, ..HttpLimits::default() };
    let server = serve_with(engine, limits).start().unwrap();
    let unique = Unique { id: 1, len: 4 * MIB };
    let first = format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", unique.path());
    let second = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for at in [0, 10] {
        let mut stream = TcpStream::connect(addr(&server)).unwrap();
        stream.write_all((first.clone() + &second[..at]).as_bytes()).unwrap();
        thread::sleep(SECOND * 3 / 2);
        skip_head(&mut stream);
        stream.read_exact(&mut vec![0; unique.len]).unwrap();
        thread::sleep(SECOND / 5);
        stream.write_all(&second.as_bytes()[at..]).unwrap();
        let got = finish(&mut stream, Duration::from_secs(20));
        assert!(got.bytes.starts_with(b"HTTP/1.1 200 OK\r\n"), "{at}: {got:?}");
    }
    server.stop().unwrap();
}

/// Without progress the server closes the connection after the write timeout. The client must be
/// able to detect that: by a reset, or by a FIN before the declared length.
fn a_reader_that_never_reads_is_cut_visibly(engine: Engine) {
    let limits = doorbell::Limits {
        write_timeout: Duration::from_secs(1),
        conns_max: 1_000,
        ..doorbell::Limits::default()
    };
    let server = serve(engine).limits(limits).start().unwrap();
    let unique = Unique { id: 5, len: 16 * MIB };
    let mut stream = ask(addr(&server), unique);
    let freed =
        doorbell_testkit::peers::wait_until(Duration::from_secs(5), || server.stats().closed_total() == 1);
    assert!(freed.is_some_and(|took| took >= Duration::from_millis(900)), "{freed:?} {:?}", server.stats());
    assert_eq!(server.stats().closed_because(doorbell::CloseReason::WriteTimeout), 1);
    let got = finish(&mut stream, Duration::from_secs(5));
    assert!(
        got.end == End::Reset || Reply::parse(&got.bytes, false).is_none(),
        "a truncated reply that looks complete: {:?}",
        got.end
    );
    assert!(got.bytes.len() < unique.len);
    server.stop().unwrap();
}

fn a_reader_that_resets_harms_no_other(engine: Engine) {
    let server = serve(engine).start().unwrap();
    for id in 0..200 {
        let stream = ask(addr(&server), Unique { id, len: 4 * MIB });
        misbehave::reset(&stream).unwrap();
        drop(stream);
        let unique = Unique { id: 1_000 + id, len: 1_000 };
        let got = finish(&mut ask(addr(&server), unique), Duration::from_secs(5));
        let reply = Reply::parse(&got.bytes, false).unwrap();
        assert_eq!((unique.foreign(&reply.body, 0), got.end), (0, End::Fin));
    }
    let freed =
        doorbell_testkit::peers::wait_until(Duration::from_secs(5), || server.stats().conns_live == 0);
    assert!(freed.is_some(), "{:?}", server.stats());
    server.stop().unwrap();
}
