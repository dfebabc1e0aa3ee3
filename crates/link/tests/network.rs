//! Tests delivery, loss and measurements on a simulated network with forced disconnects.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{Random, World};
use doorbell_link::{Ended, Event, Link, LinkOptions, State, Subject, Time};
use proptest::prelude::*;
use std::time::Duration;

const SEEDS: u64 = 100;

fn state(random: &mut Random) -> State {
    [State::Down, State::Up, State::Degraded, State::Unknown][usize::try_from(random.below(4)).unwrap()]
}

/// Both sides send transitions and results while connections break. Returns the transitions of each
/// side.
fn storm(world: &mut World, disconnects: u64, subjects: u64) -> [Vec<(String, State, String)>; 2] {
    let mut queued = [Vec::new(), Vec::new()];
    for round in 0..disconnects {
        world.connect();
        for _ in 0..world.random.below(6) {
            for (side, queued) in queued.iter_mut().enumerate() {
                for _ in 0..world.random.below(8) {
                    let name = format!("check-{}", world.random.below(subjects));
                    let state = state(&mut world.random);
                    let reason = format!("{round} {}", queued.len());
                    world.state(side, &name, state, &reason);
                    queued.push((name, state, reason));
                }
                for _ in 0..world.random.below(12) {
                    let size = usize::try_from(world.random.below(400)).unwrap();
                    world.result(side, "sized", &"x".repeat(size));
                }
            }
            let pause = Duration::from_micros(world.random.below(300_000));
            world.run(pause);
        }
        world.disconnect();
        let pause = Duration::from_micros(world.random.below(2_000_000));
        world.run(pause);
    }
    world.settle();
    queued
}

#[test]
fn each_transition_arrives_once_and_in_order() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, &LinkOptions::default());
        let queued = storm(&mut world, 20, 50);
        for (side, queued) in queued.iter().enumerate() {
            let arrived: Vec<_> = world.sides[1 - side]
                .transitions
                .iter()
                .map(|one| (one.subject.name.clone(), one.state, one.reason.clone()))
                .collect();
            assert_eq!(&arrived, queued, "seed {seed}, side {side}");
            assert_eq!(world.report(side).counters.superseded, 0);
        }
    }
}

#[test]
fn a_hundred_disconnects_lose_no_transition() {
    for seed in 0..5 {
        let mut world = World::new(1000 + seed, &LinkOptions::default());
        let queued = storm(&mut world, 100, 50);
        for (side, queued) in queued.iter().enumerate() {
            assert_eq!(world.sides[1 - side].transitions.len(), queued.len(), "seed {seed}, side {side}");
            assert!(world.report(side).counters.lost > 0, "no connection broke while frames were in flight");
        }
    }
}

#[test]
fn losses_are_drops_and_broken_connections_exactly() {
    for seed in 0..SEEDS {
        let options = LinkOptions { results_max: 8, ..LinkOptions::default() };
        let mut world = World::new(seed, &options);
        storm(&mut world, 20, 5);
        let reports = [world.report(0).counters, world.report(1).counters];
        for side in [0, 1] {
            let (own, peer) = (&reports[side], &reports[1 - side]);
            assert_eq!(own.sent, peer.received + own.lost, "seed {seed}, side {side}: frames");
            assert_eq!(world.sides[1 - side].results.len() as u64, peer.results_received);
        }
    }
}

#[test]
fn results_are_dropped_from_the_front_and_counted() {
    let options = LinkOptions { results_max: 8, ..LinkOptions::default() };
    let mut world = World::new(1, &options);
    (0..30).for_each(|number| world.result(0, "db", &number.to_string()));
    world.settle();
    let arrived: Vec<&str> = world.sides[1].results.iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(arrived, ["22", "23", "24", "25", "26", "27", "28", "29"]);
    assert_eq!(world.report(0).counters.results_dropped, 22);
}

#[test]
fn a_full_queue_keeps_the_order_and_the_latest_state_of_each_subject() {
    for seed in 0..SEEDS {
        let options = LinkOptions { transitions_max: 10, ..LinkOptions::default() };
        let mut world = World::new(seed, &options);
        let queued = storm(&mut world, 20, 15);
        for (side, queued) in queued.iter().enumerate() {
            let arrived: Vec<_> =
                world.sides[1 - side].transitions.iter().map(|one| one.reason.clone()).collect();
            let mut rest = queued.iter().map(|(_, _, reason)| reason);
            assert!(arrived.iter().all(|one| rest.any(|queued| queued == one)), "seed {seed}: in order");
            for subject in 0..15 {
                let name = format!("check-{subject}");
                let latest = queued.iter().rfind(|(queued, ..)| *queued == name).map(|(.., reason)| reason);
                let known = world.sides[1 - side].transitions.iter().rfind(|one| one.subject.name == name);
                assert_eq!(known.map(|one| &one.reason), latest, "seed {seed}, side {side}, {name}");
            }
            let lost = (queued.len() - arrived.len()) as u64;
            assert!(lost <= world.report(side).counters.superseded, "seed {seed}, side {side}");
        }
    }
}

