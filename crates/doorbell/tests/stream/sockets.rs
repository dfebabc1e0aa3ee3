//! Stream protocols over real sockets, on both kernel drivers.
#![expect(clippy::disallowed_methods, reason = "slow readers need real time")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use doorbell::offload::Offload;
use doorbell::stream::{Context, PushError, Stream, StreamHandler, Wait};
use doorbell::{Engine, HandOver, HandedConn, Listen, Raw, RawNext, Server, Taker, WhenFull, Workers};
use doorbell_testkit::peers::wait_until;
use doorbell_testkit::sim::Rng;
use doorbell_testkit::skip;
use socket2::{Domain, SockRef, Socket, Type};

use super::events::{ByHand, jobs};
use super::handlers::{Lines, Log, PART};

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn engines() -> Vec<Engine> {
    if skip::io_uring() { vec![Engine::Epoll, Engine::IoUring] } else { vec![Engine::Epoll] }
}

fn serve(engine: Engine, stream: Stream<impl StreamHandler>) -> Server {
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    let workers = Workers::Count(NonZeroU16::new(2).unwrap());
    Server::builder().engine(engine).workers(workers).conns_max(256).listen(listen, stream).start().unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.tcp_addr(0).unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A client whose kernel buffers little, so that the server has to wait for it.
pub(crate) fn connect_with_small_buffer(server: &Server) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&server.tcp_addr(0).unwrap().into()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.into()
}

