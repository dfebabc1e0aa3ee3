//! Scenarios with a single cause each.
//!
//! With `DOORBELL_SIM_TRACE=1` a failing scenario prints all events.

use core::net::Ipv4Addr;
use core::time::Duration;

use doorbell::control::Command;
use doorbell::driver::Errno;
use doorbell::{CloseReason, HttpLimits, Limits};
use doorbell_testkit::sim::{
    FaultKind, FaultPlan, PeerIndex, PeerPlan, PeerStep, Reading, ResetCause, Rng, SimConfig, Unsent,
};

use super::cast::{HTTP, Kind};
use super::run::{Ending, Stage};
use super::service::pattern;
use super::verdict::judge;

/// The probability of a fault that occurs at every opportunity.
const ALWAYS: u32 = 1_000_000;

fn stage(limits: Limits, plan: FaultPlan) -> Stage {
    let traced = std::env::var_os("DOORBELL_SIM_TRACE").is_some();
    Stage::new(limits, HttpLimits::default(), SimConfig { plan, traced, ..SimConfig::quiet(1, 0) })
}

fn quiet(conns_max: u32) -> Stage {
    stage(Limits { conns_max, ..Limits::default() }, FaultPlan::none())
}

/// Lets all peers finish, then stops the worker and judges the run.
fn finish(mut stage: Stage) {
    stage.run();
    stage.shared.send(Command::Stop);
    while stage.turn() {}
    judge(&stage, Ending::None);
}

#[test]
fn every_accept_error_backs_off_and_all_clients_are_served_afterwards() {
    for (kind, errno) in FaultKind::ACCEPT_ERRNOS {
        let mut stage = stage(Limits::default(), FaultPlan::none().with(kind, ALWAYS));
        let mut rng = Rng::new(1);
        for _ in 0..20 {
            stage.add_kind(Kind::Probe, &mut rng, Duration::from_nanos(1));
        }
        stage.run_for(Duration::from_secs(10));
        // Pauses double from 10 ms to 1 s: in 10 s there are 7 shorter pauses and 9 of a second.
        // Errors of one client may be retried 16 times at once.
        let turns = stage.turns();
        assert!(turns < 150, "{errno}: {turns} turns in 10 s");
        let errors = stage.snapshot().accept_errors;
        assert!((8..60).contains(&errors), "{errno}: {errors} errors in 10 s");
        stage.sim.world_mut().set_plan(FaultPlan::none());
        finish(stage);
    }
}

#[test]
fn an_accept_error_while_the_table_is_full_does_not_spin() {
    for errno_of in [FaultKind::AcceptProcessFds, FaultKind::AcceptConnAborted, FaultKind::AcceptInvalid] {
        let mut stage = quiet(1);
        let mut rng = Rng::new(2);
        stage.sim.world_mut().fail_next_disarm(errno_of);
        // This client occupies the only slot for 10 s.
        stage.add_kind(Kind::Silent, &mut rng, Duration::from_nanos(1));
        stage.run_for(Duration::from_millis(100));
        assert_eq!(stage.snapshot().accept_errors, 1, "the disarm ended with an error");
        stage.add_kind(Kind::Probe, &mut rng, Duration::from_nanos(1));
        stage.run_for(Duration::from_secs(9));
        assert!(stage.turns() < 400, "{errno_of}: {} turns in 9 s", stage.turns());
        finish(stage);
    }
}

#[test]
fn a_full_table_accepts_and_resets_no_client_and_recovers() {
    for conns_max in [1, 2, 10, 100] {
        for batch in [1, 16, 300] {
            let traced = std::env::var_os("DOORBELL_SIM_TRACE").is_some();
            let config = SimConfig { accept_batch_max: batch, traced, ..SimConfig::quiet(3, 0) };
            let limits = Limits { conns_max, ..Limits::default() };
            let mut stage = Stage::new(limits, HttpLimits::default(), config);
            let mut rng = Rng::new(3);
            for _ in 0..conns_max {
                stage.add_kind(Kind::Silent, &mut rng, Duration::from_nanos(1));
            }
            stage.run_for(Duration::from_millis(50));
            for _ in 0..200 {
                stage.add_kind(Kind::Probe, &mut rng, Duration::from_nanos(1));
            }
            stage.run_for(Duration::from_secs(9));
            let waiting = stage.sim.world().backlog_len(HTTP);
            assert_eq!(waiting, 200, "conns_max {conns_max}: all others wait in the backlog");
            assert!(stage.turns() < 1_000, "{} turns for {conns_max} idle connections", stage.turns());
            // The silent clients are closed after 10 s; one second later no client waits.
            stage.run_for(Duration::from_millis(2_300));
            if conns_max >= 10 {
                assert!(
                    stage.sim.world().backlog_len(HTTP) < 200,
                    "conns_max {conns_max}: waiting clients are accepted again"
                );
            }
            assert!(stage.snapshot().table_full >= 1);
            finish(stage);
        }
    }
}

