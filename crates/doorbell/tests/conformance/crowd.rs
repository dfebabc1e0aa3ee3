//! Tests with more connections than a driver handles at once.

use doorbell::driver::{Driver, Expect};

use super::bench::{Bench, Came, Got, LISTENER, Stand};

/// Number of slots for these tests.
pub(super) const SLOTS: u32 = 400;

/// Number of connections. A driver accepts fewer connections in one turn, and has fewer receive
/// buffers.
const CROWD: usize = 300;

pub(super) fn a_long_backlog_is_emptied<B: Bench>(mut stand: Stand<B>) {
    loop {
        let peers: Vec<_> = (0..CROWD).map(|_| stand.bench.connect(LISTENER)).collect();
        stand.bench.driver().arm_accept(LISTENER);
        // No further client connects: the clients in the backlog must be reported without a new
        // event.
        for _ in &peers {
            let conn = stand.accepted();
            stand.close(conn);
        }
        for peer in peers {
            stand.look_until(peer, |seen| seen.fin);
            stand.bench.leave(peer);
        }
        stand.bench.driver().disarm_accept(LISTENER);
        assert_eq!(stand.accept_ended(LISTENER), None);
        if stand.bench.driver().downgrade_accept(LISTENER).is_none() {
            return;
        }
    }
}

pub(super) fn all_connections_of_a_crowd_are_reported<B: Bench>(mut stand: Stand<B>) {
    stand.bench.driver().arm_accept(LISTENER);
    let peers: Vec<_> = (0..CROWD).map(|_| stand.bench.connect(LISTENER)).collect();
    let conns: Vec<_> = peers.iter().map(|_| stand.accepted()).collect();
    for round in 0..2 {
        for conn in &conns {
            assert_eq!(stand.recv(*conn, Expect::Later), None, "nothing was sent yet");
        }
        stand.turn();
        for peer in &peers {
            stand.bench.send(*peer, b"all at once");
        }
        if round == 1 {
            // Input that has already arrived is reported in spite of the cancel, once per
            // connection.
            conns.iter().for_each(|conn| stand.bench.driver().cancel(*conn));
        }
        for conn in &conns {
            match stand.received(*conn) {
                Got::Data { bytes, .. } => assert_eq!(bytes, b"all at once"),
                other => assert!(round == 1, "{other:?}"),
            }
        }
        stand.nothing("each recv reports once", |came| matches!(came, Came::Received(..)));
    }
    for conn in conns {
        stand.close(conn);
    }
}
