//! D-3, D-4, D-5, D-8 and D-21: bytes in both directions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use doorbell::driver::{Driver, DriverKind, Errno, Expect, Payload, Received, SendBuf, Step};

use super::bench::{Bench, Came, Got, Stand};

/// Number of slots for these tests.
pub(super) const SLOTS: u32 = 4;

/// Bytes whose value depends on their position, so that a wrong offset gives a wrong byte.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index ^ (index >> 8) ^ (index >> 16)).to_le_bytes()[0]).collect()
}

pub(super) fn d3_recv_and_send_may_be_in_flight_together<B: Bench>(mut stand: Stand<B>) {
    let big_len = stand.bench.big_len();
    let (peer, conn) = stand.pair();
    let pending = stand.recv(conn, Expect::Later);
    assert_eq!(pending, None, "nothing was sent yet");
    let reply = SendBuf::new(Payload::Shared(Bytes::from(pattern(big_len))));
    let mut sent = stand.send(conn, reply, false);
    stand.bench.send(peer, b"while you send");
    assert_eq!(stand.received(conn), Got::Data { bytes: b"while you send".to_vec(), drained: true });
    let mut done = 0;
    loop {
        let sent_now = match sent.take() {
            Some(sent) => sent,
            None => {
                stand.look_until(peer, |seen| seen.bytes.len() > done);
                stand.sent(conn)
            }
        };
        done += sent_now.result.expect("the peer reads");
        if done == big_len {
            break;
        }
        sent = stand.send(conn, SendBuf { from: done, ..sent_now.buf }, false);
        stand.look_until(peer, |seen| !seen.bytes.is_empty());
    }
    let seen = stand.look_until(peer, |seen| seen.bytes.len() == big_len);
    assert!(seen.bytes == pattern(big_len), "every byte at its position");
    stand.close(conn);
}

pub(super) fn d3_a_second_recv_panics<B: Bench>(mut stand: Stand<B>) {
    if !cfg!(debug_assertions) {
        return;
    }
    let (_, conn) = stand.pair();
    assert_eq!(stand.recv(conn, Expect::Later), None);
    let again = catch_unwind(AssertUnwindSafe(|| stand.bench.driver().recv(conn, Expect::Later).is_done()));
    assert!(again.is_err(), "I-2");
}

pub(super) fn d3_a_second_send_panics<B: Bench>(mut stand: Stand<B>) {
    if !cfg!(debug_assertions) {
        return;
    }
    let big_len = stand.bench.big_len();
    let (_, conn) = stand.pair();
    let mut from = 0;
    // Sends until a send is pending, because the peer does not read.
    let buf = || SendBuf::new(Payload::Owned(vec![b'x'; big_len]));
    while let Some(sent) = stand.send(conn, SendBuf { from, ..buf() }, false) {
        from += sent.result.expect("the peer is connected");
        assert!(from < big_len, "a send is blocked while its peer does not read");
    }
    let again = catch_unwind(AssertUnwindSafe(|| stand.bench.driver().send(conn, buf(), false).is_done()));
    assert!(again.is_err(), "I-2");
}

pub(super) fn d4_a_recv_reports_once_however_much_comes<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    assert_eq!(stand.recv(conn, Expect::Later), None);
    stand.bench.send(peer, b"one");
    let first = stand.received(conn);
    assert_eq!(first, Got::Data { bytes: b"one".to_vec(), drained: true });
    stand.bench.send(peer, b"two");
    stand.nothing("no recv was requested", |came| matches!(came, Came::Received(..)));
    assert_eq!(stand.recv_exact(conn, 3), b"two");
    stand.close(conn);
}

pub(super) fn d4_cancelled_recv_reports_once<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    for _ in 0..3 {
        assert_eq!(stand.recv(conn, Expect::Later), None);
        stand.turn();
        stand.bench.driver().cancel(conn);
        assert_eq!(stand.received(conn), Got::Failed(Errno::CANCELED));
    }
    stand.bench.send(peer, b"later");
    stand.nothing("a cancelled recv has reported", |came| matches!(came, Came::Received(..)));
    assert_eq!(stand.recv_exact(conn, 5), b"later", "input that arrived after the cancel is not lost");
    stand.close(conn);
}

