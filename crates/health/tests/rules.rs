//! Single conditions of single rules: deciding checks, codes, the newer of two results, TTL checks.
//! Each condition has a pair of cases that differ only in this condition.
//!
//! Does not know about: rules in general (see `endpoints.rs`).

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::time::Duration;

use doorbell_health::{
    Audience, Board, Cause, CheckConfig, CheckIndex, CheckResult, CheckState, EndpointConfig, EndpointIndex,
    EndpointState, Excluded, FailOpen, Format, Grace, Inheritance, Outcome, Quorum, Severity, Time, Use,
};

const SECOND: Duration = Duration::from_secs(1);
const UP: Outcome = Outcome::Success;
const DOWN: Outcome = Outcome::Failure;

fn at(secs: u64) -> Time {
    Time::from_secs(secs)
}

fn quick() -> CheckConfig {
    CheckConfig { rise: 1, fall: 1, max_age: Some(100 * SECOND), ..CheckConfig::default() }
}

/// A board with checks that are decided by their last result, and with one endpoint.
fn bench(
    checks: usize,
    config: impl FnOnce(EndpointConfig, &[CheckIndex]) -> EndpointConfig,
) -> (Board, Vec<CheckIndex>, EndpointIndex) {
    let mut builder = Board::builder(at(0));
    let checks: Vec<_> =
        (0..checks).map(|number| builder.check(&format!("c{number}"), quick()).unwrap()).collect();
    let endpoint = builder.endpoint(config(EndpointConfig::new("e"), &checks)).unwrap();
    (builder.build(), checks, endpoint)
}

fn tell(board: &mut Board, check: CheckIndex, outcome: Outcome, secs: u64) {
    let _changes = board.apply(check, &CheckResult::new(outcome, Duration::ZERO, b""), at(secs));
}

fn blamed(board: &Board, endpoint: EndpointIndex) -> (Cause, Vec<usize>) {
    let endpoint = board.endpoint(endpoint).unwrap();
    let verdict = endpoint.verdict();
    (verdict.cause, endpoint.deciding(verdict).map(|one| one.check.as_usize()).collect())
}

#[test]
fn a_missed_quorum_is_blamed_on_its_members_alone() {
    for outcome in [DOWN, Outcome::Maintenance] {
        let (mut board, checks, endpoint) = bench(4, |config, c| {
            let config = config.with_member(c[0], Severity::Degrading).with_member(c[1], Severity::Info);
            let config = config.with(c[2], Severity::Degrading).with(c[3], Severity::Info);
            EndpointConfig { quorum: Some(Quorum::Count(2)), ..config }
        });
        // One member of the quorum is up, and all others have this outcome.
        for (check, outcome) in checks.iter().zip([UP, outcome, outcome, outcome]) {
            tell(&mut board, *check, outcome, 1);
        }
        assert_eq!(blamed(&board, endpoint), (Cause::Quorum, vec![1]), "{outcome:?}");
    }
}

#[test]
fn a_member_that_is_unknown_is_blamed_once_the_grace_is_over() {
    let (mut board, checks, endpoint) = bench(3, |config, c| {
        let config = c.iter().fold(config, |config, check| config.with_member(*check, Severity::Info));
        let grace = Some(Grace { duration: 10 * SECOND });
        EndpointConfig { quorum: Some(Quorum::Count(2)), grace, ..config }
    });
    tell(&mut board, checks[0], DOWN, 1);
    tell(&mut board, checks[1], DOWN, 1);
    assert_eq!(blamed(&board, endpoint), (Cause::Quorum, vec![0, 1]));
    let _changes = board.tick(at(11));
    assert_eq!(blamed(&board, endpoint), (Cause::Quorum, vec![0, 1, 2]));
}

#[test]
fn an_open_endpoint_is_blamed_on_what_would_have_closed_it() {
    let (mut board, checks, endpoint) = bench(2, |config, c| {
        let config = config.with(c[0], Severity::Required).with(c[1], Severity::Info);
        EndpointConfig { fail_open: Some(FailOpen { max_age: 50 * SECOND, max_healthy: 0 }), ..config }
    });
    for (secs, outcome) in [(1, UP), (2, DOWN)] {
        checks.iter().for_each(|check| tell(&mut board, *check, outcome, secs));
    }
    assert_eq!(blamed(&board, endpoint), (Cause::FailOpen, vec![0]));
}

/// The state and the code of a reply that excludes these checks.
fn without(board: &Board, endpoint: EndpointIndex, out: &[usize]) -> (EndpointState, u16) {
    let snapshot = board.snapshot(endpoint).unwrap();
    let left = Excluded { out, unknown: &[] };
    snapshot.reply_without(&left, Audience::Other, Format::Kube, &mut Vec::new())
}

