//! Boards by example: order of events, deadlines, caps, commands for unknown checks, a time that
//! runs backward.

use std::time::Duration;

use super::*;
use crate::check::{CheckConfig, CheckState, FlapRule, Outcome};
use crate::endpoint::{Cause, EndpointConfig, EndpointState, FailOpen, Forced, ForcedState, Severity, Use};
use crate::error::ConfigError;
use crate::limits::{CHECKS_MAX, ENDPOINTS_MAX};
use crate::{Details, Maintenance, Reason};

const SECOND: Duration = Duration::from_secs(1);
pub(super) const DOWN: CheckResult<'static> = CheckResult::new(Outcome::Failure, Duration::ZERO, b"refused");
pub(super) const UP: CheckResult<'static> = CheckResult::success(Duration::ZERO);

pub(super) fn at(secs: u64) -> Time {
    Time::from_secs(secs)
}

pub(super) fn quick() -> CheckConfig {
    CheckConfig { rise: 1, fall: 1, max_age: Some(10 * SECOND), history_len: 0, ..CheckConfig::default() }
}

/// A board with two checks and two endpoints. Both endpoints require the first check, and only the
/// second endpoint requires the second check.
fn pair() -> (Board, [CheckIndex; 2], [EndpointIndex; 2]) {
    let mut builder = Board::builder(at(0));
    let checks = ["a", "b"].map(|name| builder.check(name, quick()).unwrap());
    let first = EndpointConfig::new("first").with(checks[0], Severity::Required);
    let second = EndpointConfig::new("second")
        .with(checks[0], Severity::Degrading)
        .with(checks[1], Severity::Required);
    let endpoints = [first, second].map(|config| builder.endpoint(config).unwrap());
    (builder.build(), checks, endpoints)
}

fn text(board: &Board, endpoint: EndpointIndex) -> String {
    let reply = board.reply(endpoint, Audience::Other, Format::Text, false).unwrap();
    String::from_utf8(reply.body.to_vec()).unwrap()
}

#[test]
fn a_result_tells_what_it_changed() {
    let (mut board, [a, b], [first, second]) = pair();
    assert_eq!((text(&board, first), text(&board, second)), ("down\n".into(), "down\n".into()));
    let changes = board.apply(a, &UP, at(1));
    let moved = Move { from: CheckState::Unknown, to: CheckState::Up };
    assert_eq!(changes.events[0], Event::Check { at: at(1), check: a, moved });
    let [_, Event::Endpoint { endpoint, from, to, .. }] = changes.events else {
        panic!("one endpoint changed: {:?}", changes.events)
    };
    assert_eq!((*endpoint, from.state, to.state), (first, EndpointState::Down, EndpointState::Up));
    assert_eq!(changes.rendered, [first, second], "the second endpoint lists the check");
    assert_eq!(changes.checks, [a]);
    assert!(board.apply(a, &UP, at(2)).is_empty());
    assert!(!board.apply(b, &UP, at(3)).is_empty());
    assert_eq!((text(&board, first), text(&board, second)), ("up\n".into(), "up\n".into()));
    let counters = board.counters();
    assert_eq!((counters.results, counters.check_transitions, counters.endpoint_transitions), (3, 2, 2));
    assert_eq!((counters.renders, counters.ignored), (3, 0));
}

#[test]
fn invisible_changes_are_not_reported() {
    let mut builder = Board::builder(at(0));
    let check = builder.check("a", quick()).unwrap();
    let config = EndpointConfig { details: Details::Never, ..EndpointConfig::new("e") };
    builder.endpoint(config.with(check, Severity::Info)).unwrap();
    let mut board = builder.build();
    let changes = board.apply(check, &DOWN, at(1));
    assert_eq!((changes.events.len(), changes.rendered), (1, [].as_slice()), "the bytes are the same");
}

