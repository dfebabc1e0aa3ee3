//! Tests of deadlines and drains of connections that have sent nothing yet, or only an empty line.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::sync::Arc;

use doorbell::control::{Command, WorkerShared};
use doorbell::driver::Waker;
use doorbell::http::forwarded::Networks;
use doorbell::id::ListenerIndex;
use doorbell::worker::{Flow, ServerShared, Worker};
use doorbell::{CloseReason, HttpLimits, Limits, ProxyProtocol};
use doorbell_testkit::sim::{
    FaultKind, FaultPlan, PeerIndex, PeerPlan, PeerStep, Reading, Rng, Sim, SimConfig, Unsent,
};

use super::cast::{HTTP, Kind};
use super::run::Stage;
use super::service::raw;

const REQUEST_OF_ONE_BYTE: &[u8] = b"GET /echo/1/1 HTTP/1.1\r\nHost: a\r\n\r\n";

const REQUEST: &[u8] = b"GET /shared HTTP/1.1\r\nHost: a\r\n\r\n";

/// First bytes of a client: nothing, or an empty line, which does not begin a request (RFC 9112
/// 2.2).
const BEGINNINGS: [&[u8]; 2] = [b"", b"\r\n"];

/// Creates a worker with a client that sent these first bytes 100 ms ago.
fn begun(beginning: &[u8]) -> (Stage, PeerIndex) {
    begun_on(Unsent::Known, beginning)
}