#[test]
fn the_code_is_that_of_the_first_down_check_that_is_not_excluded() {
    let coded = |check, severity, code| Use { code: Some(code), ..Use::new(check, severity) };
    let (mut board, checks, endpoint) = bench(5, |config, c| {
        let config = EndpointConfig {
            uses: vec![
                coded(c[0], Severity::Required, 560),
                coded(c[1], Severity::Required, 561),
                Use::new(c[2], Severity::Required),
                coded(c[3], Severity::Degrading, 563),
                coded(c[4], Severity::Info, 564),
            ],
            ..config
        };
        EndpointConfig {
            codes: doorbell_health::Codes { degraded: 210, down: 503, ..config.codes },
            ..config
        }
    });
    checks.iter().for_each(|check| tell(&mut board, *check, DOWN, 1));
    assert_eq!(board.endpoint(endpoint).unwrap().answer(Audience::Other).1, 560);
    let table = [
        (&[][..], EndpointState::Down, 560),
        (&[0], EndpointState::Down, 561),
        (&[1], EndpointState::Down, 560),
        (&[1, 0], EndpointState::Down, 503),
        (&[2, 3], EndpointState::Down, 560),
        (&[0, 1, 2], EndpointState::Degraded, 210),
        (&[0, 1, 2, 3], EndpointState::Up, 200),
    ];
    for (out, state, code) in table {
        assert_eq!(without(&board, endpoint, out), (state, code), "without {out:?}");
    }
    // The code of a check that is up is not used.
    tell(&mut board, checks[0], UP, 2);
    assert_eq!(without(&board, endpoint, &[]), (EndpointState::Down, 561));
    assert_eq!(without(&board, endpoint, &[0, 3]), (EndpointState::Down, 561));
}

#[test]
fn only_a_newer_result_of_an_elder_board_is_taken_over() {
    let make = || {
        let mut builder = Board::builder(at(0));
        let check = builder.check("a", quick()).unwrap();
        (builder.build(), check)
    };
    let ((mut elder, check), (mut board, _)) = (make(), make());
    let state = |board: &Board| board.check(check).unwrap().state();
    let inherit = |board: &mut Board, elder: &Board, carries: bool, secs: u64| {
        let inheritance = if carries { Inheritance::State } else { Inheritance::Awaits(SECOND) };
        let _changes = board.inherit_checks(elder, |_| inheritance, at(secs));
    };
    inherit(&mut board, &elder, true, 1);
    assert_eq!(state(&board), CheckState::Unknown, "neither check has a result");
    tell(&mut elder, check, UP, 2);
    inherit(&mut board, &elder, false, 3);
    assert_eq!(state(&board), CheckState::Unknown, "the target has changed");
    inherit(&mut board, &elder, true, 3);
    assert_eq!(state(&board), CheckState::Up, "the first result");

    // A result is not replaced by an older one or by one of the same time.
    tell(&mut board, check, DOWN, 5);
    inherit(&mut board, &elder, true, 6);
    assert_eq!(state(&board), CheckState::Down, "an older result");
    tell(&mut elder, check, UP, 5);
    inherit(&mut board, &elder, true, 6);
    assert_eq!(state(&board), CheckState::Down, "as old");
    tell(&mut elder, check, UP, 7);
    inherit(&mut board, &elder, false, 8);
    assert_eq!(state(&board), CheckState::Down, "newer, but the target has changed");
    inherit(&mut board, &elder, true, 8);
    assert_eq!(state(&board), CheckState::Up, "newer");

    // Inheriting from a board without results replaces no result.
    let (empty, _) = make();
    inherit(&mut board, &empty, true, 9);
    assert_eq!(state(&board), CheckState::Up);
}

#[test]
fn of_a_ttl_check_each_result_decides_alone_and_silence_makes_it_stale() {
    let mut builder = Board::builder(at(0));
    let check = builder.check("pushed", CheckConfig::ttl(10 * SECOND)).unwrap();
    let mut board = builder.build();
    let state = |board: &Board| board.check(check).unwrap().state();
    for (secs, outcome, expected) in [
        (1, UP, CheckState::Up),
        (2, DOWN, CheckState::Down),
        (3, UP, CheckState::Up),
        (4, DOWN, CheckState::Down),
    ] {
        tell(&mut board, check, outcome, secs);
        assert_eq!(state(&board), expected, "at {secs} s");
        assert_eq!(board.next_due(check), Time::MAX, "a TTL check is never run");
    }
    tell(&mut board, check, UP, 5);
    let _changes = board.tick(at(14));
    assert_eq!(state(&board), CheckState::Up);
    let _changes = board.tick(at(15));
    assert_eq!(state(&board), CheckState::Stale);
}
