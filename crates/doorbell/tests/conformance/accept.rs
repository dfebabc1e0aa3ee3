//! D-1 and D-2: arming, disarming, the backlog.

use doorbell::driver::Driver;
use doorbell::id::ListenerIndex;

use super::bench::{Bench, Came, LISTENER, Stand};

/// Number of slots that these tests need.
pub(super) const SLOTS: u32 = 8;

const OTHER: ListenerIndex = ListenerIndex(1);

pub(super) fn d1_arming_twice_reports_each_connection_once<B: Bench>(mut stand: Stand<B>) {
    stand.bench.driver().arm_accept(LISTENER);
    stand.bench.driver().arm_accept(LISTENER);
    let peers = [(); 3].map(|()| stand.bench.connect(LISTENER));
    let conns = peers.map(|_| stand.accepted());
    stand.nothing("a connection is reported once", |came| matches!(came, Came::Accepted(..)));
    for conn in conns {
        stand.close(conn);
    }
}

pub(super) fn d1_slots_in_use_are_not_given_again<B: Bench>(mut stand: Stand<B>) {
    let mut open = Vec::new();
    for round in 0..20 {
        let (_, conn) = stand.pair();
        assert!(conn.slot.0 < SLOTS, "{conn:?} is beyond the driver's slots");
        assert!(
            open.iter().all(|other: &doorbell::id::ConnId| other.slot != conn.slot),
            "{conn:?} is in use: {open:?}"
        );
        open.push(conn);
        if open.len() == 6 {
            let closed = open.remove(round % 6);
            stand.close(closed);
        }
    }
    for conn in open {
        stand.close(conn);
    }
}

pub(super) fn d1_two_listeners_are_distinguished<B: Bench>(mut stand: Stand<B>) {
    stand.bench.driver().arm_accept(OTHER);
    stand.bench.connect(OTHER);
    stand.bench.connect(LISTENER);
    let from_other = stand.take("a connection", |came| match came {
        Came::Accepted(listener, _) => Some(*listener),
        _ => None,
    });
    assert_eq!(from_other.0, OTHER);
    stand.nothing("a listener that is not armed accepts nothing", |came| matches!(came, Came::Accepted(..)));
    stand.bench.driver().arm_accept(LISTENER);
    let from_first = stand.take("the other connection", |came| match came {
        Came::Accepted(listener, _) => Some(*listener),
        _ => None,
    });
    assert_eq!(from_first.0, LISTENER);
}

pub(super) fn d2_disarm_ends_accept_once_and_nothing_follows<B: Bench>(mut stand: Stand<B>) {
    for _ in 0..5 {
        stand.bench.driver().arm_accept(LISTENER);
        stand.turn();
        stand.bench.driver().disarm_accept(LISTENER);
        assert_eq!(stand.accept_ended(LISTENER), None);
    }
    let peer = stand.bench.connect(LISTENER);
    stand.nothing("accept is over", |came| matches!(came, Came::Accepted(..) | Came::AcceptEnded(..)));
    assert_eq!(*stand.bench.look(peer), super::bench::Seen::default(), "the client waits in the backlog");
    stand.bench.driver().arm_accept(LISTENER);
    stand.accepted();
}

pub(super) fn d2_disarm_without_arm_is_silent<B: Bench>(mut stand: Stand<B>) {
    stand.bench.driver().disarm_accept(LISTENER);
    stand.nothing("nothing was armed", |came| matches!(came, Came::AcceptEnded(..)));
}

pub(super) fn d2_accepted_connections_survive_the_disarm<B: Bench>(mut stand: Stand<B>) {
    stand.bench.driver().arm_accept(LISTENER);
    let peers = [(); 4].map(|()| stand.bench.connect(LISTENER));
    stand.bench.driver().disarm_accept(LISTENER);
    stand.accept_ended(LISTENER);
    let early: Vec<_> = stand.came.iter().filter(|came| matches!(came, Came::Accepted(..))).collect();
    let early_len = early.len();
    let early = [(); 4].map(|()| ()).iter().take(early_len).map(|()| stand.accepted()).collect::<Vec<_>>();
    stand.bench.driver().arm_accept(LISTENER);
    let late: Vec<_> = (early_len..4).map(|_| stand.accepted()).collect();
    for conn in early.into_iter().chain(late) {
        stand.send_all(conn, b"hello", true);
        stand.close(conn);
    }
    for peer in peers {
        let seen = stand.look_until(peer, |seen| seen.fin);
        assert_eq!((seen.bytes.as_slice(), seen.reset), (b"hello".as_slice(), false));
    }
}

pub(super) fn a_backlog_is_seen_and_a_closed_listener_refuses<B: Bench>(mut stand: Stand<B>) {
    assert!(!stand.bench.driver().accept_backlogged(LISTENER));
    stand.bench.connect(LISTENER);
    stand.settle();
    assert!(stand.bench.driver().accept_backlogged(LISTENER));
    stand.bench.driver().arm_accept(LISTENER);
    let conn = stand.accepted();
    stand.settle();
    assert!(!stand.bench.driver().accept_backlogged(LISTENER));
    stand.bench.driver().disarm_accept(LISTENER);
    stand.accept_ended(LISTENER);
    stand.bench.driver().close_listener(LISTENER);
    assert!(!stand.bench.driver().accept_backlogged(LISTENER), "a closed listener has no backlog");
    stand.send_all(conn, b"still there", false);
    stand.close(conn);
}

pub(super) fn a_downgraded_accept_still_accepts<B: Bench>(mut stand: Stand<B>) {
    let mut steps = 0;
    loop {
        stand.bench.driver().arm_accept(LISTENER);
        for _ in 0..3 {
            let peer = stand.bench.connect(LISTENER);
            let conn = stand.accepted();
            stand.send_all(conn, b"hello", true);
            stand.close(conn);
            let seen = stand.look_until(peer, |seen| seen.fin);
            assert_eq!(seen.bytes, b"hello", "after {steps} steps down");
        }
        stand.bench.driver().disarm_accept(LISTENER);
        assert_eq!(stand.accept_ended(LISTENER), None);
        if stand.bench.driver().downgrade_accept(LISTENER).is_none() {
            return;
        }
        steps += 1;
        assert!(steps <= 2, "there are three accept modes");
    }
}

pub(super) fn a_connection_that_left_the_backlog_is_still_reported<B: Bench>(mut stand: Stand<B>) {
    let peer = stand.bench.connect(LISTENER);
    stand.bench.send(peer, b"bye");
    stand.bench.half_close(peer);
    stand.settle();
    stand.bench.driver().arm_accept(LISTENER);
    let conn = stand.accepted();
    assert_eq!(stand.recv_exact(conn, 3), b"bye");
    assert_eq!(stand.recv_wait(conn, doorbell::driver::Expect::Now), super::bench::Got::Eof);
    stand.close(conn);
}

pub(super) fn the_peers_address_is_known_or_none<B: Bench>(mut stand: Stand<B>) {
    let (peer, conn) = stand.pair();
    let known = stand.bench.driver().peer_addr(conn);
    if stand.bench.knows_addrs() {
        assert_eq!(known.map(|known| known.ip()), stand.bench.peer_addr(peer));
        assert!(known.is_some());
    } else {
        assert_eq!(known, None);
    }
    stand.close(conn);
}
