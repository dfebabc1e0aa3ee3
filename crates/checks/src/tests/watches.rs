//! Watches of `grpc.health.v1` against servers that end them, and against one that counts the
//! frames it receives.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A frame of HTTP/2 (RFC 9113 4.1) of the first stream, or of the connection.
pub(super) fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, len, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

/// A literal header field without indexing (RFC 7541 6.2.2).
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let len = |text: &str| u8::try_from(text.len()).unwrap();
    [&[0, len(name)], name.as_bytes(), &[len(value)], value.as_bytes()].concat()
}

/// The next frame: its type, flags and stream.
fn read_frame(stream: &mut std::net::TcpStream) -> std::io::Result<(u8, u8, u8)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    stream.read_exact(&mut vec![0; usize::from(head[1]) << 8 | usize::from(head[2])])?;
    Ok((head[3], head[4], head[8]))
}

/// Reads the preface and all frames up to and including the head of a request.
pub(super) fn await_request(stream: &mut std::net::TcpStream) {
    stream.read_exact(&mut [0; 24]).unwrap();
    while read_frame(stream).unwrap().0 != 1 {}
}

/// The response to a call: its head, and a message with `SERVING`.
fn serving(stream: u8) -> Vec<u8> {
    let fields = [vec![0x88], field("content-type", "application/grpc")].concat();
    [frame(1, 4, stream, &fields), frame(0, 0, stream, &[0, 0, 0, 0, 2, 8, 1])].concat()
}

pub(super) fn end(stream: u8) -> Vec<u8> {
    frame(1, 5, stream, &field("grpc-status", "0"))
}

/// A server that sends `SERVING` this many times and then ends the watch, but not the connection.
/// Also returns the number of calls.
fn ends_watches(messages: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let addr = server(move |stream| {
        await_request(stream);
        counted.fetch_add(1, Ordering::SeqCst);
        let more = frame(0, 0, 1, &[0, 0, 0, 0, 2, 8, 1]).repeat(messages - 1);
        let said = [frame(4, 0, 0, &[]), serving(1), more, end(1)];
        stream.write_all(&said.concat()).unwrap();
    });
    (addr, calls)
}

fn watched(addr: SocketAddr) -> GrpcCheck {
    GrpcCheck { mode: GrpcMode::Watch, ..GrpcCheck::new(address(addr)) }
}

#[test]
fn a_watch_that_ends_is_not_begun_again_at_once() {
    let fast = Duration::from_secs(1);
    for messages in [1, 2] {
        let (addr, calls) = ends_watches(messages);
        let pace = Pace { fast_interval: fast, ..pace(TIMEOUT) };
        let runner = runner_with(pace, watched(addr), &connector());
        let (queue, mut told) = RequestQueue::new(Arc::default());
        let is_changed = Arc::new(AtomicBool::new(false));
        runner.notify_changes(queue.change_notice(0, &is_changed));
        block_on(async {
            for round in 1..=3 {
                let from = Instant::now();
                // A change is reported for each further message and for the end of the watch.
                for _ in 0..messages {
                    let finding = runner.run().await;
                    assert_eq!(finding.outcome, Outcome::Success, "{}", finding.reason);
                    assert_eq!(calls.load(Ordering::SeqCst), round, "the last status is known");
                    assert_eq!(told.recv().await, Some(Request::Change(0)));
                    is_changed.store(false, Ordering::Release);
                }
                assert!(from.elapsed() >= fast, "{:?}", from.elapsed());
            }
        });
    }
}

/// Counts what a server with long-lived watches receives.
#[derive(Debug, Default)]
struct Sent {
    conns: AtomicUsize,
    pings: AtomicUsize,
    /// Calls after the first call of each connection, which is the watch.
    calls: AtomicUsize,
    /// Whether the server has stopped responding.
    is_silent: AtomicBool,
}

fn keeps_watches() -> (SocketAddr, Arc<Sent>) {
    let sent = Arc::new(Sent::default());
    let counted = Arc::clone(&sent);
    let addr = server(move |stream| {
        let (mut stream, sent) = (stream.try_clone().unwrap(), Arc::clone(&counted));
        sent.conns.fetch_add(1, Ordering::SeqCst);
        std::thread::spawn(move || {
            stream.read_exact(&mut [0; 24]).unwrap();
            stream.write_all(&frame(4, 0, 0, &[])).unwrap();
            while let Ok((kind, flags, id)) = read_frame(&mut stream) {
                let answer = match (kind, id) {
                    (1, 1) => serving(1),
                    (1, id) => {
                        sent.calls.fetch_add(1, Ordering::SeqCst);
                        [serving(id), end(id)].concat()
                    }
                    (6, _) if flags == 0 => {
                        sent.pings.fetch_add(1, Ordering::SeqCst);
                        frame(6, 1, 0, &[0; 8])
                    }
                    _ => continue,
                };
                if !sent.is_silent.load(Ordering::SeqCst) && stream.write_all(&answer).is_err() {
                    return;
                }
            }
        });
    });
    (addr, sent)
}

/// A server that serves one watch and closes its connection when another call arrives.
fn closes_on_another_call() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // No other server responds at the address.
        drop(listener);
        await_request(&mut stream);
        stream.write_all(&[frame(4, 0, 0, &[]), serving(1)].concat()).unwrap();
        while read_frame(&mut stream).is_ok_and(|(kind, ..)| kind != 1) {}
    });
    addr
}

/// The call that verifies the server fails with the connection: its error is no response. If it
/// counted as one, the last status would stay valid until the next call is allowed.
#[test]
fn a_lost_connection_ends_the_last_status() {
    let pace = Pace { fast_interval: Duration::from_secs(4), ..pace(TIMEOUT) };
    let runner = runner_with(pace, watched(closes_on_another_call()), &connector());
    block_on(async {
        assert_eq!(runner.run().await.outcome, Outcome::Success);
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let finding = runner.run().await;
        assert_eq!(finding.outcome, Outcome::Failure);
        assert!(finding.reason.ends_with("connection refused"), "{}", finding.reason);
    });
}

/// Each run makes a call to verify that the server responds, and sends no HTTP/2 ping: a gRPC
/// server closes the connection of a client that pings more often than every five minutes.
#[test]
fn runs_call_check_and_send_no_pings() {
    let (addr, sent) = keeps_watches();
    let (interval, fast_interval) = (Duration::from_secs(1), Duration::from_millis(200));
    let pace = Pace { interval, fast_interval, ..pace(SOON) };
    let runner = runner_with(pace, watched(addr), &connector());
    let counts = || [&sent.conns, &sent.calls, &sent.pings].map(|count| count.load(Ordering::SeqCst));
    block_on(async {
        for calls in 0..4 {
            let finding = runner.run().await;
            assert_eq!(finding.outcome, Outcome::Success, "{}", finding.reason);
            assert_eq!(counts(), [1, calls, 0]);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        sent.is_silent.store(true, Ordering::SeqCst);
        let finding = runner.run().await;
        assert_eq!((finding.outcome, &*finding.reason), (Outcome::Timeout, "no response within 1s"));
        sent.is_silent.store(false, Ordering::SeqCst);
        assert_eq!(runner.run().await.outcome, Outcome::Success);
        assert_eq!(counts(), [2, 4, 0], "another connection");
    });
}
