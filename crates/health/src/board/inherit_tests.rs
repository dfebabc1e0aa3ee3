//! Successive boards: results are taken over and judged by the new configuration, and a check with
//! another target counts in a provisional class for a limited time.

use super::tests::{DOWN, UP, at, quick};
use super::*;
use crate::check::{CheckConfig, CheckState, FlapRule, Initial, Outcome};
use crate::endpoint::{Cause, EndpointConfig, EndpointState, FailOpen, Grace, Quorum, Severity};
use crate::{Maintenance, Reason};

/// The state of unchanged checks is kept at a reload of the configuration.
#[test]
fn a_new_board_goes_on_where_the_old_one_was() {
    let make = |b: CheckConfig, start: u64| {
        let mut builder = Board::builder(at(start));
        let checks = [("a", quick()), ("b", b), ("c", quick())]
            .map(|(name, config)| builder.check(name, config).unwrap());
        let started = EndpointConfig {
            latch: true,
            ..EndpointConfig::new("started").with(checks[0], Severity::Required)
        };
        let ready = checks
            .iter()
            .fold(EndpointConfig::new("ready"), |all, &check| all.with(check, Severity::Required));
        let endpoints = [started, ready].map(|config| builder.endpoint(config).unwrap());
        (builder.build(), checks, endpoints)
    };
    let (mut old, checks, [_, ready]) = make(quick(), 0);
    for check in checks {
        let _up = old.apply(check, &UP, at(1)).is_empty();
    }
    let _up = old.apply(checks[0], &DOWN, at(2)).is_empty();
    let _drains = old
        .command(Command::Drain { target: Target::One(ready), reason: Some(Reason::default()) }, at(3))
        .is_empty();
    let changed = CheckConfig { fall: 7, ..quick() };
    let (mut new, checks, [started, ready]) = make(changed, 4);
    // The thresholds of the second check have changed, and the third check tests another target.
    let inheritance = |name: &str| {
        if name == "c" { Inheritance::Awaits(Duration::from_secs(2)) } else { Inheritance::State }
    };
    let changes = new.inherit_checks(&old, inheritance, at(4));
    assert_eq!(changes.checks, checks);
    let states = |board: &Board| board.checks().map(|(_, _, check)| check.state()).collect::<Vec<_>>();
    assert_eq!(states(&new), [CheckState::Down, CheckState::Up, CheckState::Unknown]);
    let since = new.check(checks[0]).unwrap().state_since();
    assert_eq!(since, at(2), "the time of the last change is kept");
    let state = |board: &Board, endpoint| board.endpoint(endpoint).unwrap().answer(Audience::Other).0;
    assert_eq!(state(&new, started).state, EndpointState::Down);
    let _latched = new.inherit_endpoints(&old, at(4)).is_empty();
    assert_eq!((state(&new, started).state, state(&new, started).cause), (EndpointState::Up, Cause::Latch));
    assert_eq!(state(&new, ready).state, EndpointState::Drain);
    // Unchanged checks and endpoints cause no event.
    let (mut again, _, _) = make(quick(), 5);
    let _same = again.inherit_checks(&old, |_| Inheritance::State, at(5)).is_empty();
    let changes = again.inherit_endpoints(&old, at(5));
    assert!(
        changes
            .events
            .iter()
            .all(|event| !matches!(event, Event::Endpoint { endpoint, .. } if *endpoint == ready)),
        "{:?}",
        changes.events
    );
    // Taking over results again does not end maintenance that was declared on the new board.
    let maintenance = Some(Maintenance::new("disks", at(6), None));
    let _held = again.command(Command::MaintainCheck { check: checks[1], maintenance }, at(6)).is_empty();
    let _same = again.inherit_checks(&old, |_| Inheritance::State, at(7)).is_empty();
    assert_eq!(states(&again), [CheckState::Down, CheckState::Maintenance, CheckState::Up]);
    // Results that were taken over become stale at the same time as on the old board.
    let _later = again.tick(at(12)).is_empty();
    assert_eq!(states(&again), [CheckState::Stale, CheckState::Maintenance, CheckState::Stale]);
}

/// A board with one check and an endpoint that requires it, and the indices of both.
fn one(config: CheckConfig, endpoint: EndpointConfig, start: Time) -> (Board, CheckIndex, EndpointIndex) {
    let mut builder = Board::builder(start);
    let check = builder.check("a", config).unwrap();
    let endpoint = builder.endpoint(endpoint.with(check, Severity::Required)).unwrap();
    (builder.build(), check, endpoint)
}

fn state_of(board: &Board, endpoint: EndpointIndex) -> EndpointState {
    board.endpoint(endpoint).unwrap().answer(Audience::Other).0.state
}

