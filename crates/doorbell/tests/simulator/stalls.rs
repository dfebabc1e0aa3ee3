//! Workers whose turns are late, and requests that arrived before.

use core::time::Duration;

use doorbell::{CloseReason, HttpLimits, Limits};
use doorbell_testkit::sim::{FaultKind, FaultPlan, PeerIndex, PeerStep, Rng, SimConfig};

use super::cast::Kind;
use super::run::Stage;

const REQUEST: &[u8] = b"GET /echo/1/10 HTTP/1.1\r\nHost: a\r\n\r\n";

/// The beginning of each reply to [`REQUEST`].
const REPLY: &[u8] = b"HTTP/1.1 200 ";

/// The probability of a fault that occurs at every opportunity.
const ALWAYS: u32 = 1_000_000;

/// Connects clients, lets each of them send a second request, and stalls the worker beyond their
/// idle timeout. The wait that ends the stall reports at most 16 of the requests.
fn stalled(clients: usize, seed: u64) -> (Stage, Vec<PeerIndex>) {
    let mut stage = Stage::new(Limits::default(), HttpLimits::default(), SimConfig::quiet(seed, 0));
    let mut rng = Rng::new(seed);
    let peers: Vec<_> =
        (0..clients).map(|_| stage.add_kind(Kind::Silent, &mut rng, Duration::from_nanos(1))).collect();
    for _ in 0..2 {
        stage.run_for(Duration::from_secs(1));
        peers.iter().for_each(|peer| {
            stage.sim.world_mut().push_step(*peer, PeerStep::Send(REQUEST.to_vec()));
        });
    }
    let plan = FaultPlan::none().with(FaultKind::WaitPartial, ALWAYS);
    stage.sim.world_mut().set_plan(plan.clone().with(FaultKind::WaitStalled, ALWAYS));
    assert!(stage.turn());
    stage.sim.world_mut().set_plan(plan);
    (stage, peers)
}

fn replies(stage: &Stage, peer: PeerIndex) -> usize {
    let world = stage.sim.world();
    let received = &world.log(peer).received;
    received.windows(REPLY.len()).filter(|window| *window == REPLY).count()
}

#[test]
fn requests_that_arrived_before_a_late_turn_are_answered() {
    for seed in 0..20 {
        let (mut stage, peers) = stalled(100, seed);
        stage.run_for(Duration::from_secs(1));
        let counts: Vec<_> = peers.iter().map(|peer| replies(&stage, *peer)).collect();
        assert_eq!(counts, [2; 100], "seed {seed}");
    }
}

/// Each turn takes longer than the pause of the deadlines, as with a slow handler.
#[test]
fn requests_that_arrived_before_many_late_turns_are_answered() {
    for seed in 0..20 {
        let (mut stage, peers) = stalled(200, seed);
        for _ in 0..20 {
            stage.sim.clock().advance(Duration::from_secs(1));
            assert!(stage.turn());
        }
        stage.sim.world_mut().set_plan(FaultPlan::none());
        stage.run_for(Duration::from_secs(1));
        let counts: Vec<_> = peers.iter().map(|peer| replies(&stage, *peer)).collect();
        assert_eq!(counts, [2; 200], "seed {seed}");
    }
}

/// A worker whose turns are all late, and a client that sends one byte per turn.
#[test]
fn a_worker_that_is_always_late_closes_a_slow_client() {
    let mut stage = Stage::new(Limits::default(), HttpLimits::default(), SimConfig::quiet(1, 0));
    let peer = stage.add_kind(Kind::Silent, &mut Rng::new(1), Duration::from_nanos(1));
    stage.sim.world_mut().push_step(peer, PeerStep::Send(b"GET /".to_vec()));
    stage.run_for(Duration::from_secs(1));
    let mut turns = 0;
    while stage.snapshot().closed_total() == 0 {
        stage.sim.world_mut().push_step(peer, PeerStep::Send(b"x".to_vec()));
        stage.sim.clock().advance(Duration::from_secs(1));
        assert!(stage.turn());
        turns += 1;
        assert!(turns < 30, "{:?}", stage.snapshot());
    }
    assert_eq!(stage.snapshot().closed_because(CloseReason::HeaderTimeout), 1);
}
