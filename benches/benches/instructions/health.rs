//! Instruction counts of a result that changes a check's state.
//!
//! A row of `change` is one result that changes the state of a check and of its endpoint, including
//! the replies. The limit is the same with ten thousand checks as with a hundred.
use doorbell_health::{Board, CheckConfig, CheckIndex, CheckResult, EndpointConfig, Outcome, Severity, Time};
use gungraun::{library_benchmark, library_benchmark_group};
use std::time::Duration;

use crate::harness::at_most;

/// An endpoint that requires this many checks. With `result`, each check has that result; without
/// `result`, no check has one yet.
fn board(checks: usize, result: Option<&CheckResult<'_>>) -> Box<(Board, CheckIndex)> {
    let mut builder = Board::builder(Time::ZERO);
    let config = CheckConfig { rise: 1, fall: 1, ..CheckConfig::default() };
    let all: Vec<CheckIndex> = (0..checks)
        .map(|at| builder.check(&format!("check-{at:05}"), config.clone()).expect("room"))
        .collect();
    let uses = |all: EndpointConfig, &check: &CheckIndex| all.with(check, Severity::Required);
    builder.endpoint(all.iter().fold(EndpointConfig::new("readyz"), uses)).expect("room");
    let mut board = builder.build();
    if let Some(result) = result {
        for &check in &all {
            let _changes = board.apply(check, result, Time::from_secs(1));
        }
    }
    Box::new((board, all[checks / 2]))
}

const WELL: CheckResult<'_> = CheckResult::success(Duration::from_millis(1));
const ILL: CheckResult<'_> = CheckResult::new(Outcome::Failure, Duration::from_millis(1), b"refused");

// The first result arrives while no check has a result.
#[library_benchmark]
#[bench::of_100(args = (board(100, None)), config = at_most(145_000))]
#[bench::of_10_000(args = (board(10_000, None)), config = at_most(145_000))]
fn first(mut board: Box<(Board, CheckIndex)>) -> Box<(Board, CheckIndex)> {
    let (all, check) = &mut *board;
    assert!(!all.apply(*check, &WELL, Time::from_secs(2)).rendered.is_empty());
    board
}

// The first failure arrives while all checks are up.
#[library_benchmark]
#[bench::of_100(args = (board(100, Some(&WELL))), config = at_most(145_000))]
#[bench::of_10_000(args = (board(10_000, Some(&WELL))), config = at_most(145_000))]
fn fall(mut board: Box<(Board, CheckIndex)>) -> Box<(Board, CheckIndex)> {
    let (all, check) = &mut *board;
    assert!(!all.apply(*check, &ILL, Time::from_secs(2)).rendered.is_empty());
    board
}

library_benchmark_group!(name = change, benchmarks = [first, fall]);