#[test]
fn a_stalled_accept_is_detected_and_downgraded() {
    let mut stage = stage(Limits::default(), FaultPlan::none().with(FaultKind::AcceptStalled, ALWAYS));
    let mut rng = Rng::new(4);
    let peer = stage.add_kind(Kind::Probe, &mut rng, Duration::from_nanos(1));
    stage.run();
    let waited = stage.sim.world().log(peer).accepted_at.expect("the peer was accepted")
        - doorbell_testkit::clock::START_NANOS;
    assert!(waited < 8_000_000_000, "the stall was detected after {waited} ns");
    let snapshot = stage.snapshot();
    assert_eq!(
        (snapshot.accept_stalls, snapshot.accept_downgrades),
        (2, 2),
        "multishot, single-shot, readiness"
    );
    stage.sim.world_mut().set_plan(FaultPlan::none());
    finish(stage);
}

#[test]
fn an_idle_listener_is_not_taken_for_a_stalled_one() {
    let mut stage = quiet(10);
    let mut rng = Rng::new(5);
    stage.add_kind(Kind::Silent, &mut rng, Duration::from_nanos(1));
    stage.run_for(Duration::from_secs(120));
    assert_eq!(stage.snapshot().accept_stalls, 0);
    assert!(stage.turns() < 400, "{} turns in two idle minutes", stage.turns());
}

#[test]
fn a_burst_beyond_the_table_is_served_in_turn() {
    let config = SimConfig { accept_batch_max: 4_096, ..SimConfig::quiet(6, 0) };
    let limits = Limits { conns_max: 64, conns_per_ip_max: 0, ..Limits::default() };
    let mut stage = Stage::new(limits, HttpLimits::default(), config);
    let mut rng = Rng::new(6);
    for _ in 0..4_096 {
        stage.add_kind(Kind::Probe, &mut rng, Duration::from_nanos(1));
    }
    finish(stage);
}

#[test]
fn a_completion_of_an_earlier_use_of_a_slot_changes_nothing() {
    let mut stage = stage(
        Limits { conns_max: 4, ..Limits::default() },
        FaultPlan::none()
            .with(FaultKind::CompletionStale, ALWAYS)
            .with(FaultKind::CompletionsShuffled, ALWAYS),
    );
    let mut rng = Rng::new(7);
    for _ in 0..200 {
        stage.add_random(&mut rng, Duration::from_secs(10));
    }
    stage.run();
    assert!(stage.snapshot().stale_completions > 100);
    finish(stage);
}

#[test]
fn a_send_that_makes_no_progress_is_cut_by_a_reset() {
    for way in [FaultPlan::none(), FaultPlan::none().with(FaultKind::SendShort, ALWAYS)] {
        let mut stage = stage(Limits::default(), way);
        let mut rng = Rng::new(8);
        let peer = stage.add_kind(Kind::NeverReads, &mut rng, Duration::from_nanos(1));
        stage.run();
        let reset = stage.sim.world().log(peer).reset.expect("the peer sees a reset");
        assert_eq!(reset.1, ResetCause::Requested);
        assert_eq!(stage.snapshot().closed_because(CloseReason::WriteTimeout), 1);
        finish(stage);
    }
}

/// With direct descriptors the number of unsent bytes is unknown when the send begins. The number
/// is read at the first deadline, and compared at the second deadline.
#[test]
fn a_send_through_a_direct_descriptor_is_cut_after_its_second_deadline() {
    let config = SimConfig { unsent: Unsent::OnDemand, ..SimConfig::quiet(1, 0) };
    let mut stage = Stage::new(Limits::default(), HttpLimits::default(), config);
    let peer = stage.add_kind(Kind::NeverReads, &mut Rng::new(8), Duration::from_nanos(1));
    stage.run_for(Duration::from_secs(60));
    let log = stage.sim.world().log(peer).clone();
    let (at, cause) = log.reset.expect("the peer sees a reset");
    assert_eq!(cause, ResetCause::Requested);
    let lived = Duration::from_nanos(at - log.accepted_at.expect("accepted"));
    let deadline = Limits::default().write_timeout;
    assert!((deadline * 2..deadline * 3).contains(&lived), "{lived:?}");
    assert_eq!(stage.snapshot().closed_because(CloseReason::WriteTimeout), 1);
}