pub(super) fn d4_cancelled_send_reports_once_with_its_buffer<B: Bench>(mut stand: Stand<B>) {
    let big_len = stand.bench.big_len();
    let (peer, conn) = stand.pair();
    let payload = Bytes::from(pattern(big_len));
    let mut from = 0;
    while let Some(sent) =
        stand.send(conn, SendBuf { payload: Payload::Shared(payload.clone()), from }, false)
    {
        from += sent.result.expect("the peer is connected");
        assert!(from < big_len, "a send is blocked while its peer does not read");
    }
    stand.settle();
    // Bytes that the kernel accepted before the cancel are reported in both cases.
    if stand.came.iter().all(|came| !matches!(came, Came::Sent(..))) {
        stand.bench.driver().cancel(conn);
    }
    let sent = stand.sent(conn);
    assert_eq!(sent.buf.from, from, "the buffer is returned unchanged");
    assert_eq!(sent.buf.payload.as_slice().as_ptr(), payload.as_ptr(), "the same buffer is returned");
    match sent.result {
        Ok(len) => from += len,
        Err(errno) => assert_eq!(errno, Errno::CANCELED),
    }
    stand.nothing("a cancelled send has reported", |came| matches!(came, Came::Sent(..)));
    stand.close(conn);
    let seen = stand.look_until(peer, |seen| seen.fin || seen.reset);
    assert!(seen.bytes.len() == from && seen.bytes == payload[..from], "exactly the reported bytes arrived");
}

pub(super) fn d12_unsent_bytes_decrease_when_the_peer_reads<B: Bench>(mut stand: Stand<B>) {
    let big_len = stand.bench.big_len();
    let (peer, conn) = stand.pair();
    // A driver that cannot reset connections uses direct descriptors, whose sockets cannot be
    // queried until the kernel has installed ordinary descriptors.
    assert_eq!(stand.bench.driver().unsent(conn).is_some(), stand.bench.can_reset());
    let payload = Bytes::from(pattern(big_len));
    let mut from = 0;
    while let Some(sent) =
        stand.send(conn, SendBuf { payload: Payload::Shared(payload.clone()), from }, false)
    {
        from += sent.result.expect("the peer is connected");
        assert!(from < big_len, "a send is blocked while its peer does not read");
    }
    stand.settle();
    while stand.bench.driver().unsent(conn).is_none() && stand.bench.driver().find_unsent(conn) {
        stand.turn();
    }
    let is_known = stand.bench.driver().unsent(conn).is_some();
    assert!(is_known || !stand.bench.can_reset());
    if is_known {
        let full = stand.bench.driver().unsent(conn).expect("known");
        assert!(full > 0);
        assert_eq!(
            stand.bench.driver().unsent(conn),
            Some(full),
            "nothing changes while the peer does not read"
        );
        while stand.bench.driver().unsent(conn) >= Some(full) {
            stand.bench.look(peer);
            stand.turn();
        }
    }
    stand.bench.driver().cancel(conn);
    let _sent = stand.sent(conn);
    stand.close(conn);
}

pub(super) fn d4_cancel_without_operations_reports_nothing<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    stand.bench.driver().cancel(conn);
    stand.nothing("nothing was pending", |came| matches!(came, Came::Received(..) | Came::Sent(..)));
    stand.bench.send(peer, b"hello");
    assert_eq!(stand.recv_exact(conn, 5), b"hello");
    stand.close(conn);
}

