//! Drains of stream connections over real sockets, on both kernel drivers: connections with output
//! in flight, and connections whose client only receives.
//!
//! Does not know about: connections between frames, whose drains `events` tests without sockets.
#![expect(clippy::disallowed_methods, reason = "slow readers need real time")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use doorbell::offload::{Offload, Pump};
use doorbell::stream::{ConnHandle, Context, Stream, StreamHandler};
use doorbell::{Engine, Limits, Listen, Server, ServerBuilder};

use super::events::ByHand;
use super::handlers::{KeepsWriting, Lines};
use super::sockets::{connect_with_small_buffer, engines, read};

/// Longer than a client waits.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for the server to handle earlier events.
const PAUSE: Duration = Duration::from_millis(250);

fn builder(engine: Engine, lines: Lines) -> ServerBuilder {
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into()).send_buf_len(Some(4096));
    let stream = Stream::new(lines).first_timeout(Duration::from_secs(60));
    Server::builder().engine(engine).conns_max(256).drain_timeout(DRAIN_TIMEOUT).listen(listen, stream)
}

/// The output until the end.
fn rest(stream: &mut TcpStream) -> String {
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    rest
}

#[test]
fn a_connection_whose_output_was_in_flight_ends_when_it_is_sent() {
    for engine in engines() {
        let server = builder(engine, Lines::new()).start().unwrap();
        let mut stream = connect_with_small_buffer(&server);
        stream.write_all(b"repeat 50000\n").unwrap();
        thread::sleep(PAUSE);
        server.handle().drain();
        thread::sleep(PAUSE);
        read(&mut stream, 50_000);
        assert_eq!(rest(&mut stream), "draining\n", "{engine:?}");
        drop(stream);
        server.wait().unwrap();
    }
}

/// A server with a client that was greeted, and the client's handle.
fn greeted(engine: Engine) -> (Server, TcpStream, ConnHandle<String>) {
    let lines = Lines::greeting();
    let last = Arc::clone(&lines.last);
    let server = builder(engine, lines).write_timeout(PAUSE * 2).start().unwrap();
    let mut stream = connect_with_small_buffer(&server);
    assert_eq!(read(&mut stream, 6), b"hello\n");
    let handle = last.lock().unwrap().clone().unwrap();
    (server, stream, handle)
}

#[test]
fn a_client_that_only_listens_gets_the_last_output() {
    for engine in engines() {
        for (before, during) in [(false, false), (false, true), (true, false)] {
            let (server, mut stream, handle) = greeted(engine);
            if before {
                handle.push("m".to_owned()).unwrap();
                assert_eq!(read(&mut stream, 4), b"<m>\n");
            }
            server.handle().drain();
            if during {
                thread::sleep(PAUSE);
                handle.push("m".to_owned()).unwrap();
            }
            let expected = if during { "<m>\ndraining\n" } else { "draining\n" };
            assert_eq!(rest(&mut stream), expected, "{engine:?} {before}");
            drop(stream);
            server.wait().unwrap();
        }
    }
}

/// The socket stays readable after the end of the stream, but no input follows.
#[test]
fn a_client_that_has_finished_sending_gets_the_last_output() {
    for engine in engines() {
        let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
        let server = Server::builder()
            .engine(engine)
            .drain_timeout(PAUSE * 8)
            .listen(listen, Stream::new(KeepsWriting(true)));
        let server = server.start().unwrap();
        let mut stream = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
        stream.write_all(b"?").unwrap();
        assert_eq!(read(&mut stream, 5), b"data\n");
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read(&mut stream, 4), b"end\n");
        server.handle().drain();
        assert_eq!(rest(&mut stream), "draining\n", "{engine:?}");
        server.wait().unwrap();
    }
}

/// An end without a reset would make the message look complete.
#[test]
fn a_client_that_only_listens_and_does_not_read_is_cut_visibly() {
    for engine in engines() {
        let (server, mut stream, handle) = greeted(engine);
        handle.push("x".repeat(1_000_000)).unwrap();
        thread::sleep(PAUSE);
        server.handle().drain();
        server.wait().unwrap();
        assert!(stream.read_to_end(&mut Vec::new()).is_err(), "{engine:?}");
    }
}

/// Greets each client with the result of a job.
struct GreetsLate(Offload);

impl StreamHandler for GreetsLate {
    type Conn = ();
    type Message = String;

    fn open(&self, cx: &mut Context<'_, Self>) {
        cx.run(&self.0, |_| "late".to_owned()).unwrap();
    }

    fn data(&self, _conn: &mut (), input: &[u8], _cx: &mut Context<'_, Self>) -> usize {
        input.len()
    }

    fn message(&self, _conn: &mut (), message: String, cx: &mut Context<'_, Self>) {
        cx.write(message.as_bytes());
    }

    fn drain(&self, _conn: &mut (), cx: &mut Context<'_, Self>) {
        cx.write(b", draining");
    }

    fn speaks_first(&self) -> bool {
        true
    }
}

#[test]
fn a_client_gets_the_greeting_that_a_job_computes_during_a_drain() {
    for engine in engines() {
        let (sender, pumps) = sync_channel(1);
        let handler = GreetsLate(Offload::builder().build_on(ByHand(sender)));
        let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
        let limits = Limits { linger_timeout: Duration::from_millis(10), ..Limits::default() };
        let server = Server::builder().engine(engine).limits(limits).drain_timeout(DRAIN_TIMEOUT);
        let server = server.listen(listen, Stream::new(handler)).start().unwrap();
        let mut stream = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
        let pump: Pump = pumps.recv().unwrap();
        server.handle().drain();
        thread::sleep(PAUSE);
        pump.run();
        assert_eq!(rest(&mut stream), "late, draining", "{engine:?}");
        server.wait().unwrap();
    }
}