const SLOW_LEN: usize = 70_000;

/// Creates a slow but steady reader, which needs more than twice the write timeout to read a third
/// of its window.
fn slow_reader(plan: FaultPlan, unsent: Unsent) -> (Stage, PeerIndex) {
    let config = SimConfig { plan, unsent, ..SimConfig::quiet(1, 0) };
    let stage = Stage::new(Limits::default(), HttpLimits::default(), config);
    let peer = stage.sim.world_mut().add_peer(PeerPlan {
        listener: HTTP,
        addr: Some(Ipv4Addr::LOCALHOST.into()),
        connect_after: Duration::ZERO,
        script: vec![PeerStep::Send(format!("GET /echo/9/{SLOW_LEN} HTTP/1.0\r\n\r\n").into_bytes())],
        reading: Reading::Slow { len: 500, every: Duration::from_secs(1) },
        window_len: 36_000,
        ignores_fin: false,
    });
    (stage, peer)
}

/// A slow but steady reader gets its whole reply, also with direct descriptors, whose progress is
/// checked only at a deadline.
#[test]
fn a_steady_slow_reader_gets_its_whole_reply() {
    for unsent in [Unsent::Known, Unsent::OnDemand] {
        for plan in [FaultPlan::none(), FaultPlan::none().with(FaultKind::SendShort, ALWAYS / 2)] {
            let (mut stage, peer) = slow_reader(plan, unsent);
            stage.run_for(Duration::from_secs(200));
            let log = stage.sim.world().log(peer).clone();
            assert_eq!(log.reset, None, "{unsent:?}");
            let got = log.received.len();
            assert!(log.received.ends_with(&pattern(9, SLOW_LEN)), "{got} bytes, {:?}", stage.snapshot());
            assert_eq!(stage.snapshot().closed_because(CloseReason::WriteTimeout), 0, "{unsent:?}");
        }
    }
}

/// On a kernel that cannot query direct descriptors, the connection of a slow reader is closed,
/// because the engine sees only that the send buffer is full, not what the peer acknowledges.
#[test]
fn a_slow_reader_whose_progress_cannot_be_seen_is_cut() {
    let (mut stage, peer) = slow_reader(FaultPlan::none(), Unsent::Hidden);
    stage.run_for(Duration::from_secs(200));
    assert!(stage.sim.world().log(peer).reset.is_some());
    assert_eq!(stage.snapshot().closed_because(CloseReason::WriteTimeout), 1);
}

#[test]
fn a_peer_that_sends_and_never_reads_does_not_move_the_write_deadline() {
    let mut stage = quiet(10);
    let mut rng = Rng::new(9);
    let peer = stage.add_kind(Kind::NeverReads, &mut rng, Duration::from_nanos(1));
    for _ in 0..60 {
        stage.sim.world_mut().push_step(peer, PeerStep::Wait(Duration::from_secs(1)));
        stage.sim.world_mut().push_step(peer, PeerStep::Send(b"x".to_vec()));
    }
    stage.run_for(Duration::from_secs(12));
    let log = stage.sim.world().log(peer).clone();
    assert!(log.closed_at.is_some(), "closed although the peer continues to send");
}

#[test]
fn a_wait_that_overruns_a_linger_destroys_no_error_reply() {
    for seed in 0..20 {
        // With small receives, reading the rest of a refused request takes many turns.
        let config = SimConfig { recv_buf_len: 64, ..SimConfig::quiet(seed, 0) };
        let mut stage = Stage::new(Limits::default(), HttpLimits::default(), config);
        let peer = stage.add_kind(Kind::Silent, &mut Rng::new(seed), Duration::from_nanos(1));
        let refused = [b"G@T / HTTP/1.1\r\n\r\n".as_slice(), &[b'x'; 12_000]].concat();
        stage.sim.world_mut().push_step(peer, PeerStep::Send(refused));
        while stage.sim.world().log(peer).first_received_at.is_none() {
            assert!(stage.turn());
        }
        stage.sim.world_mut().set_plan(FaultPlan::none().with(FaultKind::WaitOverrun, ALWAYS));
        assert!(stage.turn() && stage.turn());
        stage.sim.world_mut().set_plan(FaultPlan::none());
        stage.run();
        let log = stage.sim.world().log(peer).clone();
        assert!(log.received.starts_with(b"HTTP/1.1 400 "), "{}", log.received.escape_ascii());
        assert_eq!((log.reset, log.closed_at.is_some()), (None, true), "seed {seed}");
    }
}

