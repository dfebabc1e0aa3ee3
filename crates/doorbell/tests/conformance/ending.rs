//! D-6, D-7, D-9 and D-10: closes, waits, wake-ups.

use core::time::Duration;
use std::collections::HashSet;

use doorbell::driver::{Driver, Expect, Payload, SendBuf, Step};

use doorbell::time::Time;
use doorbell_testkit::figures::at_most;

use super::bench::{Bench, Came, Got, LISTENER, Stand};

/// Timeout of waits that must end earlier, for another reason.
const LIMIT: Duration = Duration::from_secs(20);

/// Number of slots for these tests.
pub(super) const SLOTS: u32 = 64;

pub(super) fn d6_a_closed_slot_is_used_again_and_the_peer_sees_the_end<B: Bench>(mut stand: Stand<B>) {
    let mut slots = HashSet::new();
    for _ in 0..3 * SLOTS {
        let (peer, conn) = stand.pair();
        slots.insert(conn.slot);
        stand.close(conn);
        let seen = stand.look_until(peer, |seen| seen.fin);
        assert!(seen.bytes.is_empty() && !seen.reset, "{seen:?}");
    }
    assert!(slots.iter().all(|slot| slot.0 < SLOTS), "{slots:?}");
}

/// A slot must not be freed before its half-close has completed, which another thread may do later.
pub(super) fn d6_a_half_close_does_not_reach_the_next_connection_in_the_slot<B: Bench>(mut stand: Stand<B>) {
    const AT_ONCE: usize = 24;
    for _ in 0..20 {
        let pairs: Vec<_> = (0..AT_ONCE).map(|_| stand.pair()).collect();
        for (peer, conn) in &pairs {
            stand.bench.half_close(*peer);
            assert_eq!(stand.recv_wait(*conn, Expect::Later), Got::Eof);
        }
        let mut pending = Vec::new();
        for (_, conn) in &pairs {
            stand.bench.driver().shutdown_write(*conn);
            if let Step::Pending = stand.bench.driver().close(*conn) {
                pending.push(*conn);
            }
        }
        // These clients are in the backlog before the driver is called, and get the slots that the
        // closes free.
        let next: Vec<_> = (0..AT_ONCE).map(|_| stand.bench.connect(LISTENER)).collect();
        let conns: Vec<_> = next.iter().map(|_| stand.accepted()).collect();
        for conn in &conns {
            stand.send_all(*conn, b"whole", false);
            stand.close(*conn);
        }
        for peer in &next {
            let seen = stand.look_until(*peer, |seen| seen.fin || seen.reset);
            assert_eq!((seen.bytes.as_slice(), seen.reset), (b"whole".as_slice(), false));
        }
        for conn in pending {
            stand.take("the end of a close", |came| match came {
                Came::Closed(of) if *of == conn => Some(()),
                _ => None,
            });
        }
        for peer in pairs.iter().map(|(peer, _)| peer).chain(&next) {
            stand.bench.leave(*peer);
        }
    }
}

pub(super) fn d6_many_slots_are_closed_and_used_again<B: Bench>(mut stand: Stand<B>) {
    for _ in 0..4 {
        let pairs: Vec<_> = (0..SLOTS - 2).map(|_| stand.pair()).collect();
        for (peer, conn) in &pairs {
            stand.bench.send(*peer, b"?");
            assert_eq!(stand.recv_exact(*conn, 1), b"?");
        }
        // All closes are in progress at the same time.
        let mut pending = 0;
        for (index, (_, conn)) in pairs.iter().enumerate() {
            stand.send_all(*conn, format!("reply {index}").as_bytes(), true);
            pending += u32::from(matches!(stand.bench.driver().close(*conn), Step::Pending));
        }
        for _ in 0..pending {
            stand.take("the end of a close", |came| matches!(came, Came::Closed(_)).then_some(()));
        }
        for (index, (peer, _)) in pairs.iter().enumerate() {
            let seen = stand.look_until(*peer, |seen| seen.fin);
            assert_eq!((seen.bytes, seen.reset), (format!("reply {index}").into_bytes(), false));
        }
    }
}

pub(super) fn d7_reply_and_fin_share_a_segment<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    stand.bench.send(peer, b"request");
    assert_eq!(stand.recv_exact(conn, 7), b"request");
    let sent = stand.send_wait(conn, SendBuf::new(Payload::Owned(b"the whole reply".to_vec())), true);
    assert_eq!(sent.result, Ok(15));
    stand.turn_for(Duration::from_millis(5));
    let before = stand.bench.look(peer).clone();
    assert!(before.bytes.is_empty(), "the kernel holds the reply back until the close: {before:?}");
    let mut closed = matches!(stand.bench.driver().close(conn), Step::Done(()));
    // From now on, the first byte must arrive together with the FIN.
    for _ in 0..1_000 {
        let seen = stand.bench.look(peer);
        if !seen.bytes.is_empty() {
            assert_eq!(
                (seen.bytes.as_slice(), seen.fin, seen.reset),
                (b"the whole reply".as_slice(), true, false)
            );
            assert!(closed || stand.bench.now() > Duration::ZERO);
            return;
        }
        stand.turn_for(Duration::from_millis(1));
        closed |= stand.came.iter().any(|came| matches!(came, Came::Closed(_)));
    }
    panic!("the reply never arrived; closed: {closed}");
}

