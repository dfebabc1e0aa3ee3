//! What a deadline and a drain mean for a connection that has said nothing yet, or nothing but an empty line.
//!
//! Does not know about: faults.

use core::time::Duration;

use doorbell::control::Command;
use doorbell::{CloseReason, HttpLimits, Limits};
use doorbell_testkit::sim::{PeerIndex, PeerStep, Rng, SimConfig};

use super::cast::Kind;
use super::run::Stage;

const REQUEST: &[u8] = b"GET /shared HTTP/1.1\r\nHost: a\r\n\r\n";

/// Nothing, and an empty line, which is no request yet (RFC 9112 2.2).
const BEGINNINGS: [&[u8]; 2] = [b"", b"\r\n"];

/// A worker with a client that began like this 100 ms ago.
fn begun(beginning: &[u8]) -> (Stage, PeerIndex) {
    let mut stage = Stage::new(Limits::default(), HttpLimits::default(), SimConfig::quiet(1, 0));
    let peer = stage.add_kind(Kind::Silent, &mut Rng::new(1), Duration::from_nanos(1));
    if !beginning.is_empty() {
        stage.sim.world_mut().push_step(peer, PeerStep::Send(beginning.to_vec()));
    }
    stage.run_for(Duration::from_millis(100));
    assert!(stage.sim.world().log(peer).accepted_at.is_some() && stage.snapshot().conns_live == 1);
    (stage, peer)
}

fn drain(stage: &Stage) {
    stage.shared.send(Command::Drain { timeout: Duration::from_secs(60) });
}

/// How long a connection was open, and why it was closed.
fn end(stage: &Stage, peer: PeerIndex) -> (Duration, CloseReason) {
    let log = stage.sim.world().log(peer).clone();
    let lived = log.closed_at.expect("closed") - log.accepted_at.expect("accepted");
    let snapshot = stage.snapshot();
    let mut reasons = CloseReason::ALL.iter().filter(|reason| snapshot.closed_because(**reason) > 0);
    let reason = *reasons.next().expect("it has a reason");
    assert_eq!((reasons.next(), snapshot.closed_total()), (None, 1));
    (Duration::from_nanos(lived), reason)
}

#[test]
fn a_first_request_that_arrives_during_a_drain_is_answered() {
    for beginning in BEGINNINGS {
        for after_ms in [1, 300, 900] {
            let (mut stage, peer) = begun(beginning);
            drain(&stage);
            stage.run_for(Duration::from_millis(after_ms));
            assert_eq!(stage.sim.world().log(peer).closed_at, None, "its request may be on the way");
            stage.sim.world_mut().push_step(peer, PeerStep::Send(REQUEST.to_vec()));
            while stage.turn() {}
            let log = stage.sim.world().log(peer).clone();
            let received = String::from_utf8_lossy(&log.received);
            assert!(received.starts_with("HTTP/1.1 200 "), "{after_ms} ms, {beginning:?}: {received}");
            assert!(received.contains("\r\nConnection: close\r\n"), "{received}");
            assert_eq!((log.reset, end(&stage, peer).1), (None, CloseReason::Done));
        }
    }
}

#[test]
fn a_client_that_says_nothing_is_closed_for_the_drain_after_the_time_of_a_linger() {
    let (mut stage, peer) = begun(b"");
    drain(&stage);
    while stage.turn() {}
    let (lived, reason) = end(&stage, peer);
    assert_eq!(reason, CloseReason::Drain);
    let linger = Duration::from_millis(100) + Limits::default().linger_timeout;
    assert!((linger..linger * 2).contains(&lived), "{lived:?}");
}

#[test]
fn without_a_drain_each_is_closed_for_the_time_it_took() {
    for (beginning, expected) in
        BEGINNINGS.into_iter().zip([CloseReason::IdleTimeout, CloseReason::HeaderTimeout])
    {
        let (mut stage, peer) = begun(beginning);
        stage.run_for(Duration::from_secs(15));
        let (lived, reason) = end(&stage, peer);
        assert_eq!(reason, expected, "{beginning:?}");
        assert!(lived >= Duration::from_secs(9), "{beginning:?}: {lived:?}");
    }
}

#[test]
fn a_drain_that_follows_a_drain_or_a_retirement_keeps_the_first_last_call() {
    for first in [
        Command::Drain { timeout: Duration::from_secs(60) },
        Command::Retire { patience: Duration::from_secs(60), timeout: Duration::from_secs(60) },
    ] {
        let mut stage = Stage::new(Limits::default(), HttpLimits::default(), SimConfig::quiet(1, 0));
        stage.run_for(Duration::from_millis(100));
        let began = stage.sim.world().now();
        stage.shared.send(first);
        stage.run_for(Duration::from_millis(90));
        drain(&stage);
        while stage.turn() {}
        let took = Duration::from_nanos(stage.finished_at.expect("it ends") - began);
        assert!(took < Duration::from_millis(150), "{took:?}");
    }
}