#[test]
fn a_wall_clock_that_jumps_moves_no_deadline() {
    for kind in [FaultKind::WallClockBack, FaultKind::WallClockForward] {
        let mut stage = stage(Limits::default(), FaultPlan::none().with(kind, 100_000));
        let mut rng = Rng::new(10);
        for peer in [Kind::SlowHeader, Kind::Silent, Kind::IdleKeepAlive, Kind::KeepAlive, Kind::BodyStalled]
        {
            (0..5).for_each(|_| {
                stage.add_kind(peer, &mut rng, Duration::from_secs(5));
            });
        }
        finish(stage);
    }
}

#[test]
fn a_driver_that_fails_ends_the_worker_with_its_error() {
    let mut stage = quiet(10);
    let mut rng = Rng::new(11);
    stage.add_kind(Kind::Silent, &mut rng, Duration::from_nanos(1));
    stage.run_for(Duration::from_secs(1));
    stage.sim.world_mut().set_plan(FaultPlan::none().with(FaultKind::WaitFault, ALWAYS));
    let fault = stage.worker.as_mut().expect("the worker runs").turn().expect_err("the driver failed");
    assert!([Errno::BADR, Errno::NOMEM].contains(&fault.errno), "{fault}");
    assert_eq!(fault.call, "simulated_wait");
}

#[test]
fn a_drain_finishes_requests_in_progress_and_loses_none() {
    for at_ms in [1, 200, 900, 3_000] {
        let mut stage = quiet(20);
        let mut rng = Rng::new(12);
        for _ in 0..60 {
            stage.add_kind(Kind::Probe, &mut rng, Duration::from_millis(at_ms));
            stage.add_kind(Kind::KeepAlive, &mut rng, Duration::from_millis(at_ms));
        }
        stage.run_for(Duration::from_millis(at_ms));
        stage.shared.send(Command::Drain { timeout: Duration::from_secs(60) });
        while stage.turn() {}
        assert!(stage.finished_at.is_some(), "the drain ends");
        judge(&stage, Ending::Drain(doorbell_testkit::clock::START_NANOS, Duration::from_secs(60)));
    }
}

#[test]
fn a_retiring_worker_keeps_the_timeouts_of_its_clients() {
    for at_ms in [1, 200, 900, 3_000] {
        let mut stage = quiet(200);
        let mut rng = Rng::new(13);
        let within = Duration::from_millis(at_ms);
        // A silent client keeps its timeout of 10 s, and an idle client after a reply its timeout
        // of 30 s.
        let silent = stage.add_kind(Kind::Silent, &mut rng, Duration::from_nanos(1));
        let idle = stage.add_kind(Kind::IdleKeepAlive, &mut rng, Duration::from_nanos(1));
        stage.run_for(Duration::from_secs(3));
        for _ in 0..30 {
            stage.add_kind(Kind::Probe, &mut rng, within);
            stage.add_kind(Kind::KeepAlive, &mut rng, within);
        }
        stage.run_for(within);
        stage
            .shared
            .send(Command::Retire { patience: Duration::from_secs(60), timeout: Duration::from_secs(5) });
        while stage.turn() {}
        assert!(stage.finished_at.is_some(), "the worker ends without a command");
        let log = |peer| stage.sim.world().log(peer).clone();
        let lived = |peer| {
            let log = log(peer);
            Duration::from_nanos(log.closed_at.expect("closed") - log.accepted_at.expect("accepted"))
        };
        assert!(lived(silent) >= Duration::from_secs(9), "{:?}", lived(silent));
        assert!(lived(idle) >= Duration::from_secs(29), "{:?}", lived(idle));
        judge(&stage, Ending::Retire(doorbell_testkit::clock::START_NANOS, Duration::from_secs(120)));
    }
}

