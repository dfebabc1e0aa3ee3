//! Timeouts and caps of a connection, without sockets.

use std::time::Duration;

use doorbell::CloseReason;
use doorbell::stream::{Context, Stream, StreamHandler, Wait};
use doorbell::testing::TestStream;

use super::events::jobs;
use super::handlers::Lines;

const FIRST: Duration = Duration::from_secs(2);
const FRAME: Duration = Duration::from_secs(3);
const IDLE: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

fn open() -> TestStream<Lines> {
    let stream = Stream::new(Lines::new()).first_timeout(FIRST).frame_timeout(FRAME).idle_timeout(IDLE);
    TestStream::open(stream.frame_bytes_max(100))
}

#[test]
fn each_wait_has_its_own_timeout_and_reason() {
    let table: [(&[&str], Duration, CloseReason); 4] = [
        (&[], FIRST, CloseReason::IdleTimeout),
        (&["a"], FRAME, CloseReason::HeaderTimeout),
        (&["a\n"], IDLE, CloseReason::IdleTimeout),
        (&["a\n", "b\nc"], FRAME, CloseReason::HeaderTimeout),
    ];
    for (sent, timeout, reason) in table {
        let mut conn = open();
        sent.iter().for_each(|bytes| drop(conn.send(bytes)));
        conn.wait(timeout - Duration::from_millis(1));
        assert!(conn.is_open(), "{sent:?}");
        conn.wait(Duration::from_millis(1));
        assert_eq!(conn.close_reason(), Some(reason), "{sent:?}");
    }
}

#[test]
fn single_bytes_do_not_extend_the_time_of_a_frame() {
    let mut conn = open();
    for byte in ["a", "b", "c"] {
        assert!(conn.is_open());
        conn.send(byte);
        conn.wait(SECOND);
    }
    assert_eq!(conn.close_reason(), Some(CloseReason::HeaderTimeout));
}

#[test]
fn a_frame_that_is_too_long_is_refused() {
    let mut conn = open();
    conn.send([b'a'; 99]);
    assert!(conn.is_open());
    conn.send("a");
    assert_eq!(conn.close_reason(), Some(CloseReason::Refused));
    // Many short frames do not count as one long frame.
    let mut conn = open();
    assert_eq!(conn.send("a\n".repeat(200)).len(), 200 * "1 a\n".len());
    assert!(conn.is_open());
}

#[test]
fn short_frames_behind_a_job_are_no_long_frame() {
    let mut conn = TestStream::open(Stream::new(Lines::with_jobs(jobs())).frame_bytes_max(100));
    let got = conn.send(format!("job 1\n{}", "a\n".repeat(100)));
    assert_eq!(String::from_utf8(got).unwrap(), format!("<job 1>\n{}", "1 a\n".repeat(100)));
    assert!(conn.is_open());
}

/// Replies to each byte with 10,000 bytes.
struct Amplifier;

impl StreamHandler for Amplifier {
    type Conn = ();
    type Message = ();

    fn open(&self, _cx: &mut Context<'_, Self>) {}

    fn data(&self, _conn: &mut (), input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        assert!(cx.out().len() < 50_000, "no frame is handled while so much is unsent");
        cx.write(&[input[0]; 10_000]);
        1
    }

    fn end(&self, _conn: &mut (), rest: &[u8], cx: &mut Context<'_, Self>) {
        assert!(rest.is_empty(), "the end comes after all frames");
        cx.write(b"end");
        cx.close();
    }
}

#[test]
fn pipelined_frames_wait_until_their_output_is_sent() {
    let stream = Stream::new(Amplifier).output_bytes_max(50_000).frame_bytes_max(10);
    let mut conn = TestStream::open(stream);
    assert_eq!(conn.send([b'a'; 1000]).len(), 10_000_000);
    assert_eq!(conn.finish(), b"end");
}

/// Sends a ping when nothing has arrived for a while, and closes if three pings get no reply.
struct Pinging;

impl StreamHandler for Pinging {
    type Conn = u32;
    type Message = ();

    fn open(&self, _cx: &mut Context<'_, Self>) -> u32 {
        0
    }

    fn data(&self, pings: &mut u32, input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        *pings = 0;
        cx.set_timeout(5 * SECOND);
        input.len()
    }

    fn timeout(&self, pings: &mut u32, wait: Wait, cx: &mut Context<'_, Self>) {
        *pings += 1;
        if *pings > 3 || wait == Wait::First {
            return cx.close();
        }
        cx.write(b"ping");
        cx.set_timeout(SECOND);
    }
}

/// Sets a deadline that has passed, and replies with the time since the connection was opened.
struct Late;

impl StreamHandler for Late {
    type Conn = ();
    type Message = ();

    fn open(&self, _cx: &mut Context<'_, Self>) {}

    fn data(&self, _conn: &mut (), input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        cx.set_deadline(cx.opened());
        input.len()
    }

    fn timeout(&self, _conn: &mut (), _wait: Wait, cx: &mut Context<'_, Self>) {
        let age = cx.now().since(cx.opened()).as_secs();
        cx.write_fmt(format_args!("{age}"));
    }
}

#[test]
fn a_deadline_in_the_past_expires_at_once_and_does_not_turn_time_back() {
    let mut conn = TestStream::open(Stream::new(Late));
    conn.wait(3 * SECOND);
    conn.send("a");
    assert_eq!(conn.wait(SECOND), b"3");
}

#[test]
fn a_deadline_of_a_handler_holds_while_its_output_is_sent() {
    let mut conn = TestStream::open(Stream::new(Pinging).output_bytes_max(1));
    conn.send("hello");
    conn.wait(5 * SECOND);
    assert_eq!(conn.wait(SECOND), b"ping");
    (0..2).for_each(|_| drop(conn.wait(SECOND)));
    assert!(!conn.is_open());
}

#[test]
fn a_handler_sets_its_own_deadlines() {
    let mut conn = TestStream::open(Stream::new(Pinging));
    conn.send("hello");
    assert_eq!(conn.wait(4 * SECOND), b"");
    let pings: Vec<_> = (0..3).map(|_| conn.wait(SECOND)).collect();
    assert_eq!(pings, [b"ping"; 3]);
    assert_eq!(conn.send("pong"), b"");
    assert_eq!(conn.wait(5 * SECOND), b"ping");
    assert!(conn.is_open());
    (0..3).for_each(|_| drop(conn.wait(SECOND)));
    assert_eq!(conn.close_reason(), Some(CloseReason::IdleTimeout));
}

#[test]
#[should_panic(expected = "a handler that panics")]
fn a_panic_reaches_the_test() {
    open().send("panic\n");
}