pub(super) fn d9_wait_ends_after_its_timeout<B: Bench>(mut stand: Stand<B>) {
    let (_, conn) = stand.pair();
    assert_eq!(stand.recv(conn, Expect::Later), None);
    stand.settle();
    for timeout_ms in [0, 1, 30, 200] {
        let timeout = Duration::from_millis(timeout_ms);
        let before = stand.bench.now();
        let mut waits = 0;
        // A single wait may return early without a completion.
        while stand.bench.now() - before < timeout {
            stand.turn_for(timeout);
            waits += 1;
        }
        stand.turn_for(timeout);
        let took = stand.bench.now() - before;
        assert!(waits <= 4, "{waits} waits within {timeout:?}");
        at_most("two waits", took, 2 * timeout + Duration::from_millis(400));
    }
    stand.abandon(conn);
}

/// `now` is arbitrary, because only the difference between `now` and the due time matters.
pub(super) fn d9_wait_ends_by_the_requested_time<B: Bench>(mut stand: Stand<B>) {
    let now = Time::from_nanos(1_000_000_000);
    for due_ms in [30, 1, 100] {
        let due = Duration::from_millis(due_ms);
        let before = stand.bench.now();
        // A later time must not replace an earlier time.
        let later = stand.bench.driver().wake_by(now, now.after(Duration::from_secs(3_600)));
        let sooner = stand.bench.driver().wake_by(now, now.after(due));
        assert_eq!(
            later, sooner,
            "both calls have the same result, because a driver supports `wake_by` or not"
        );
        if !later {
            return;
        }
        let mut waits = 0;
        while stand.bench.now() - before < due {
            stand.bench.driver().wait(None).expect("the driver works");
            stand.take_all();
            waits += 1;
        }
        let took = stand.bench.now() - before;
        assert!(waits <= 4, "{waits} waits within {due:?}");
        at_most("a wait that is due", took, due + Duration::from_millis(400));
    }
}

pub(super) fn d9_wait_ends_when_woken<B: Bench>(mut stand: Stand<B>) {
    for _ in 0..3 {
        stand.bench.wake_soon();
        let before = stand.bench.now();
        stand.bench.driver().wait(Some(LIMIT)).expect("the driver works");
        assert!(stand.bench.driver().next().is_none(), "a wake-up is not a completion");
        let took = stand.bench.now() - before;
        assert!(took < LIMIT, "{took:?}");
        stand.settle();
    }
}

pub(super) fn d9_a_wake_before_the_wait_is_not_lost<B: Bench>(mut stand: Stand<B>) {
    for _ in 0..3 {
        stand.bench.wake_now();
        stand.bench.wake_now();
        let before = stand.bench.now();
        stand.bench.driver().wait(Some(LIMIT)).expect("the driver works");
        while stand.bench.driver().next().is_some() {}
        let took = stand.bench.now() - before;
        assert!(took < LIMIT, "{took:?}");
        stand.settle();
    }
}

pub(super) fn d9_wait_ends_with_a_completion<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    for _ in 0..5 {
        assert_eq!(stand.recv(conn, Expect::Later), None);
        stand.bench.send(peer, b"!");
        let before = stand.bench.now();
        while !stand.came.iter().any(|came| matches!(came, Came::Received(..))) {
            stand.turn_for(LIMIT);
        }
        let took = stand.bench.now() - before;
        assert!(took < LIMIT, "{took:?}");
        assert_eq!(stand.received(conn), Got::Data { bytes: b"!".to_vec(), drained: true });
    }
    stand.close(conn);
}

pub(super) fn d10_reset_on_close_is_seen_as_a_reset<B: Bench>(mut stand: Stand<B>) {
    if !stand.bench.can_reset() {
        return;
    }
    let (peer, conn) = stand.pair();
    stand.send_all(conn, b"half of a rep", false);
    stand.look_until(peer, |seen| seen.bytes == b"half of a rep");
    stand.bench.driver().reset_on_close(conn);
    stand.close(conn);
    let seen = stand.look_until(peer, |seen| seen.fin || seen.reset);
    assert!(seen.reset, "{seen:?}");
}

pub(super) fn a_half_closed_connection_still_receives<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    stand.send_all(conn, b"too large", false);
    stand.bench.driver().shutdown_write(conn);
    let seen = stand.look_until(peer, |seen| seen.fin);
    assert_eq!((seen.bytes.as_slice(), seen.reset), (b"too large".as_slice(), false));
    stand.bench.send(peer, b"the rest of a request");
    assert_eq!(stand.recv_exact(conn, 21), b"the rest of a request");
    stand.bench.half_close(peer);
    assert_eq!(stand.recv_wait(conn, Expect::Later), Got::Eof);
    stand.close(conn);
    stand.settle();
    assert!(!stand.bench.look(peer).reset, "all input was read before the close");
}

pub(super) fn an_idle_connection_does_not_delay_another<B: Bench>(mut stand: Stand<B>) {
    let (_, idle) = stand.pair();
    assert_eq!(stand.recv(idle, Expect::Later), None);
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let (peer, conn) = stand.pair();
        stand.bench.send(peer, b"?");
        assert_eq!(stand.recv_exact(conn, 1), b"?");
        let before = stand.bench.now();
        stand.send_all(conn, b"reply", true);
        stand.close(conn);
        stand.look_until(peer, |seen| seen.fin);
        slowest = slowest.max(stand.bench.now() - before);
    }
    // A close that a kernel delays takes 200 ms (cork) or 1 s.
    at_most("a reply while another connection is idle", slowest, Duration::from_millis(100));
    stand.bench.driver().disarm_accept(LISTENER);
    stand.accept_ended(LISTENER);
    stand.abandon(idle);
}