pub(super) fn d5_a_short_send_reports_its_length_and_returns_the_buffer<B: Bench>(mut stand: Stand<B>) {
    let big_len = stand.bench.big_len();
    let (peer, conn) = stand.pair();
    let payload = Bytes::from(pattern(big_len));
    let (mut from, mut shorts) = (0, 0);
    while from < big_len {
        let buf = SendBuf { payload: Payload::Shared(payload.clone()), from };
        let sent = match stand.send(conn, buf, false) {
            Some(sent) => sent,
            None => {
                // The peer reads a little, so that the send can continue.
                let before = stand.bench.look(peer).bytes.len();
                if before < from {
                    stand.look_until(peer, |seen| seen.bytes.len() > before);
                }
                stand.sent_while_reading(conn, peer)
            }
        };
        assert_eq!(sent.buf.from, from, "the caller advances `from`");
        assert_eq!(sent.buf.payload.as_slice().as_ptr(), payload.as_ptr(), "the same buffer is returned");
        let len = sent.result.expect("the peer reads");
        assert!((1..=big_len - from).contains(&len));
        from += len;
        shorts += u32::from(from < big_len);
    }
    assert!(shorts > 0, "{big_len} bytes do not fit at once");
    let seen = stand.look_until(peer, |seen| seen.bytes.len() == big_len);
    assert!(seen.bytes == payload, "every byte at its position");
    stand.close(conn);
}

pub(super) fn d8_bytes_stay_readable_until_recycled<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    let (other_peer, other) = stand.pair();
    stand.bench.send(peer, b"first");
    stand.settle();
    let step = stand.bench.driver().recv(conn, Expect::Now);
    let received = match step {
        Step::Done(received) => received,
        Step::Pending => loop {
            stand.bench.driver().wait(Some(core::time::Duration::from_millis(10))).expect("the driver works");
            if let Some(doorbell::driver::Completion::Received { received, .. }) = stand.bench.driver().next()
            {
                break received;
            }
        },
    };
    let Received::Data { chunk, .. } = received else { panic!("{received:?}") };
    stand.bench.send(peer, b"second");
    stand.bench.send(other_peer, b"third");
    assert_eq!(stand.bench.driver().received(&chunk), b"first");
    assert_eq!(stand.bench.driver().received(&chunk), b"first", "reading a chunk does not change it");
    assert_eq!(chunk.len(), 5);
    stand.bench.driver().recycle(chunk);
    assert_eq!(stand.recv_exact(conn, 6), b"second");
    assert_eq!(stand.recv_exact(other, 5), b"third");
    stand.close(conn);
    stand.close(other);
}