#[test]
fn time_alone_changes_states() {
    let (mut board, [a, b], [first, _]) = pair();
    assert_eq!(board.deadline(), Time::MAX);
    board.apply(a, &UP, at(1));
    board.apply(b, &UP, at(2));
    assert_eq!(board.deadline(), at(11));
    board.apply(a, &UP, at(5));
    assert_eq!(board.deadline(), at(11), "a result does not move the earlier deadline");
    assert!(board.tick(at(11)).is_empty());
    assert_eq!(board.deadline(), at(12));
    let changes = board.tick(at(12));
    let moved = Move { from: CheckState::Up, to: CheckState::Stale };
    assert_eq!(changes.events[0], Event::Check { at: at(12), check: b, moved });
    assert_eq!(board.deadline(), at(15));
    assert_eq!(board.tick(at(99)).checks, [a]);
    assert_eq!((text(&board, first), board.deadline()), ("down\n".into(), Time::MAX));
}

#[test]
fn a_tick_at_every_deadline_leaves_nothing_due() {
    let mut builder = Board::builder(at(0));
    let flap = FlapRule { window: 60 * SECOND, transitions_max: 1, hold: 7 * SECOND };
    let a = builder.check("a", CheckConfig { flap: Some(flap), ..quick() }).unwrap();
    let config = EndpointConfig::new("e").with(a, Severity::Required);
    let endpoint = builder
        .endpoint(EndpointConfig {
            fail_open: Some(FailOpen { max_age: 3 * SECOND, max_healthy: 0 }),
            ..config
        })
        .unwrap();
    let mut board = builder.build();
    for (secs, result) in [(1, UP), (2, DOWN), (3, UP), (4, DOWN)] {
        board.apply(a, &result, at(secs));
    }
    let seen = |board: &Board| {
        let check = board.check(a).unwrap().state();
        (check, board.endpoint(endpoint).unwrap().verdict().cause)
    };
    assert_eq!(seen(&board), (CheckState::Flapping, Cause::FailOpen));
    let mut steps = Vec::new();
    while board.deadline() < Time::MAX {
        let now = board.deadline();
        board.tick(now);
        steps.push((now, seen(&board)));
        assert!(board.deadline() > now && steps.len() < 20);
    }
    steps.dedup_by_key(|(_, seen)| *seen);
    assert_eq!(
        steps,
        [
            // The check is down from 2 s on: from 3 s it succeeds but is held down. For the group
            // this is a single outage, so fail-open ends 3 s after its start.
            (at(5), (CheckState::Flapping, Cause::Checks)),
            (at(11), (CheckState::Down, Cause::Checks)),
            (at(14), (CheckState::Stale, Cause::Checks)),
        ]
    );
}

#[test]
fn another_cause_is_shown_though_the_state_stays() {
    let (mut board, [a, _], [first, second]) = pair();
    let down = |board: &mut Board, reason: &[u8], now| {
        let changes = board.apply(a, &CheckResult::new(Outcome::Failure, Duration::ZERO, reason), now);
        (changes.events.len(), changes.rendered.to_vec())
    };
    let shown = |board: &Board| {
        let reply = board.reply(first, Audience::Other, Format::Kube, true).unwrap();
        String::from_utf8(reply.body.to_vec()).unwrap()
    };
    down(&mut board, b"refused", at(1));
    assert!(shown(&board).contains("refused"), "{}", shown(&board));
    assert_eq!(down(&mut board, b"status 500", at(2)), (0, vec![first, second]));
    assert!(shown(&board).contains("status 500"), "{}", shown(&board));
    assert_eq!(down(&mut board, b"status 500", at(3)), (0, vec![]), "a repeated cause changes nothing");
}

#[test]
fn time_does_not_run_backward() {
    let (mut board, [a, _], _) = pair();
    board.apply(a, &UP, at(50));
    let changes = board.apply(a, &DOWN, at(3));
    let Some(Event::Check { at: when, .. }) = changes.events.first() else { panic!("the check went down") };
    assert_eq!(*when, at(50));
    assert_eq!(board.next_due(a), at(60), "the down interval starts at the latest time seen");
}