#[test]
fn what_was_found_is_judged_by_the_thresholds_of_now() {
    let rule = |rise, fall| {
        let max_age = Some(Duration::from_secs(60));
        CheckConfig { rise, fall, max_age, history_len: 5, ..quick() }
    };
    // Results on the old board, thresholds of the old board, thresholds of the new board, and the
    // expected state.
    for (results, before, now, expected) in [
        ("+", rule(1, 3), rule(2, 5), CheckState::Up),
        ("+--", rule(1, 3), rule(1, 2), CheckState::Down),
        ("+--", rule(1, 3), rule(1, 4), CheckState::GoingDown),
        ("---+", rule(3, 3), rule(1, 3), CheckState::Up),
        ("---+", rule(3, 3), rule(2, 3), CheckState::GoingUp),
        // Higher thresholds do not revert a decision; only new results do.
        ("+-", rule(1, 1), rule(1, 3), CheckState::Down),
    ] {
        let (mut old, check, _) = one(before, EndpointConfig::new("ready"), at(0));
        for (second, mark) in (1..).zip(results.chars()) {
            let _changes = old.apply(check, if mark == '+' { &UP } else { &DOWN }, at(second));
        }
        let now = CheckConfig { interval: Duration::from_secs(7), history_len: 2, ..now };
        let (mut new, check, endpoint) = one(now, EndpointConfig::new("ready"), at(9));
        let _changes = new.inherit_checks(&old, |_| Inheritance::State, at(9));
        let _changes = new.inherit_endpoints(&old, at(9));
        let state = new.check(check).unwrap().state();
        assert_eq!(state, expected, "{results}");
        assert_eq!(
            state_of(&new, endpoint) == EndpointState::Up,
            matches!(state, CheckState::Up | CheckState::GoingDown)
        );
        // Only differences are reported as transitions.
        let events = new.changed_since(&old);
        let was = old.check(check).unwrap().state();
        assert_eq!(
            events.iter().any(|event| matches!(event, Event::Check { .. })),
            was != state,
            "{results}"
        );
        assert_eq!(
            events.iter().any(|event| matches!(event, Event::Endpoint { .. })),
            state_of(&old, endpoint) != state_of(&new, endpoint)
        );
        assert_eq!(new.check(check).unwrap().history().iter().len(), results.len().min(2));
        let last = at(results.len() as u64);
        assert!(new.next_due(check) <= last.after(Duration::from_secs(10)), "the new interval applies");
    }
}

#[test]
fn freshness_is_that_of_now() {
    let aged = |secs| CheckConfig { max_age: Some(Duration::from_secs(secs)), ..quick() };
    for (before, now, expected) in [(60, 5, CheckState::Stale), (5, 60, CheckState::Up)] {
        let (mut old, check, _) = one(aged(before), EndpointConfig::new("ready"), at(0));
        let _changes = old.apply(check, &UP, at(1));
        let _changes = old.tick(at(20));
        let (mut new, check, _) = one(aged(now), EndpointConfig::new("ready"), at(21));
        let _changes = new.inherit_checks(&old, |_| Inheritance::State, at(21));
        assert_eq!(new.check(check).unwrap().state(), expected);
    }
}

#[test]
fn a_check_that_asks_something_new_keeps_the_verdict_until_its_first_result() {
    let start = |result: &CheckResult<'_>| {
        let (mut old, check, _) = one(quick(), EndpointConfig::new("ready"), at(0));
        let _changes = old.apply(check, result, at(1));
        let (mut new, check, endpoint) = one(quick(), EndpointConfig::new("ready"), at(9));
        let awaits = |_: &str| Inheritance::Awaits(Duration::from_secs(3));
        let _changes = new.inherit_checks(&old, awaits, at(9));
        let _changes = new.inherit_endpoints(&old, at(9));
        let is_event = |event: &Event| matches!(event, Event::Endpoint { .. });
        assert!(!new.changed_since(&old).iter().any(is_event));
        (new, check, endpoint)
    };
    // The first result decides, whatever the previous class was.
    for (before, first, expected) in [
        (&UP, &UP, EndpointState::Up),
        (&UP, &DOWN, EndpointState::Down),
        (&DOWN, &UP, EndpointState::Up),
        (&DOWN, &DOWN, EndpointState::Down),
    ] {
        let (mut new, check, endpoint) = start(before);
        assert_eq!(new.check(check).unwrap().state(), CheckState::Unknown);
        let was = state_of(&new, endpoint);
        assert_eq!(was == EndpointState::Up, before.outcome == Outcome::Success);
        let changes = new.apply(check, first, at(11));
        let reported = changes.events.iter().any(|event| matches!(event, Event::Endpoint { .. }));
        assert_eq!((state_of(&new, endpoint), reported), (expected, was != expected));
    }
    // If there is no result until the time limit, the check becomes unknown, and the endpoint's
    // change is reported.
    let (mut new, _, endpoint) = start(&UP);
    assert!(new.deadline() <= at(12));
    let _changes = new.tick(at(11));
    assert_eq!(state_of(&new, endpoint), EndpointState::Up);
    let changes = new.tick(at(12));
    assert!(changes.events.iter().any(|event| matches!(event, Event::Endpoint { .. })));
    assert_eq!(state_of(&new, endpoint), EndpointState::Down);
}

