//! Watches of `grpc.health.v1` against servers that end them.
//!
//! Does not know about: schedules.

use super::*;
use crate::checks::demand::{Call, Calls};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A frame of HTTP/2 (RFC 9113 4.1) of the first stream, or of the connection.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, len, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

/// A field that no table has (RFC 7541 6.2.2).
fn field(name: &str, value: &str) -> Vec<u8> {
    let len = |text: &str| u8::try_from(text.len()).unwrap();
    [&[0, len(name)], name.as_bytes(), &[len(value)], value.as_bytes()].concat()
}

/// Reads up to the head of a request.
fn await_request(stream: &mut std::net::TcpStream) {
    stream.read_exact(&mut [0; 24]).unwrap();
    let mut head = [0; 9];
    while head[3] != 1 {
        stream.read_exact(&mut head).unwrap();
        let len = usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; len]).unwrap();
    }
}

/// A server that says `SERVING` so often and then ends the watch, not the connection; how often it was called.
fn ends_watches(messages: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let addr = server(move |stream| {
        await_request(stream);
        counted.fetch_add(1, Ordering::SeqCst);
        let fields = [vec![0x88], field("content-type", "application/grpc")].concat();
        let message = frame(0, 0, 1, &[0, 0, 0, 0, 2, 8, 1]).repeat(messages);
        let said = [
            frame(4, 0, 0, &[]),
            frame(1, 4, 1, &fields),
            message,
            frame(1, 5, 1, &field("grpc-status", "0")),
        ];
        stream.write_all(&said.concat()).unwrap();
    });
    (addr, calls)
}

#[test]
fn a_watch_that_ends_is_not_begun_again_at_once() {
    let fast = Duration::from_millis(400);
    for messages in [1, 2] {
        let (addr, calls) = ends_watches(messages);
        let runner = runner(&format!(
            "type = \"grpc\"\naddress = \"{addr}\"\nmode = \"watch\"\nfast_interval = \"400ms\""
        ));
        let (tellers, mut told) = Calls::new(Arc::default());
        runner.tell(tellers.teller(0));
        block_on(async {
            for round in 1..=3 {
                let from = Instant::now();
                // Once for each further message, once for the end; and each time there is a run.
                for _ in 0..messages {
                    let finding = runner.run().await;
                    assert_eq!(finding.outcome, Outcome::Success, "{}", finding.reason);
                    assert_eq!(calls.load(Ordering::SeqCst), round, "what it said last is known");
                    assert_eq!(told.recv().await, Some(Call::Changed(0)));
                }
                assert!(from.elapsed() >= fast, "{:?}", from.elapsed());
            }
        });
    }
}