#[test]
fn what_is_not_here_is_ignored_and_counted() {
    let (mut board, _, _) = pair();
    let (check, endpoint) = (CheckIndex(2), EndpointIndex(2));
    assert!(board.apply(check, &UP, at(1)).is_empty());
    assert!(board.command(Command::MaintainCheck { check, maintenance: None }, at(1)).is_empty());
    assert!(
        board
            .command(Command::Drain { target: Target::One(endpoint), reason: Some(Reason::default()) }, at(1))
            .is_empty()
    );
    assert_eq!((board.counters().ignored, board.counters().results), (3, 0));
    assert!(board.check(check).is_none() && board.endpoint(endpoint).is_none());
    assert!(board.reply(endpoint, Audience::Other, Format::Text, false).is_none());
    assert!(
        board.check_reply(endpoint, 0, Format::Text, &mut Vec::new()).is_none()
            && board.check_name(check).is_none()
    );
    assert_eq!(board.next_due(check), Time::MAX);
}

#[test]
fn a_command_twice_changes_nothing() {
    let forced = Forced { state: ForcedState::Up, reason: Reason::new(b"x"), until: Some(at(90)) };
    let maintenance = Some(Maintenance::new("x", at(0), Some(at(80))));
    let (_, [a, _], [first, _]) = pair();
    let commands = [
        Command::Drain { target: Target::All, reason: Some(Reason::default()) },
        Command::Drain { target: Target::One(first), reason: Some(Reason::default()) },
        Command::Force { target: Target::All, forced: Some(forced) },
        Command::Maintain { target: Target::One(first), maintenance: maintenance.clone() },
    ];
    for command in commands {
        let (mut board, ..) = pair();
        assert!(!board.command(command.clone(), at(1)).is_empty(), "{command:?}");
        assert!(board.command(command.clone(), at(2)).is_empty(), "{command:?}");
    }
    let (mut board, ..) = pair();
    let command = Command::MaintainCheck { check: a, maintenance };
    assert_eq!(board.command(command.clone(), at(1)).events.len(), 2, "the check and its first endpoint");
    assert_eq!(board.command(command, at(2)).events, []);
}

#[test]
fn one_is_not_all() {
    let (mut board, _, [first, second]) = pair();
    board.command(Command::Drain { target: Target::One(second), reason: Some(Reason::default()) }, at(1));
    assert_eq!((text(&board, first), text(&board, second)), ("down\n".into(), "drain\n".into()));
    board.command(Command::Drain { target: Target::All, reason: Some(Reason::default()) }, at(1));
    assert_eq!(text(&board, first), "drain\n");
    board.command(Command::Drain { target: Target::All, reason: None }, at(2));
    assert_eq!((text(&board, first), text(&board, second)), ("down\n".into(), "drain\n".into()));
    board.command(Command::Drain { target: Target::One(second), reason: None }, at(3));
    assert_eq!(text(&board, second), "down\n");
}

#[test]
fn the_reason_of_a_drain_is_that_of_the_endpoint_before_that_of_all() {
    let (mut board, _, [first, second]) = pair();
    let mut drain = |target, reason: Option<&str>| {
        let reason = reason.map(|reason| Reason::new(reason.as_bytes()));
        let changed = !board.command(Command::Drain { target, reason }, at(1)).rendered.is_empty();
        let note = |endpoint| {
            let endpoint = board.endpoint(endpoint).unwrap();
            endpoint.note(endpoint.verdict()).to_owned()
        };
        (changed, note(first), note(second))
    };
    let drained = |first: &str, second: &str| (true, first.to_owned(), second.to_owned());
    assert_eq!(drain(Target::One(second), Some("disks")), drained("", "disks"));
    assert_eq!(drain(Target::All, Some("kernel")), drained("kernel", "disks"));
    assert_eq!(
        drain(Target::One(second), Some("fans")),
        drained("kernel", "fans"),
        "the reason changes even if bodies do not show it"
    );
    assert_eq!(
        drain(Target::One(second), Some("")),
        drained("kernel", "kernel"),
        "a drain without a reason does not hide the reason of the other drain"
    );
    assert_eq!(drain(Target::One(second), None), drained("kernel", "kernel"));
    assert_eq!(drain(Target::All, None), drained("", ""));
}