/// A repeated call takes over results only: it neither restarts a running time limit nor begins an
/// expired one again.
#[test]
fn a_repeated_call_does_not_restart_the_wait_for_the_first_result() {
    for (repeated_at, ticks) in [(11, [11, 12]), (12, [12, 14])] {
        let (mut old, check, _) = one(quick(), EndpointConfig::new("ready"), at(0));
        let _changes = old.apply(check, &UP, at(1));
        let (mut new, check, endpoint) = one(quick(), EndpointConfig::new("ready"), at(9));
        let awaits = |_: &str| Inheritance::Awaits(Duration::from_secs(3));
        let _changes = new.inherit_checks(&old, awaits, at(9));
        let _changes = new.inherit_endpoints(&old, at(9));
        let _changes = new.inherit_checks(&old, awaits, at(repeated_at));
        for time in ticks {
            let _changes = new.tick(at(time));
            let expected = if time < 12 { EndpointState::Up } else { EndpointState::Down };
            assert_eq!(state_of(&new, endpoint), expected, "repeated at {repeated_at}, now {time}");
        }
        assert_eq!(new.check(check).unwrap().awaited_until(), None);
    }
}

/// A provisional class is not a result: the first result decides even if the state does not change.
#[test]
fn a_belief_does_not_stand_in_the_way_of_the_first_result() {
    let believed = CheckConfig { initial: Initial::Up, ..quick() };
    let (mut old, check, _) = one(quick(), EndpointConfig::new("ready"), at(0));
    let _changes = old.apply(check, &DOWN, at(1));
    let (mut new, check, endpoint) = one(believed, EndpointConfig::new("ready"), at(9));
    let _changes = new.inherit_checks(&old, |_| Inheritance::Awaits(Duration::from_secs(3)), at(9));
    let _changes = new.inherit_endpoints(&old, at(9));
    assert_eq!(state_of(&new, endpoint), EndpointState::Down, "as before");
    let _changes = new.apply(check, &UP, at(10));
    assert_eq!(state_of(&new, endpoint), EndpointState::Up);
}

#[test]
fn a_check_that_joins_an_endpoint_is_awaited_and_keeps_no_latch_up() {
    let make = |names: &[&str], start| {
        let mut builder = Board::builder(start);
        let checks: Vec<CheckIndex> =
            names.iter().map(|name| builder.check(name, quick()).unwrap()).collect();
        let with = |config: EndpointConfig| {
            checks.iter().fold(config, |config, &check| config.with(check, Severity::Required))
        };
        let ready = builder.endpoint(with(EndpointConfig::new("ready"))).unwrap();
        let latch = EndpointConfig { latch: true, ..EndpointConfig::new("started") };
        let started = builder.endpoint(with(latch)).unwrap();
        (builder.build(), checks, ready, started)
    };
    for (first, expected) in [(&UP, EndpointState::Up), (&DOWN, EndpointState::Down)] {
        let (mut old, checks, _, _) = make(&["a"], at(0));
        let _changes = old.apply(checks[0], first, at(1));
        let (mut new, checks, ready, started) = make(&["a", "b"], at(2));
        let awaits = |name: &str| {
            if name == "a" { Inheritance::State } else { Inheritance::Awaits(Duration::from_secs(3)) }
        };
        let _changes = new.inherit_checks(&old, awaits, at(2));
        let _changes = new.inherit_endpoints(&old, at(2));
        assert_eq!(state_of(&new, ready), expected);
        // A second reload while the first result is awaited keeps the provisional class.
        let (mut newer, checks_of_newer, ready_of_newer, _) = make(&["a", "b"], at(3));
        let _changes = newer.inherit_checks(&new, |_| Inheritance::State, at(3));
        let _changes = newer.inherit_endpoints(&new, at(3));
        assert_eq!(state_of(&newer, ready_of_newer), expected);
        let _changes = newer.tick(at(5));
        assert_eq!(
            state_of(&newer, ready_of_newer),
            EndpointState::Down,
            "the second reload does not restart the time"
        );
        assert_eq!(checks_of_newer.len(), checks.len());
        if first.outcome == Outcome::Failure {
            // A provisional class does not set the latch.
            let _changes = new.apply(checks[0], &UP, at(3));
            let _changes = new.tick(at(6));
            assert_eq!(state_of(&new, started), EndpointState::Down);
        }
    }
}

