//! Stream protocols behind TLS: pipelined frames, jobs, replies in parts and pushed messages, on
//! real sockets.
//!
//! Does not know about: the events of a connection (see `tests/stream`).
#![cfg(feature = "rayon")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use doorbell::offload::Offload;
use doorbell::stream::{PushError, Stream};
use doorbell::tls::Acceptor;
use doorbell::{CloseReason, Engine};
use doorbell_testkit::peers::wait_until;
use rustls::StreamOwned;

use crate::lines::{KeepsWriting, Lines, PART};
use crate::memory::{VERSIONS, client, client_config, config};
use crate::promise::{addr, anywhere, builder, on_both_engines};

on_both_engines! {
    frames_jobs_and_parts_keep_their_order
    messages_arrive_while_nothing_is_received
    input_and_a_message_arrive_while_output_is_sent
    a_hand_over_is_refused_after_the_output
    a_client_that_has_sent_close_notify_gets_the_last_output
    a_handshake_without_a_request_is_closed_by_a_drain
}

const PATIENCE: Duration = Duration::from_secs(20);

fn serve(engine: Engine, lines: Lines) -> doorbell::Server {
    let acceptor = Acceptor::new(&config()).unwrap();
    builder(engine).listen(anywhere(), Stream::new(lines).tls(acceptor)).start().unwrap()
}

fn connect(server: &doorbell::Server, version: usize) -> StreamOwned<rustls::ClientConnection, TcpStream> {
    let stream = TcpStream::connect(addr(server)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    StreamOwned::new(client(&Arc::new(client_config(VERSIONS[version], None))), stream)
}

fn read(session: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    session.read_exact(&mut bytes).unwrap();
    bytes
}

fn frames_jobs_and_parts_keep_their_order(engine: Engine) {
    let server = serve(engine, Lines::with_jobs(Offload::builder().build().unwrap()));
    for version in 0..VERSIONS.len() {
        let mut session = connect(&server, version);
        let asked = "a\njob 1\nb\nlarge 40\nc\njob 2\nclose\n";
        session.write_all(asked.as_bytes()).unwrap();
        assert_eq!(read(&mut session, 16), b"1 a\n<job 1>\n1 b\n");
        let large = read(&mut session, 40 * PART);
        assert!(large.iter().all(u8::is_ascii_lowercase));
        let mut rest = String::new();
        session.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "1 c\n<job 2>\n5 close\n", "{engine:?}, and a close_notify");
    }
    server.stop().unwrap();
}

fn messages_arrive_while_nothing_is_received(engine: Engine) {
    let lines = Lines::greeting();
    let (last, log) = (Arc::clone(&lines.last), Arc::clone(&lines.log));
    let server = serve(engine, lines);
    let mut session = connect(&server, 0);
    session.flush().unwrap();
    assert_eq!(read(&mut session, 6), b"hello\n");
    let handle = last.lock().unwrap().clone().unwrap();
    for number in 0..50 {
        handle.push(number.to_string()).unwrap();
        let expected = format!("<{number}>\n");
        assert_eq!(read(&mut session, expected.len()), expected.as_bytes());
    }
    session.write_all(b"a\n").unwrap();
    assert_eq!(read(&mut session, 4), b"1 a\n");
    handle.push("close".to_owned()).unwrap();
    let mut rest = String::new();
    session.read_to_string(&mut rest).unwrap();
    assert!(rest.is_empty());
    wait_until(PATIENCE, || log.lock().unwrap().last().is_some_and(|event| event == "closed done")).unwrap();
    assert!(matches!(handle.push("late".to_owned()), Err(PushError::Gone(_))));
    server.stop().unwrap();
}

fn a_hand_over_is_refused_after_the_output(engine: Engine) {
    let lines = Lines::new();
    let log = Arc::clone(&lines.log);
    let server = serve(engine, lines);
    let mut session = connect(&server, 0);
    session.write_all(b"a\nhandover\n").unwrap();
    let mut got = String::new();
    session.read_to_string(&mut got).unwrap();
    assert_eq!(got, "1 a\n");
    wait_until(PATIENCE, || log.lock().unwrap().last().is_some_and(|event| event == "closed not_taken"))
        .unwrap();
    server.stop().unwrap();
}

fn input_and_a_message_arrive_while_output_is_sent(engine: Engine) {
    const LARGE: usize = 8_000_000;
    let lines = Lines::greeting();
    let last = Arc::clone(&lines.last);
    let server = serve(engine, lines);
    for version in 0..VERSIONS.len() {
        let mut session = connect(&server, version);
        session.flush().unwrap();
        assert_eq!(read(&mut session, 6), b"hello\n");
        let handle = last.lock().unwrap().clone().unwrap();
        let before = server.stats();
        handle.push("x".repeat(LARGE)).unwrap();
        // The client reads nothing, so the buffers of the kernel fill.
        let (mut sent, mut same) = (before.bytes_out, 0);
        wait_until(PATIENCE, || {
            let now = server.stats().bytes_out;
            same = if now > before.bytes_out && now == sent { same + 1 } else { 0 };
            sent = now;
            same > 100
        })
        .unwrap();
        session.write_all(b"a\n").unwrap();
        wait_until(PATIENCE, || server.stats().bytes_in > before.bytes_in).unwrap();
        let before = server.stats();
        handle.push("m".to_owned()).unwrap();
        wait_until(PATIENCE, || server.stats().turns > before.turns).unwrap();
        assert_eq!(read(&mut session, LARGE + 3).len(), LARGE + 3);
        let mut rest = read(&mut session, 8);
        rest.sort_unstable();
        let mut expected = b"1 a\n<m>\n".to_vec();
        expected.sort_unstable();
        assert_eq!(rest, expected, "{engine:?}");
    }
    server.stop().unwrap();
}

/// After close_notify no input follows, although the socket may stay open.
fn a_client_that_has_sent_close_notify_gets_the_last_output(engine: Engine) {
    for (finishes, writes) in [(false, true), (true, true), (false, false), (true, false)] {
        let acceptor = Acceptor::new(&config()).unwrap();
        let stream = Stream::new(KeepsWriting(writes)).tls(acceptor);
        let server = builder(engine).listen(anywhere(), stream).start().unwrap();
        let mut session = connect(&server, 0);
        session.write_all(b"?").unwrap();
        assert_eq!(read(&mut session, 5), b"data\n");
        let before = server.stats().bytes_in;
        session.conn.send_close_notify();
        session.flush().unwrap();
        wait_until(PATIENCE, || server.stats().bytes_in > before).unwrap();
        if finishes {
            session.sock.shutdown(Shutdown::Write).unwrap();
        }
        server.handle().drain_within(PATIENCE * 3);
        let mut rest = String::new();
        session.read_to_string(&mut rest).unwrap();
        let expected = if writes { "end\ndraining\n" } else { "draining\n" };
        assert_eq!(rest, expected, "{engine:?} {finishes}, and a close_notify");
        server.wait().unwrap();
    }
}

fn a_handshake_without_a_request_is_closed_by_a_drain(engine: Engine) {
    let server = serve(engine, Lines::new());
    let mut session = connect(&server, 0);
    while session.conn.is_handshaking() {
        session.conn.complete_io(&mut session.sock).unwrap();
    }
    let handle = server.handle();
    handle.drain_within(PATIENCE * 3);
    session.read_to_end(&mut Vec::new()).unwrap();
    drop(session);
    server.wait().unwrap();
    assert_eq!(handle.stats().closed_because(CloseReason::Drain), 1, "{engine:?}");
}