#[test]
fn names() {
    let (board, [a, b], [first, second]) = pair();
    assert_eq!(
        (board.check_named("a"), board.check_named("b"), board.check_named("first")),
        (Some(a), Some(b), None)
    );
    assert_eq!((board.endpoint_named("first"), board.endpoint_named("second")), (Some(first), Some(second)));
    assert_eq!(board.check_name(b), Some("b"));
    let listed: Vec<_> = board.checks().map(|(index, name, _)| (index, name)).collect();
    assert_eq!(listed, [(a, "a"), (b, "b")]);
    assert_eq!(board.endpoints()[1].config().name, "second");
}

#[test]
fn caps() {
    let mut builder = Board::builder(at(0));
    assert_eq!(builder.check("", quick()), Err(ConfigError::NameLen));
    assert_eq!(builder.check(&"x".repeat(129), quick()), Err(ConfigError::NameLen));
    let a = builder.check(&"x".repeat(128), quick()).unwrap();
    assert_eq!(builder.check(&"x".repeat(128), quick()), Err(ConfigError::NameTaken));
    assert_eq!(builder.check("b", CheckConfig { rise: 0, ..quick() }), Err(ConfigError::Threshold));
    let config = |name: &str| EndpointConfig::new(name).with(a, Severity::Required);
    assert_eq!(builder.endpoint(config("e").with(a, Severity::Info)), Err(ConfigError::UsedTwice));
    let elsewhere = Use::new(CheckIndex(7), Severity::Info);
    assert_eq!(
        builder.endpoint(EndpointConfig { uses: vec![elsewhere], ..config("e") }),
        Err(ConfigError::UnknownCheck)
    );
    for at in 0..ENDPOINTS_MAX {
        builder.endpoint(config(&format!("e{at}"))).unwrap();
    }
    assert_eq!(builder.endpoint(config("one more")), Err(ConfigError::TooManyEndpoints));
    for at in 1..CHECKS_MAX {
        builder.check(&format!("c{at}"), quick()).unwrap();
    }
    assert_eq!(builder.check("one more", quick()), Err(ConfigError::TooManyChecks));
    let board = builder.build();
    assert_eq!(board.endpoints().len(), ENDPOINTS_MAX);
}

#[test]
fn a_name_is_free_after_a_refusal() {
    let mut builder = Board::builder(at(0));
    let a = builder.check("a", quick()).unwrap();
    let config = EndpointConfig::new("e").with(a, Severity::Required);
    assert_eq!(builder.endpoint(config.clone().with(a, Severity::Info)), Err(ConfigError::UsedTwice));
    let endpoint = builder.endpoint(config).unwrap();
    let mut board = builder.build();
    board.apply(a, &UP, at(1));
    assert_eq!(text(&board, endpoint), "up\n", "the rejected endpoint has no effect");
}

#[test]
fn uses_have_a_cap() {
    let mut builder = Board::builder(at(0));
    let checks: Vec<_> = (0..CHECKS_MAX).map(|at| builder.check(&at.to_string(), quick()).unwrap()).collect();
    let config = |name: &str| EndpointConfig {
        uses: checks.iter().map(|&check| Use::new(check, Severity::Info)).collect(),
        ..EndpointConfig::new(name)
    };
    for at in 0..16 {
        builder.endpoint(config(&at.to_string())).unwrap();
    }
    let one = EndpointConfig::new("one more").with(checks[0], Severity::Info);
    assert_eq!(builder.endpoint(one), Err(ConfigError::TooManyUses));
}