pub(crate) fn read(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn count(log: &Log, event: &str) -> usize {
    log.lock().unwrap().iter().filter(|known| known.starts_with(event)).count()
}

/// Sends random lines in random pieces, and checks every byte of the output.
fn exchange_lines(server: &Server, seed: u64, lines: usize) {
    let mut rng = Rng::new(seed);
    let (mut input, mut expected) = (String::new(), String::new());
    for number in 0..lines {
        let line = format!("={seed}-{number}-{}", "x".repeat(rng.index(60)));
        expected += &format!("{} {line}\n", line.len());
        input += &line;
        input.push('\n');
    }
    let stream = connect(server);
    let mut writer = stream.try_clone().unwrap();
    let sent = thread::spawn(move || {
        let mut rest = input.as_bytes();
        while !rest.is_empty() {
            let most = if rng.index(4) == 0 { 3 } else { 3000 };
            let (piece, after) = rest.split_at((1 + rng.index(most)).min(rest.len()));
            writer.write_all(piece).unwrap();
            rest = after;
        }
    });
    let mut stream = stream;
    let got = read(&mut stream, expected.len());
    sent.join().unwrap();
    assert!(got == expected.as_bytes(), "seed {seed}");
}

/// In the full tests, a million frames on each driver.
#[test]
fn pipelined_frames_are_answered_byte_by_byte_at_any_split() {
    let is_full = std::env::var("DOORBELL_FULL").is_ok_and(|value| value == "1");
    let (connections, lines) = if is_full { (20, 50_000) } else { (4, 5_000) };
    for engine in engines() {
        let server = serve(engine, Stream::new(Lines::new()));
        thread::scope(|scope| {
            for seed in 0..connections {
                let server = &server;
                scope.spawn(move || exchange_lines(server, seed, lines));
            }
        });
        wait_until(PATIENCE, || server.stats().requests == connections * lines as u64).unwrap();
        server.stop().unwrap();
    }
}

#[test]
fn other_threads_push_to_many_connections() {
    const CONNS: usize = 20;
    const MESSAGES: usize = 200;
    for engine in engines() {
        let lines = Lines::greeting();
        let (last, log) = (Arc::clone(&lines.last), Arc::clone(&lines.log));
        let stream = Stream::new(lines).messages_max(1024);
        let counters = stream.message_counters();
        let server = serve(engine, stream);
        let mut conns: Vec<_> = (0..CONNS)
            .map(|_| {
                let mut stream = connect(&server);
                assert_eq!(read(&mut stream, 6), b"hello\n");
                (stream, last.lock().unwrap().clone().unwrap())
            })
            .collect();
        thread::scope(|scope| {
            for (index, (_, handle)) in conns.iter().enumerate() {
                scope.spawn(move || {
                    (0..MESSAGES).for_each(|number| handle.push(format!("{index}-{number:03}")).unwrap());
                });
            }
        });
        for (index, (stream, _)) in conns.iter_mut().enumerate() {
            let expected: String = (0..MESSAGES).map(|number| format!("<{index}-{number:03}>\n")).collect();
            assert_eq!(String::from_utf8(read(stream, expected.len())).unwrap(), expected, "{engine:?}");
            stream.write_all(b"a\n").unwrap();
            assert_eq!(read(stream, 4), b"1 a\n");
        }
        assert_eq!((counters.pushed(), counters.dropped()), ((CONNS * MESSAGES) as u64, 0));
        let handle = conns[0].1.clone();
        conns.clear();
        wait_until(PATIENCE, || count(&log, "closed") == CONNS).unwrap();
        assert!(matches!(handle.push("late".to_owned()), Err(PushError::Gone(_))));
        server.stop().unwrap();
    }
}

#[test]
fn a_slow_reader_gets_everything_and_its_messages_are_limited() {
    const PARTS: usize = 2_000;
    for engine in engines() {
        let lines = Lines::greeting();
        let last = Arc::clone(&lines.last);
        let server = serve(engine, Stream::new(lines).messages_max(8));
        let mut stream = connect(&server);
        assert_eq!(read(&mut stream, 6), b"hello\n");
        let handle = last.lock().unwrap().clone().unwrap();
        stream.write_all(format!("large {PARTS}\nafter\n").as_bytes()).unwrap();
        assert_eq!(read(&mut stream, 1).len(), 1, "the reply has begun");
        // The reply is longer than the buffers of the kernel, so messages wait.
        let full = wait_until(PATIENCE, || matches!(handle.push("m".to_owned()), Err(PushError::Full(_))));
        assert!(full.is_some(), "{engine:?}");
        let rest = read(&mut stream, PARTS * PART - 1);
        assert_eq!(rest.iter().filter(|byte| !byte.is_ascii_lowercase()).count(), 0, "messages wait");
        let mut tail = Vec::new();
        while !tail.ends_with(b"5 after\n") {
            tail.extend(read(&mut stream, 1));
        }
        stream.write_all(b"b\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"1 b\n") {
            answer.extend(read(&mut stream, 1));
        }
        assert!(handle.push("again".to_owned()).is_ok());
        server.stop().unwrap();
    }
}

#[test]
fn the_time_of_a_wait_begins_when_the_output_is_sent() {
    const SECOND: Duration = Duration::from_secs(1);
    for engine in engines() {
        let listen = Listen::tcp(([127, 0, 0, 1], 0).into()).send_buf_len(Some(4096));
        let stream = Stream::new(Lines::new()).idle_timeout(SECOND).frame_timeout(SECOND);
        let server = Server::builder().engine(engine).conns_max(256).listen(listen, stream).start().unwrap();
        for (sent, then) in [("repeat 50000\n", "a\n"), ("repeat 50000\na", "\n")] {
            let mut stream = connect_with_small_buffer(&server);
            stream.write_all(sent.as_bytes()).unwrap();
            thread::sleep(SECOND * 3 / 2);
            read(&mut stream, 50_000);
            thread::sleep(SECOND / 5);
            stream.write_all(then.as_bytes()).unwrap();
            assert_eq!(read(&mut stream, 4), b"1 a\n", "{engine:?} {sent:?}");
        }
        server.stop().unwrap();
    }
}

#[test]
fn messages_do_not_enlarge_the_share_of_a_busy_connection() {
    for engine in engines() {
        let lines = Lines::new();
        let last = Arc::clone(&lines.last);
        let server = serve(engine, Stream::new(lines).messages_max(1000));
        let mut stream = connect(&server);
        stream.write_all(b"drip 1000000000\n").unwrap();
        assert_eq!(read(&mut stream, 1).len(), 1);
        let handle = last.lock().unwrap().clone().unwrap();
        thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        for _ in 0..200 {
            handle.push("m".to_owned()).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        let before = server.stats();
        thread::sleep(Duration::from_millis(200));
        let after = server.stats();
        let (sent, turns) = (after.bytes_out - before.bytes_out, after.turns - before.turns);
        assert!(sent <= 16 * turns + 16, "{engine:?}: {sent} parts in {turns} turns");
        server.stop().unwrap();
    }
}

/// Without a reset, the truncated reply would look complete.
#[test]
fn a_stop_cuts_a_reply_in_parts_visibly() {
    for engine in engines() {
        for _ in 0..5 {
            let server = serve(engine, Stream::new(Lines::new()));
            let mut stream = connect(&server);
            stream.write_all(b"drip 1000000000\n").unwrap();
            read(&mut stream, 1000);
            let mut reader = stream.try_clone().unwrap();
            let got = thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
            server.stop().unwrap();
            let error = got.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{engine:?}");
        }
    }
}

/// Without a reset, the truncated reply would look complete.
#[test]
fn a_panic_between_the_parts_of_a_reply_cuts_it_visibly() {
    for engine in engines() {
        let server = serve(engine, Stream::new(Lines::new()));
        for parts in 1..4 {
            let mut stream = connect(&server);
            stream.write_all(format!("drippanic {parts}\n").as_bytes()).unwrap();
            let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{engine:?}: after {parts} parts");
        }
        assert_eq!(server.stats().handler_panics, 3, "{engine:?}");
        server.stop().unwrap();
    }
}

#[cfg(feature = "rayon")]
#[test]
fn results_of_jobs_keep_the_order_of_frames() {
    use doorbell::offload::Offload;

    let jobs = Offload::builder().threads(NonZeroU16::new(2).unwrap()).build().unwrap();
    for engine in engines() {
        let server = serve(engine, Stream::new(Lines::with_jobs(jobs.clone())));
        let mut stream = connect(&server);
        let (mut input, mut expected) = (String::new(), String::new());
        for number in 0..200 {
            input += &format!("job {number}\n{number}\n");
            expected += &format!("<job {number}>\n{} {number}\n", number.to_string().len());
        }
        stream.write_all(input.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        expected += "bye 0\n";
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        assert_eq!(got, expected, "{engine:?}");
        server.stop().unwrap();
    }
}

#[cfg(feature = "rayon")]
#[test]
fn frames_behind_a_proxy_header_wait_for_the_greeting() {
    use doorbell::http::forwarded::Networks;
    use doorbell::{ProxyProtocol, offload::Offload};

    let jobs = Offload::builder().threads(NonZeroU16::MIN).build().unwrap();
    let proxy = ProxyProtocol::accept(Networks::parse(["127.0.0.0/8"]).unwrap());
    for engine in engines() {
        let listen = Listen::tcp(([127, 0, 0, 1], 0).into()).proxy_protocol(proxy.clone());
        let lines = Lines { jobs: Some(jobs.clone()), ..Lines::greeting() };
        let builder = Server::builder().engine(engine).conns_max(256);
        let server = builder.listen(listen, Stream::new(lines)).start().unwrap();
        let mut stream = connect(&server);
        stream.write_all(b"PROXY TCP4 203.0.113.7 192.0.2.1 51000 80\r\na\n").unwrap();
        assert_eq!(read(&mut stream, 20), b"hello\n<greeted>\n1 a\n", "{engine:?}");
        server.stop().unwrap();
    }
}

#[test]
fn the_fin_of_a_client_that_only_listens_is_handled() {
    for engine in engines() {
        let lines = Lines::greeting();
        let log = Arc::clone(&lines.log);
        let server = serve(engine, Stream::new(lines));
        let mut stream = connect(&server);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        assert_eq!(got, "hello\nbye 0\n", "{engine:?}");
        wait_until(PATIENCE, || count(&log, "closed empty") == 1).unwrap();
        server.stop().unwrap();
    }
}

#[test]
fn frames_and_a_fin_behind_a_late_job_are_handled() {
    for engine in engines() {
        let jobs = jobs().timeout(Duration::from_millis(100));
        let server = serve(engine, Stream::new(Lines::with_jobs(jobs)));
        let mut stream = connect(&server);
        stream.write_all(b"job 1\na\njob 2\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        assert_eq!(got, "late\n1 a\nlate\nbye 0\n", "{engine:?}");
        server.stop().unwrap();
    }
}

#[test]
fn a_fin_during_the_job_of_a_message_is_the_reason_of_the_close() {
    for engine in engines() {
        let (sender, pumps) = sync_channel(1);
        let lines = Lines::with_jobs(Offload::builder().build_on(ByHand(sender)));
        let (last, log) = (Arc::clone(&lines.last), Arc::clone(&lines.log));
        let server = serve(engine, Stream::new(lines));
        let mut stream = connect(&server);
        stream.write_all(b"a\n").unwrap();
        assert_eq!(read(&mut stream, 4), b"1 a\n");
        let handle = last.lock().unwrap().clone().unwrap();
        handle.push("run".to_owned()).unwrap();
        let pump = pumps.recv_timeout(PATIENCE).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // The server sees the FIN before the result.
        thread::sleep(Duration::from_millis(50));
        pump.run();
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        assert_eq!(got, "<ran>\nbye 0\n", "{engine:?}");
        wait_until(PATIENCE, || count(&log, "closed client_fin") == 1).unwrap();
        server.stop().unwrap();
    }
}

#[test]
fn a_panic_ends_its_connection_only() {
    for engine in engines() {
        let lines = Lines::new();
        let log = Arc::clone(&lines.log);
        let server = serve(engine, Stream::new(lines));
        let (mut first, mut second) = (connect(&server), connect(&server));
        first.write_all(b"a\n").unwrap();
        assert_eq!(read(&mut first, 4), b"1 a\n");
        second.write_all(b"b\npanic\n").unwrap();
        let mut got = Vec::new();
        second.read_to_end(&mut got).unwrap();
        assert!(got.is_empty(), "the output of the event is dropped: {got:?}");
        first.write_all(b"c\n").unwrap();
        assert_eq!(read(&mut first, 4), b"1 c\n");
        wait_until(PATIENCE, || server.stats().handler_panics == 1).unwrap();
        wait_until(PATIENCE, || count(&log, "closed handler_panic") == 1).unwrap();
        server.stop().unwrap();
        assert_eq!((count(&log, "open"), count(&log, "closed")), (2, 2));
    }
}

#[test]
fn a_hand_over_without_a_receiver_closes() {
    for engine in engines() {
        let lines = Lines::new();
        let log = Arc::clone(&lines.log);
        let server = serve(engine, Stream::new(lines));
        let mut stream = connect(&server);
        stream.write_all(b"a\n").unwrap();
        assert_eq!(read(&mut stream, 4), b"1 a\n");
        stream.write_all(b"handover\n").unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got.is_empty());
        wait_until(PATIENCE, || count(&log, "closed not_taken") == 1).unwrap();
        server.stop().unwrap();
    }
}

/// Reports the peer and the listener of each connection, and hands over after `take`.
struct Who;

impl StreamHandler for Who {
    type Conn = ();
    type Message = ();

    fn open(&self, _cx: &mut Context<'_, Self>) {}

    fn data(&self, _conn: &mut (), input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        if input.starts_with(b"take") {
            cx.write(b"taken ");
            cx.hand_over();
            return 0;
        }
        let client = *cx.client();
        cx.write_fmt(format_args!("{:?} {:?}\n", client.addr().zip(client.port()), client.listener()));
        input.len()
    }

    fn wants_client(&self) -> bool {
        true
    }
}

#[test]
fn a_handler_knows_the_peer_and_the_listener() {
    for engine in engines() {
        let server = serve(engine, Stream::new(Who));
        let mut stream = connect(&server);
        stream.write_all(b"a").unwrap();
        let own = stream.local_addr().unwrap();
        let expected = format!("{:?} Some(0)\n", Some((own.ip(), own.port())));
        assert_eq!(String::from_utf8(read(&mut stream, expected.len())).unwrap(), expected, "{engine:?}");
        server.stop().unwrap();
    }
}

/// Sends the connections that it gets to a test.
struct Desk(SyncSender<HandedConn>);

impl Taker for Desk {
    fn take(&self, conns: &mut Vec<HandedConn>) {
        conns.drain(..).for_each(|conn| self.0.send(conn).unwrap());
    }
}

/// Connections that wait for a receiver hold their listener, but not after their clients have left.
#[test]
fn clients_that_have_left_hold_no_listener() {
    for engine in engines() {
        let (sender, receiver) = sync_channel(4);
        let when_full = WhenFull::Wait { conns: 2, timeout: PATIENCE * 3 };
        let hand_over = HandOver::new(Desk(sender)).conns_max(1).when_full(when_full);
        let pong = |_received: &[u8], reply: &mut Vec<u8>| {
            reply.extend_from_slice(b"pong");
            RawNext::Close
        };
        let raw = Raw::new(pong).silence(Duration::from_millis(100)).timeout(PATIENCE).hand_over_silent(true);
        let listen = Listen::tcp(([127, 0, 0, 1], 0).into()).defer_accept(None);
        let builder = Server::builder().engine(engine).workers(Workers::Count(NonZeroU16::MIN));
        let server = builder.conns_max(256).hand_over(hand_over).listen(listen, raw).start().unwrap();
        let _first = connect(&server);
        let _handed = receiver.recv_timeout(PATIENCE).unwrap();
        // It waits in front of the others.
        let _stays = connect(&server);
        wait_until(PATIENCE, || server.stats().hand_over_waits == 1).unwrap();
        let leave = [(); 3].map(|()| connect(&server));
        wait_until(PATIENCE, || server.stats().hand_over_waits == 4).unwrap();
        wait_until(PATIENCE, || server.stats().hand_over_pauses == 1).unwrap();
        for stream in leave {
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        wait_until(PATIENCE, || server.stats().conns_live == 1).unwrap();
        let mut probe = connect(&server);
        probe.write_all(b"ping").unwrap();
        assert_eq!(read(&mut probe, 4), b"pong", "{engine:?}");
        server.stop().unwrap();
    }
}

#[test]
fn a_hand_over_follows_the_output_and_takes_the_rest_of_the_input() {
    for engine in engines() {
        let (sender, receiver) = sync_channel(4);
        let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
        let builder = Server::builder().engine(engine).conns_max(256).hand_over(HandOver::new(Desk(sender)));
        let server = builder.listen(listen, Stream::new(Who)).start().unwrap();
        let mut stream = connect(&server);
        stream.write_all(b"take this").unwrap();
        assert_eq!(read(&mut stream, 6), b"taken ", "{engine:?}");
        let handed = receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(handed.bytes, b"take this");
        let mut owner = TcpStream::from(handed.fd);
        owner.set_nonblocking(false).unwrap();
        owner.write_all(b"over").unwrap();
        assert_eq!(read(&mut stream, 4), b"over");
        drop(handed.permit);
        server.stop().unwrap();
    }
}

/// Sets a deadline that has passed, again and again.
struct Late;

impl StreamHandler for Late {
    type Conn = ();
    type Message = ();

    fn open(&self, _cx: &mut Context<'_, Self>) {}

    fn data(&self, _conn: &mut (), input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        cx.set_deadline(cx.opened());
        cx.write(input);
        input.len()
    }

    fn timeout(&self, _conn: &mut (), _wait: Wait, cx: &mut Context<'_, Self>) {
        cx.set_deadline(cx.opened());
    }
}

#[test]
fn a_handler_without_a_future_deadline_does_not_stop_its_worker() {
    for engine in engines() {
        let server = serve(engine, Stream::new(Late));
        let mut streams = [(); 4].map(|()| connect(&server));
        for _ in 0..3 {
            for stream in &mut streams {
                stream.write_all(b"x").unwrap();
                assert_eq!(read(stream, 1), b"x", "{engine:?}");
            }
            // Longer than two ticks of the timers.
            thread::sleep(Duration::from_millis(150));
        }
        drop(streams);
        server.stop().unwrap();
    }
}