#[test]
fn measurements_contain_the_truth_with_skewed_clocks_and_asymmetric_delays() {
    let mut receipts = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed, &LinkOptions::default());
        storm(&mut world, 5, 5);
        for side in [0, 1] {
            receipts += world.sides[side].receipts.len();
            for receipt in &world.sides[side].receipts {
                let truth = world.latency(side, receipt);
                let [low, high] = receipt.one_way;
                assert!(low <= truth && truth <= high, "seed {seed}: {low:?} <= {truth:?} <= {high:?}");
            }
            let report = world.report(side);
            let (offset, error) = report.clock_offset.unwrap();
            let wrong = offset.abs_diff(world.offset(side));
            assert!(u128::from(wrong) <= error.as_micros(), "seed {seed}: {offset} ± {error:?}");
            assert!(report.minute.unwrap().frames > 0);
        }
    }
    assert!(receipts > 10_000, "{receipts} receipts");
}

#[test]
fn the_round_trip_is_that_of_the_network() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, &LinkOptions::default());
        let truth = world.without_jitter();
        world.connect();
        for _ in 0..40 {
            (0..2).for_each(|side| world.result(side, "db", "refused"));
            let pause = Duration::from_micros(world.random.below(200_000));
            world.run(pause);
        }
        world.settle();
        for side in [0, 1] {
            for receipt in &world.sides[side].receipts {
                assert!(
                    receipt.round_trip.abs_diff(truth) < Duration::from_millis(1),
                    "seed {seed}: {receipt:?}"
                );
            }
        }
    }
}

#[test]
fn a_restarted_peer_gets_the_current_states() {
    let mut world = World::new(7, &LinkOptions::default());
    for (name, state) in [("a", State::Up), ("b", State::Down), ("a", State::Down), ("c", State::Up)] {
        world.state(0, name, state, "");
    }
    world.settle();
    world.disconnect();
    world.sides[1].link = Link::new(LinkOptions::default(), 99);
    world.sides[1].transitions.clear();
    let now = world.clock(0);
    world.sides[0].link.retain(now, |subject| subject.name != "c");
    world.settle();
    let known: Vec<String> =
        world.sides[1].transitions.iter().map(|one| format!("{} {}", one.subject.name, one.state)).collect();
    assert_eq!(known, ["c removed", "a down", "b down"]);
    assert_eq!(world.report(0).waiting, 0);
}

/// The peer knows more transitions of this side than this side has sent since the snapshot.
#[test]
fn a_side_that_is_restored_from_a_snapshot_sends_its_states_as_a_new_incarnation() {
    let mut world = World::new(7, &LinkOptions::default());
    for state in [State::Up, State::Down, State::Up] {
        world.state(0, "db", state, "");
    }
    world.settle();
    world.disconnect();
    // Both have incarnation 1.
    world.sides[0].link = Link::new(LinkOptions::default(), 1);
    world.sides[1].transitions.clear();
    world.state(0, "db", State::Down, "refused");
    assert_eq!(
        first_exchange(&mut world),
        Err(Ended::Order("opening confirms a transition that was not sent"))
    );
    world.settle();
    let known: Vec<_> =
        world.sides[1].transitions.iter().map(|one| (one.state, one.reason.as_str())).collect();
    assert_eq!(known, [(State::Down, "refused")]);
    assert_eq!((world.report(0).waiting, world.report(0).counters.connections), (0, 2));
    world.disconnect();
    world.settle();
    assert!(world.report(0).counters.lost <= 2, "{:?}", world.report(0).counters);
}

/// Connects both sides, exchanges the greetings, and delivers the opening of side 1 to side 0. Ends
/// the connection at both sides.
fn first_exchange(world: &mut World) -> Result<(), Ended> {
    let now = [0, 1].map(|side| world.clock(side));
    let [one, other] = &mut world.sides;
    let (mut greeting, mut bytes) = (Vec::new(), Vec::new());
    one.link.connected(now[0]);
    other.link.connected(now[1]);
    one.link.transmit(now[0], &mut greeting);
    other.link.receive(now[1], &greeting)?;
    other.link.transmit(now[1], &mut bytes);
    let received = one.link.receive(now[0], &bytes);
    one.link.disconnected();
    other.link.disconnected();
    received
}