#[test]
fn a_grace_is_from_the_start_of_the_first_board() {
    let grace = || EndpointConfig {
        grace: Some(Grace { duration: Duration::from_secs(10) }),
        ..EndpointConfig::new("ready")
    };
    let (old, _, _) = one(quick(), grace(), at(0));
    let (mut new, _, endpoint) = one(quick(), grace(), at(9));
    let _changes = new.inherit_checks(&old, |_| Inheritance::State, at(9));
    let _changes = new.inherit_endpoints(&old, at(9));
    assert_eq!(state_of(&new, endpoint), EndpointState::Up);
    let _changes = new.tick(at(10));
    assert_eq!(state_of(&new, endpoint), EndpointState::Down);
}

/// Only results set a latch; a grace period does not.
#[test]
fn a_latch_has_no_grace() {
    let config = EndpointConfig {
        grace: Some(Grace { duration: Duration::from_secs(10) }),
        latch: true,
        ..EndpointConfig::new("started")
    };
    let (mut board, check, endpoint) = one(quick(), config, at(0));
    assert_eq!(state_of(&board, endpoint), EndpointState::Down);
    let _changes = board.apply(check, &UP, at(1));
    let _changes = board.apply(check, &DOWN, at(2));
    assert_eq!(state_of(&board, endpoint), EndpointState::Up);
}

/// A stale check that is fresh under the new `max_age` is judged by its thresholds again.
#[test]
fn what_is_fresh_again_is_judged_by_its_thresholds() {
    let rule =
        |max_age| CheckConfig { max_age: Some(Duration::from_secs(max_age)), rise: 2, fall: 2, ..quick() };
    let (mut old, check, _) = one(rule(5), EndpointConfig::new("ready"), at(0));
    let _changes = old.apply(check, &UP, at(1));
    let _changes = old.tick(at(20));
    assert_eq!(old.check(check).unwrap().state(), CheckState::Stale);
    let (mut new, check, _) = one(rule(60), EndpointConfig::new("ready"), at(21));
    let _changes = new.inherit_checks(&old, |_| Inheritance::State, at(21));
    assert_eq!(new.check(check).unwrap().state(), CheckState::Up);
    let _changes = new.apply(check, &DOWN, at(22));
    assert_eq!(new.check(check).unwrap().state(), CheckState::GoingDown, "one failure of two");
    let _changes = new.apply(check, &DOWN, at(23));
    assert_eq!(new.check(check).unwrap().state(), CheckState::Down);
}

/// Under the stricter rule, the changes up to 4 s cause a hold that ends at 14 s. The change at 50
/// s does not prolong that hold.
#[test]
fn a_stricter_flap_rule_counts_changes_as_if_it_had_always_held() {
    let rule = |transitions_max| {
        let flap =
            FlapRule { window: Duration::from_secs(5), transitions_max, hold: Duration::from_secs(10) };
        CheckConfig { flap: Some(flap), max_age: Some(Duration::from_secs(100)), ..quick() }
    };
    let results = [(1, &UP), (2, &DOWN), (3, &UP), (4, &DOWN), (50, &UP)];
    let follow = |config: CheckConfig| {
        let (mut board, check, _) = one(config, EndpointConfig::new("ready"), at(0));
        for (second, result) in results {
            let _changes = board.apply(check, result, at(second));
        }
        let _changes = board.tick(at(52));
        (board, check)
    };
    let (always, check) = follow(rule(2));
    assert_eq!(always.check(check).unwrap().state(), CheckState::Up, "the hold was over at 14 s");
    let (old, _) = follow(rule(6));
    let (mut new, check, _) = one(rule(2), EndpointConfig::new("ready"), at(52));
    let _changes = new.inherit_checks(&old, |_| Inheritance::State, at(52));
    assert_eq!(new.check(check).unwrap().state(), CheckState::Up);
}