#[test]
fn remaining_clients_are_drained_when_patience_ends() {
    let mut stage = quiet(10);
    let mut rng = Rng::new(14);
    let idle = stage.add_kind(Kind::IdleKeepAlive, &mut rng, Duration::from_nanos(1));
    stage.run_for(Duration::from_secs(1));
    stage.shared.send(Command::Retire { patience: Duration::from_secs(3), timeout: Duration::from_secs(5) });
    let asked_at = stage.sim.world().now();
    while stage.turn() {}
    let log = stage.sim.world().log(idle).clone();
    let took = Duration::from_nanos(log.fin_at.expect("an orderly end") - asked_at);
    assert!((Duration::from_secs(3)..Duration::from_millis(3_200)).contains(&took), "{took:?}");
    assert_eq!(log.reset, None);
}

#[test]
fn an_idle_worker_stops_at_once() {
    let mut stage = quiet(10);
    stage.run_for(Duration::from_secs(1));
    stage.shared.send(Command::Stop);
    let asked_at = stage.sim.world().now();
    while stage.turn() {}
    let took = stage.finished_at.expect("it finished") - asked_at;
    assert!(took < 10_000_000, "{took} ns");
}

#[test]
fn clients_of_the_last_call_are_served_and_later_ones_refused() {
    let mut stage = quiet(21);
    let mut rng = Rng::new(21);
    stage.shared.send(Command::Drain { timeout: Duration::from_secs(60) });
    let at_last = Duration::from_millis(95);
    let called: Vec<_> = (0..60).map(|_| stage.add_kind(Kind::Probe, &mut rng, at_last)).collect();
    let silent = stage.add_kind(Kind::Silent, &mut rng, at_last);
    stage.run_for(Duration::from_millis(150));
    let late = stage.add_kind(Kind::Probe, &mut rng, Duration::from_nanos(1));
    while stage.turn() {}
    judge(&stage, Ending::Drain(doorbell_testkit::clock::START_NANOS, Duration::from_secs(60)));
    let world = stage.sim.world();
    for peer in called {
        let log = world.log(peer);
        assert!(!log.received.is_empty() && log.reset.is_none(), "{log:?}");
    }
    assert!(world.log(late).refused);
    // The drain waits for a silent client for no longer than the linger timeout.
    let finished_at = stage.finished_at.expect("the drain ends") - doorbell_testkit::clock::START_NANOS;
    assert!(world.log(silent).accepted_at.is_some());
    assert!(Duration::from_nanos(finished_at) < Duration::from_secs(3), "{finished_at}");
}

/// A client that resets the connection before the end of the reply or of its request, although
/// earlier output was sent completely: the head of the reply, or an earlier reply.
#[test]
fn a_reset_within_a_reply_or_a_request_is_not_counted_as_one_after_the_reply() {
    const FIRST: &str = "GET /echo/1/10 HTTP/1.1\r\nHost: a\r\n\r\n";
    for (requests, expected) in [
        // The connection waits for input while the body of the reply is sent.
        (["GET /job/1/50000 HTTP/1.1\r\nHost: a\r\n\r\n", ""], CloseReason::ClientReset),
        (["GET /bytes/1/50000 HTTP/1.1\r\nHost: a\r\n\r\n", ""], CloseReason::SendFailed),
        (
            [FIRST, "POST /body/1/9 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1"],
            CloseReason::ClientReset,
        ),
        ([FIRST, "POST /body/1/9 HTTP/1.1\r\nHost"], CloseReason::ClientReset),
        ([FIRST, ""], CloseReason::ResetAfterReply),
        ([FIRST, FIRST], CloseReason::ResetAfterReply),
    ] {
        let mut stage = quiet(1);
        let peer = stage.sim.world_mut().add_peer(PeerPlan {
            listener: HTTP,
            addr: Some(Ipv4Addr::LOCALHOST.into()),
            connect_after: Duration::ZERO,
            script: Vec::new(),
            reading: Reading::Never,
            window_len: 20_000,
            ignores_fin: false,
        });
        for request in requests.into_iter().filter(|request| !request.is_empty()) {
            stage.sim.world_mut().push_step(peer, PeerStep::Send(request.into()));
            stage.run_for(Duration::from_millis(100));
        }
        stage.sim.world_mut().push_step(peer, PeerStep::Reset);
        stage.run_for(Duration::from_millis(100));
        let snapshot = stage.snapshot();
        let reasons: Vec<_> =
            CloseReason::ALL.iter().filter(|reason| snapshot.closed_because(**reason) > 0).collect();
        assert_eq!(reasons, [&expected], "{requests:?}");
    }
}