/// Like [`begun`], on a driver whose sockets can be queried like this.
fn begun_on(unsent: Unsent, beginning: &[u8]) -> (Stage, PeerIndex) {
    let config = SimConfig { traced: true, unsent, ..SimConfig::quiet(1, 0) };
    let mut stage = Stage::new(Limits::default(), HttpLimits::default(), config);
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

/// Returns how long a connection was open, and its close reason.
fn end(stage: &Stage, peer: PeerIndex) -> (Duration, CloseReason) {
    let log = stage.sim.world().log(peer).clone();
    let lived = log.closed_at.expect("closed") - log.accepted_at.expect("accepted");
    let snapshot = stage.snapshot();
    let mut reasons = CloseReason::ALL.iter().filter(|reason| snapshot.closed_because(**reason) > 0);
    let reason = *reasons.next().expect("a close has a reason");
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
            assert_eq!(stage.sim.world().log(peer).closed_at, None, "the client's request may still arrive");
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
fn a_silent_client_is_closed_by_a_drain_after_the_linger_timeout() {
    let (mut stage, peer) = begun(b"");
    drain(&stage);
    while stage.turn() {}
    let (lived, reason) = end(&stage, peer);
    assert_eq!(reason, CloseReason::Drain);
    let linger = Duration::from_millis(100) + Limits::default().linger_timeout;
    assert!((linger..linger * 2).contains(&lived), "{lived:?}");
}

/// Creates a worker behind proxies with a client that has sent these bytes, begins a drain, and
/// returns the time until the worker ends the connection, from the drain or from these further
/// bytes, which the client sends during the drain.
fn end_behind_a_proxy(before: &[u8], during: &[u8]) -> (Duration, CloseReason) {
    let listener = ListenerIndex(0);
    let proxy = ProxyProtocol::require(Networks::parse(["127.0.0.1"]).expect("a valid network"));
    let protocols = vec![raw().into()];
    let server = ServerShared::new(protocols, Limits::default(), 1).behind_proxies(listener, proxy);
    let sim = Sim::new(SimConfig::quiet(1, server.slots_max()));
    let (waker, source) = Waker::pair().expect("an eventfd");
    let shared = Arc::new(WorkerShared::new(waker));
    let driver = sim.driver().with_wake(source);
    let mut worker = Worker::new(driver, sim.clock(), Arc::new(server), Arc::clone(&shared));
    let send = |bytes: &[u8]| (!bytes.is_empty()).then(|| PeerStep::Send(bytes.to_vec()));
    // The second part follows after the listeners have closed.
    let steps = [send(before), Some(PeerStep::Wait(Duration::from_secs(2))), send(during)];
    let peer = sim.world_mut().add_peer(PeerPlan {
        listener,
        addr: Some(Ipv4Addr::LOCALHOST.into()),
        connect_after: Duration::ZERO,
        script: steps.into_iter().flatten().collect(),
        reading: Reading::Eager,
        window_len: 36_000,
        ignores_fin: false,
    });
    let has_arrived = || shared.snapshot().bytes_in == before.len() as u64;
    while sim.world().log(peer).accepted_at.is_none() || !has_arrived() {
        worker.turn().expect("a turn");
    }
    worker.turn().expect("a turn");
    let asked_at = sim.world().now();
    shared.send(Command::Drain { timeout: Duration::from_secs(60) });
    while worker.turn().expect("a turn") == Flow::Continue {}
    let log = sim.world().log(peer).clone();
    let ended_at = log.fin_at.or(log.closed_at).expect("closed");
    let snapshot = shared.snapshot();
    let mut reasons = CloseReason::ALL.iter().filter(|reason| snapshot.closed_because(**reason) > 0);
    (
        Duration::from_nanos(ended_at - log.last_sent_at.unwrap_or(0).max(asked_at)),
        *reasons.next().expect("a close has a reason"),
    )
}

/// A drain also closes a connection that waits for a PROXY header and has sent nothing, and one
/// whose header was complete only after the drain began.
#[test]
fn a_client_without_a_request_behind_a_proxy_is_closed_by_a_drain_after_the_linger_timeout() {
    for (before, during) in [("", ""), ("PROXY TCP4 203.0.113.7 ", "192.0.2.1 51000 80\r\n")] {
        let (lived, reason) = end_behind_a_proxy(before.as_bytes(), during.as_bytes());
        let linger = Limits::default().linger_timeout;
        assert!((linger..linger * 2).contains(&lived), "{before:?}: {lived:?}");
        assert_eq!(reason, CloseReason::Drain, "{before:?}");
    }
}

/// A connection that got its reply is closed at once, because it has no request that could be lost.
#[test]
fn a_kept_connection_that_is_idle_is_closed_as_the_drain_begins() {
    for (unsent, within_ms) in [(Unsent::Known, 50), (Unsent::Hidden, 150)] {
        let (mut stage, peer) = begun_on(unsent, REQUEST);
        assert!(stage.sim.world().log(peer).received.starts_with(b"HTTP/1.1 200 "));
        let asked_at = stage.sim.world().now();
        drain(&stage);
        while stage.turn() {}
        let log = stage.sim.world().log(peer).clone();
        let took = Duration::from_nanos(log.fin_at.expect("an orderly end") - asked_at);
        assert!(took < Duration::from_millis(within_ms), "{took:?}");
        assert_eq!((log.reset, end(&stage, peer).1), (None, CloseReason::Done));
    }
}

/// Sends a request that arrives within 1 ms, and which the driver reports up to 20 ms later.
fn send_reported_late(stage: &mut Stage, peer: PeerIndex) {
    stage.sim.world_mut().set_plan(FaultPlan::none().with(FaultKind::CompletionDelayed, 1_000_000));
    stage.sim.world_mut().push_step(peer, PeerStep::Send(REQUEST.to_vec()));
    stage.run_for(Duration::from_millis(2));
}

#[test]
fn a_next_request_that_arrived_before_the_drain_is_answered() {
    for unsent in [Unsent::Known, Unsent::Hidden] {
        for wait_ms in (0..20).step_by(4) {
            let (mut stage, peer) = begun_on(unsent, REQUEST);
            let before = stage.sim.world().log(peer).received.len();
            stage.run_for(Duration::from_millis(wait_ms));
            send_reported_late(&mut stage, peer);
            drain(&stage);
            while stage.turn() {}
            let log = stage.sim.world().log(peer).clone();
            assert!(log.received.len() > before, "{unsent:?} {wait_ms}: {log:?}");
            assert_eq!((log.reset, stage.snapshot().requests), (None, 2), "{unsent:?} {wait_ms}");
        }
    }
}

/// The reply of a job is being sent as the drain begins, and the next request has arrived. The
/// driver reports the end of the send and the request in either order.
#[test]
fn a_request_that_arrived_during_a_send_is_answered_after_it() {
    const JOB: &[u8] = b"GET /job/1/50000 HTTP/1.1\r\nHost: a\r\n\r\n";
    for unsent in [Unsent::Known, Unsent::Hidden] {
        for seed in 0..40 {
            let config = SimConfig { traced: true, unsent, ..SimConfig::quiet(seed, 0) };
            let mut stage = Stage::new(Limits::default(), HttpLimits::default(), config);
            let peer = stage.sim.world_mut().add_peer(PeerPlan {
                listener: HTTP,
                addr: Some(Ipv4Addr::LOCALHOST.into()),
                connect_after: Duration::ZERO,
                script: vec![PeerStep::Send(JOB.to_vec())],
                reading: Reading::Slow { len: 20_000, every: Duration::from_millis(100) },
                window_len: 40_000,
                ignores_fin: false,
            });
            while stage.snapshot().bytes_out == 0 {
                assert!(stage.turn());
            }
            drain(&stage);
            // The send ends when the client reads, after 100 ms.
            stage.run_for(Duration::from_millis(78 + seed % 20));
            send_reported_late(&mut stage, peer);
            while stage.turn() {}
            let log = stage.sim.world().log(peer).clone();
            assert_eq!((log.reset, stage.snapshot().requests), (None, 2), "{unsent:?} {seed}");
        }
    }
}

/// A client has sent more requests than a turn handles, so its connection is postponed.
#[test]
fn a_drain_ends_pipelined_requests_with_an_announced_close() {
    const PIPELINED: usize = 400;
    let http_limits = HttpLimits { output_bytes_max: 100, ..HttpLimits::default() };
    let config = SimConfig {
        traced: true,
        at_once_millionths: 1_000_000,
        recv_buf_len: 16_384,
        ..SimConfig::quiet(1, 0)
    };
    let mut stage = Stage::new(Limits::default(), http_limits, config);
    let peer = stage.sim.world_mut().add_peer(PeerPlan {
        listener: HTTP,
        addr: Some(Ipv4Addr::LOCALHOST.into()),
        connect_after: Duration::ZERO,
        script: vec![PeerStep::Send(REQUEST_OF_ONE_BYTE.repeat(PIPELINED))],
        reading: Reading::Eager,
        window_len: 1 << 20,
        ignores_fin: false,
    });
    while stage.snapshot().requests == 0 {
        assert!(stage.turn());
    }
    drain(&stage);
    while stage.turn() {}
    let log = stage.sim.world().log(peer).clone();
    let received = String::from_utf8_lossy(&log.received);
    let replies = received.matches("HTTP/1.1 200 ").count();
    assert!((1..PIPELINED).contains(&replies), "{replies}");
    assert_eq!(received.matches("\r\nConnection: close\r\n").count(), 1, "{replies}");
}

#[test]
fn a_first_request_that_arrived_before_the_end_of_the_wait_for_it_is_answered() {
    for beginning in BEGINNINGS {
        for after_ms in (0..130).step_by(7) {
            let (mut stage, peer) = begun(beginning);
            drain(&stage);
            stage.run_for(Limits::default().linger_timeout + Duration::from_millis(after_ms));
            if stage.snapshot().closed_total() == 0 {
                send_reported_late(&mut stage, peer);
            }
            let is_closing = |line: &String| line.contains("cancel of") || line.contains("shutdown_write of");
            let expected = u64::from(!stage.sim.world().trace().iter().any(is_closing));
            while stage.turn() {}
            assert_eq!(stage.snapshot().requests, expected, "{beginning:?}, {after_ms} ms");
        }
    }
}

#[test]
fn without_a_drain_each_is_closed_by_its_timeout() {
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