/// A hold continues under the same rule even if the changes that caused it are no longer stored.
#[test]
fn a_hold_goes_on_under_the_same_rule() {
    let rule = |hold| {
        let flap =
            FlapRule { window: Duration::from_secs(3), transitions_max: 1, hold: Duration::from_secs(hold) };
        CheckConfig { flap: Some(flap), max_age: Some(Duration::from_secs(100)), ..quick() }
    };
    // The changes at 2 s and 3 s exceed the limit; those at 8 s and 9 s prolong the hold.
    let results = [(1, &UP), (2, &DOWN), (3, &UP), (8, &DOWN), (9, &UP)];
    for (hold, end) in [(7, 16), (5, 14), (20, 29)] {
        let (mut old, check, _) = one(rule(7), EndpointConfig::new("ready"), at(0));
        for (second, result) in results {
            let _changes = old.apply(check, result, at(second));
        }
        assert_eq!(old.check(check).unwrap().state(), CheckState::Flapping);
        let (mut new, check, _) = one(rule(hold), EndpointConfig::new("ready"), at(13));
        let _changes = new.inherit_checks(&old, |_| Inheritance::State, at(13));
        for (second, state) in
            [(13, CheckState::Flapping), (end - 1, CheckState::Flapping), (end, CheckState::Up)]
        {
            let _changes = new.tick(at(second));
            assert_eq!(new.check(check).unwrap().state(), state, "hold of {hold} s at {second} s");
        }
    }
}

/// A new check with unknown state does not end fail-open, because an unknown state does not show
/// that the shared dependency has recovered.
#[test]
fn a_check_that_joins_does_not_close_what_failed_open() {
    let make = |names: &[&str], has_quorum: bool, start: Time| {
        let mut builder = Board::builder(start);
        let checks: Vec<CheckIndex> =
            names.iter().map(|name| builder.check(name, quick()).unwrap()).collect();
        let config = EndpointConfig {
            fail_open: Some(FailOpen { max_age: Duration::from_secs(60), max_healthy: 0 }),
            quorum: has_quorum.then_some(Quorum::Count(2)),
            ..EndpointConfig::new("ready")
        };
        let config = checks.iter().fold(config, |config, &check| match has_quorum {
            true => config.with_member(check, Severity::Info),
            false => config.with(check, Severity::Required),
        });
        let endpoint = builder.endpoint(config).unwrap();
        (builder.build(), checks, endpoint)
    };
    for has_quorum in [false, true] {
        let (mut old, checks, endpoint) = make(&["a", "b"], has_quorum, at(0));
        for (result, second) in [(&UP, 1), (&DOWN, 2)] {
            checks.iter().for_each(|&check| drop(old.apply(check, result, at(second)).events.to_vec()));
        }
        let verdict = |board: &Board, endpoint| board.endpoint(endpoint).unwrap().verdict();
        let open = verdict(&old, endpoint);
        assert_eq!((open.state, open.cause), (EndpointState::Degraded, Cause::FailOpen));
        let (mut new, checks, endpoint) = make(&["a", "b", "c"], has_quorum, at(3));
        let joins = |name: &str| {
            if name == "c" { Inheritance::Awaits(Duration::from_secs(3)) } else { Inheritance::State }
        };
        let _changes = new.inherit_checks(&old, joins, at(3));
        let _changes = new.inherit_endpoints(&old, at(3));
        assert_eq!(verdict(&new, endpoint), open, "quorum: {has_quorum}");
        let _changes = new.apply(checks[2], &DOWN, at(4));
        assert_eq!(verdict(&new, endpoint), open, "quorum: {has_quorum}");
        // The time limit of fail-open continues.
        let _changes = new.tick(at(61));
        assert_eq!(verdict(&new, endpoint), open);
        for check in checks {
            let _changes = new.apply(check, &DOWN, at(61));
        }
        let _changes = new.tick(at(62));
        assert_eq!(state_of(&new, endpoint), EndpointState::Down);
    }
}

/// An endpoint that a new configuration adds takes part in a drain of all endpoints.
#[test]
fn an_endpoint_that_joins_drains_with_all_others() {
    let (mut old, _, _) = one(quick(), EndpointConfig::new("ready"), at(0));
    let reason = Some(Reason::new(b"kernel"));
    let _changes = old.command(Command::Drain { target: Target::All, reason }, at(1));
    let mut builder = Board::builder(at(2));
    let [ready, other] = ["ready", "other"].map(|name| builder.endpoint(EndpointConfig::new(name)).unwrap());
    let mut new = builder.build();
    let _changes = new.inherit_endpoints(&old, at(2));
    assert_eq!((state_of(&new, ready), state_of(&new, other)), (EndpointState::Drain, EndpointState::Drain));
    let _changes = new.command(Command::Drain { target: Target::All, reason: None }, at(3));
    assert_eq!(state_of(&new, other), EndpointState::Up);
}