/// The peer reads the greeting and the opening of this side before it opens the connection itself,
/// so it already knows this side.
#[test]
fn a_restarted_peer_that_is_slow_to_open_gets_the_current_states() {
    let mut world = World::new(7, &LinkOptions::default());
    world.state(0, "db", State::Down, "refused");
    world.state(1, "web", State::Up, "");
    world.settle();
    world.disconnect();
    world.sides[1].link = Link::new(LinkOptions::default(), 99);
    world.sides[1].transitions.clear();
    let [at_0, at_1] = [0, 1].map(|side| world.clock(side));
    let [one, other] = &mut world.sides;
    one.link.connected(at_0);
    other.link.connected(at_1);
    let (mut greeting, mut bytes) = (Vec::new(), Vec::new());
    other.link.transmit(at_1, &mut greeting);
    one.link.receive(at_0, &greeting).unwrap();
    one.link.transmit(at_0, &mut bytes);
    for _ in 0..2 {
        other.link.receive(at_1, &std::mem::take(&mut bytes)).unwrap();
        other.link.transmit(at_1, &mut bytes);
        one.link.receive(at_0, &std::mem::take(&mut bytes)).unwrap();
        one.link.transmit(at_0, &mut bytes);
    }
    let states = std::iter::from_fn(|| other.link.next_event()).filter_map(|event| match event {
        Event::Transition(one) => Some(format!("{} {}", one.subject.name, one.state)),
        _ => None,
    });
    assert_eq!(states.collect::<Vec<_>>(), ["db down"]);
}

#[test]
fn transitions_overtake_results_and_results_overtake_receipts() {
    let at = Time::from_micros;
    let [mut one, mut other] = [1, 2].map(|incarnation| Link::new(LinkOptions::default(), incarnation));
    let mut bytes = Vec::new();
    one.connected(at(0));
    other.connected(at(0));
    for _ in 0..2 {
        one.transmit(at(0), &mut bytes);
        other.receive(at(0), &std::mem::take(&mut bytes)).unwrap();
        other.transmit(at(0), &mut bytes);
        one.receive(at(0), &std::mem::take(&mut bytes)).unwrap();
    }
    let late = at(150_000);
    one.result(late, Subject::check("db"), State::Up, "result", None);
    one.transition(late, Subject::check("db"), State::Down, "transition");
    one.transmit(late, &mut bytes);
    other.receive(late, &bytes).unwrap();
    let mut order = Vec::new();
    while let Some(event) = other.next_event() {
        order.push(match event {
            Event::Opened { .. } => "opened",
            Event::Receipt(_) => "receipt",
            Event::Result(..) => "result",
            Event::Transition(_) => "transition",
        });
    }
    assert_eq!(order, ["opened", "transition", "result", "receipt"]);
}

#[test]
fn an_idle_connection_stays_open_and_a_silent_one_ends() {
    let mut world = World::new(3, &LinkOptions::default());
    world.connect();
    world.run(Duration::from_secs(600));
    let sent = world.report(0).counters.sent;
    assert!((100..400).contains(&sent), "{sent} frames in ten minutes");
    let mut alone = Link::new(LinkOptions::default(), 1);
    let start = Time::from_micros(5);
    alone.connected(start);
    assert_eq!(alone.check(start.after(Duration::from_secs(14))), Ok(()));
    assert_eq!(alone.deadline(), Some(start.after(Duration::from_secs(15))));
    assert_eq!(alone.check(start.after(Duration::from_secs(15))), Err(Ended::Silent));
}

/// A process that was stopped reads at once what has arrived since.
#[test]
fn frames_that_are_read_after_the_time_limit_are_not_applied() {
    let mut world = World::new(3, &LinkOptions::default());
    world.settle();
    let [at_0, at_1] = [0, 1].map(|side| world.clock(side));
    let [one, other] = &mut world.sides;
    let mut bytes = Vec::new();
    one.link.result(at_0, Subject::check("db"), State::Up, "", None);
    one.link.transmit(at_0, &mut bytes);
    let late = at_1.after(Duration::from_secs(3_600));
    assert_eq!(other.link.receive(late, &bytes), Err(Ended::Silent));
    assert_eq!(other.link.next_event(), None);
    assert_eq!(other.link.receive(at_1, &bytes), Ok(()));
    assert!(matches!(other.link.next_event(), Some(Event::Result(..))));
}

proptest! {
    #[test]
    fn any_bytes_of_a_peer_end_the_connection_or_wait_for_more(
        valid in 0_usize..200,
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
        cut in 1_usize..64,
    ) {
        let at = Time::from_micros(9);
        let [mut one, mut other] = [1, 2].map(|incarnation| Link::new(LinkOptions::default(), incarnation));
        let mut bytes = Vec::new();
        one.connected(at);
        other.connected(at);
        one.transition(at, Subject::check("db"), State::Down, "refused");
        other.transmit(at, &mut bytes);
        one.receive(at, &std::mem::take(&mut bytes)).unwrap();
        one.transmit(at, &mut bytes);
        bytes.truncate(valid);
        for piece in bytes.chunks(cut) {
            other.receive(at, piece).unwrap();
        }
        for chunk in chunks {
            if other.receive(at, &chunk).is_err() {
                break;
            }
        }
        let mut out = Vec::new();
        other.transmit(at, &mut out);
        other.disconnected();
        prop_assert!(other.report(at).connected_for.is_none());
    }
}