pub(super) fn received_bytes_are_exact_in_any_split<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    let all = pattern(100_000);
    let mut sent = 0;
    let mut got = Vec::new();
    for piece in [1, 2, 7, 100, 2_047, 2_048, 2_049, 16_383, 16_384, 16_385, 44_594] {
        stand.bench.send(peer, &all[sent..sent + piece]);
        sent += piece;
        let expect = if piece % 2 == 0 { Expect::Now } else { Expect::Later };
        while got.len() < sent {
            match stand.recv_wait(conn, expect) {
                Got::Data { bytes, .. } => got.extend(bytes),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(sent, all.len());
    assert!(got == all, "every byte at its position");
    stand.close(conn);
}

pub(super) fn drained_is_never_claimed_too_early<B: Bench>(mut stand: Stand<B>) {
    for expect in [Expect::Now, Expect::Later] {
        let (peer, conn) = stand.pair();
        for sent in [1, 2_048, 4_096, 16_384, 50_000] {
            stand.bench.send(peer, &pattern(sent));
            stand.settle();
            let mut got = 0;
            while got < sent {
                let Got::Data { bytes, drained } = stand.recv_wait(conn, expect) else {
                    panic!("{got} of {sent}")
                };
                got += bytes.len();
                assert!(
                    !drained || got == sent,
                    "only {got} of {sent} bytes were received, so the socket is not empty"
                );
            }
        }
        stand.close(conn);
    }
}

pub(super) fn the_end_of_the_stream_follows_the_data<B: Bench>(mut stand: Stand<B>) {
    for expect in [Expect::Now, Expect::Later] {
        let (peer, conn) = stand.pair();
        stand.bench.send(peer, b"last words");
        stand.bench.half_close(peer);
        stand.settle();
        assert_eq!(stand.recv_exact(conn, 10), b"last words");
        assert_eq!(stand.recv_wait(conn, expect), Got::Eof);
        assert_eq!(
            stand.recv_wait(conn, expect),
            Got::Eof,
            "after the end of the stream every receive returns the end"
        );
        stand.send_all(conn, b"answer", true);
        stand.close(conn);
        let seen = stand.look_until(peer, |seen| seen.fin);
        assert_eq!((seen.bytes.as_slice(), seen.reset), (b"answer".as_slice(), false));
    }
}

pub(super) fn a_reset_fails_the_recv<B: Bench>(mut stand: Stand<B>) {
    for early in [true, false] {
        let (peer, conn) = stand.pair();
        if early {
            stand.bench.reset(peer);
            stand.settle();
        }
        let got = stand.recv(conn, Expect::Later);
        if !early {
            stand.bench.reset(peer);
        }
        let got = got.unwrap_or_else(|| stand.received(conn));
        assert_eq!(got, Got::Failed(Errno::CONNRESET), "early: {early}");
        stand.close(conn);
    }
}

pub(super) fn a_send_to_a_gone_peer_fails<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    stand.bench.reset(peer);
    stand.settle();
    let sent = stand.send_wait(conn, SendBuf::new(Payload::Owned(b"hello".to_vec())), false);
    let errno = sent.result.expect_err("the peer is gone");
    assert!([Errno::PIPE, Errno::CONNRESET].contains(&errno), "{errno}");
    assert_eq!(sent.buf.remaining(), b"hello", "the buffer is returned");
    stand.close(conn);
}

/// `matches!` as a method, for readable closures.
trait IsDone {
    fn is_done(&self) -> bool;
}

impl<T> IsDone for Step<T> {
    fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

impl<B: Bench> Stand<B> {
    /// Waits for the completion of a send while the peer reads.
    fn sent_while_reading(
        &mut self,
        conn: doorbell::id::ConnId,
        peer: super::bench::Peer,
    ) -> doorbell::driver::Sent {
        let until = self.bench.now() + core::time::Duration::from_secs(5);
        while !self.came.iter().any(|came| matches!(came, Came::Sent(of, _) if *of == conn)) {
            assert!(self.bench.now() < until, "the send makes no progress although the peer reads");
            self.bench.look(peer);
            self.turn();
        }
        self.sent(conn)
    }
}

pub(super) fn d21_input_that_was_not_received_is_seen<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    let seen = |is_seen| stand.bench.knows_addrs().then_some(is_seen);
    let (no_input, input) = (seen(false), seen(true));
    assert_eq!(stand.bench.driver().has_input(conn), no_input, "nothing was sent yet");
    stand.bench.send(peer, b"?");
    stand.settle();
    assert_eq!(stand.bench.driver().has_input(conn), input, "bytes");
    assert_eq!(stand.recv_exact(conn, 1), b"?");
    assert_eq!(stand.bench.driver().has_input(conn), no_input, "the bytes were received");
    stand.bench.half_close(peer);
    stand.settle();
    assert_eq!(stand.bench.driver().has_input(conn), input, "the end of the stream");
    assert_eq!(stand.recv_wait(conn, Expect::Later), Got::Eof);
    stand.close(conn);
}

pub(super) fn d21_input_that_a_receive_has_taken_is_not_denied<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    assert_eq!(stand.recv(conn, Expect::Later), None);
    stand.settle();
    stand.bench.send(peer, b"?");
    // In the simulation, the bytes are still on their way.
    if stand.bench.driver().kind() != DriverKind::Simulated {
        assert_ne!(stand.bench.driver().has_input(conn), Some(false));
    }
    assert_eq!(stand.received(conn), Got::Data { bytes: b"?".to_vec(), drained: true });
    stand.close(conn);
}