#[test]
fn a_stepped_clock_shows_from_then_on() {
    let (mut board, [a, _], [first, _]) = pair();
    let shows = |board: &Board, time: &str| {
        let reply = board.reply(first, Audience::Other, Format::HealthJson, true).unwrap();
        String::from_utf8_lossy(reply.body).contains(&format!("\"time\":\"{time}\""))
    };
    board.set_unix_at_zero(Some(Duration::from_secs(86_400)), at(0));
    board.apply(a, &UP, at(1));
    assert!(shows(&board, "1970-01-02T00:00:01Z"));
    // A correction of the clock also changes the times of earlier results in bodies.
    let changes = board.set_unix_at_zero(Some(Duration::from_secs(2 * 86_400)), at(2));
    assert!(changes.rendered.contains(&first) && changes.events.is_empty());
    assert!(shows(&board, "1970-01-03T00:00:01Z"));
    let same = board.set_unix_at_zero(Some(Duration::from_secs(2 * 86_400)), at(3));
    assert!(same.rendered.is_empty());
}

/// The time and latency in a body are updated by new results even without a transition.
#[test]
fn a_body_tells_of_a_result_that_is_not_old() {
    let (mut board, [a, _], [first, _]) = pair();
    let _changes = board.set_unix_at_zero(Some(Duration::ZERO), at(0));
    let time = |board: &Board| {
        let reply = board.reply(first, Audience::Other, Format::HealthJson, true).unwrap();
        let body = String::from_utf8_lossy(reply.body).into_owned();
        let (_, rest) = body.split_once("\"time\":\"1970-01-01T00:").expect("a time");
        let (minutes, seconds) = rest[..5].split_once(':').unwrap();
        minutes.parse::<u64>().unwrap() * 60 + seconds.parse::<u64>().unwrap()
    };
    let mut rendered = 0;
    for second in 1..=600 {
        rendered += board.apply(a, &UP, at(second)).rendered.len();
        assert!(second - time(&board) < 10, "{} at {second}", time(&board));
    }
    assert!(rendered <= 2 * 61, "at most once per 10 s and body: {rendered}");
}

#[test]
fn deciding_checks_are_listed_before_informational_ones() {
    let names = ["info-1", "info-2", "info-3", "queue", "cache", "db"];
    let severities = [Severity::Info, Severity::Info, Severity::Info, Severity::Degrading, Severity::Info];
    let mut builder = Board::builder(at(0));
    let checks = names.map(|name| builder.check(name, quick()).unwrap());
    let severities = severities.into_iter().chain([Severity::Required]);
    let config = EndpointConfig { body_len_max: 400, ..EndpointConfig::new("ready") };
    let config =
        checks.iter().zip(severities).fold(config, |config, (&check, severity)| config.with(check, severity));
    let endpoint = builder.endpoint(config).unwrap();
    let mut board = builder.build();
    let reason = [b'x'; 60];
    let failure = CheckResult::new(Outcome::Failure, Duration::ZERO, &reason);
    for check in checks {
        board.apply(check, &failure, at(1));
    }
    let body = |board: &Board, format| {
        let reply = board.reply(endpoint, Audience::Other, format, true).unwrap();
        (reply.code, String::from_utf8(reply.body.to_vec()).unwrap())
    };
    for format in Format::ALL {
        let (code, body) = body(&board, format);
        assert!(code == 503 && body.contains("db"), "{body}");
    }
    // With the required check up, the degrading check decides and is listed.
    board.apply(checks[5], &UP, at(2));
    for format in Format::ALL {
        let (code, body) = body(&board, format);
        assert!(code == 200 && body.contains("queue"), "{body}");
    }
}
