//! A result costs no allocation while no state changes, and its cost does not depend on other
//! checks and endpoints.

use std::time::Duration;

use allocation_counter::measure;
use doorbell_health::{
    Audience, Board, CheckConfig, CheckIndex, CheckResult, EndpointConfig, FlapRule, Format, Outcome,
    Severity, Time,
};

const CHECKS: usize = 10_000;

/// 10,000 checks, all in one endpoint, and every tenth also in one of ten other endpoints.
fn board() -> (Board, Vec<CheckIndex>) {
    let mut builder = Board::builder(Time::ZERO);
    let config = CheckConfig { flap: Some(FlapRule::default()), history_len: 8, ..CheckConfig::default() };
    let checks: Vec<_> = (0..CHECKS)
        .map(|at| builder.check(&format!("check-{at}"), config.clone()).expect("the configuration is valid"))
        .collect();
    let whole =
        checks.iter().fold(EndpointConfig::new("whole"), |all, &check| all.with(check, Severity::Degrading));
    builder.endpoint(whole).expect("the configuration is valid");
    for part in 0..10 {
        let some = checks.iter().skip(part).step_by(10);
        let config = some.fold(EndpointConfig::new(format!("part-{part}")), |all, &check| {
            all.with(check, Severity::Required)
        });
        builder.endpoint(config).expect("the configuration is valid");
    }
    (builder.build(), checks)
}

#[test]
fn no_allocation_while_nothing_changes() {
    let (mut board, checks) = board();
    // The virtual time covers less than 10 s, the age at which bodies are rendered again to update
    // times and latencies.
    let mut millis = 1_000;
    let success = CheckResult::success(Duration::from_millis(1));
    let failure = CheckResult::new(Outcome::Timeout, Duration::from_secs(1), b"no answer within 1 s");
    // Half of the checks up, half of them down, each with memory for its reason.
    for (at, &check) in checks.iter().enumerate() {
        board.apply(
            check,
            if at % 2 == 0 { &success } else { &failure },
            Time::ZERO.after(Duration::from_millis(millis)),
        );
    }
    let renders = board.counters().renders;
    let info = measure(|| {
        for _ in 0..20 {
            millis += 400;
            let now = Time::ZERO.after(Duration::from_millis(millis));
            for (at, &check) in checks.iter().enumerate() {
                let changes = board.apply(check, if at % 2 == 0 { &success } else { &failure }, now);
                assert!(changes.is_empty());
            }
            assert!(board.tick(now).is_empty());
            let reply = board.endpoints()[0].rendered().reply(Audience::Kubelet, Format::Text, true);
            assert_eq!(reply.code, 200);
        }
    });
    assert_eq!(info.count_total, 0, "allocations in 200,000 results");
    assert_eq!(board.counters().renders, renders, "nothing was rendered either");
    assert_eq!(board.counters().results, 21 * CHECKS as u64);
}

#[test]
fn a_change_touches_only_the_endpoints_that_use_the_check() {
    let (mut board, checks) = board();
    let success = CheckResult::success(Duration::from_millis(1));
    for (at, &check) in checks.iter().enumerate().step_by(997) {
        let renders = board.counters().renders;
        let changes = board.apply(check, &success, Time::from_secs(1));
        assert!(changes.rendered.len() <= 2, "{at}: {:?}", changes.rendered);
        assert_eq!(board.counters().renders - renders, 2, "{at}: both endpoints of the check");
    }
}

/// The number of allocations of one change does not grow with the size of the board.
#[test]
fn a_change_allocates_the_same_on_a_large_board() {
    let allocations = |checks: usize| {
        let mut builder = Board::builder(Time::ZERO);
        let all: Vec<_> = (0..checks)
            .map(|at| {
                builder
                    .check(&format!("check-{at:05}"), CheckConfig::default())
                    .expect("the configuration is valid")
            })
            .collect();
        // The endpoint uses ten checks on a board of any size.
        let some = all.iter().step_by(checks / 10).take(10);
        builder
            .endpoint(some.fold(EndpointConfig::new("e"), |all, &check| all.with(check, Severity::Required)))
            .expect("the configuration is valid");
        let mut board = builder.build();
        let info = measure(|| {
            board.apply(all[0], &CheckResult::success(Duration::ZERO), Time::from_secs(1));
        });
        info.count_total
    };
    let small = allocations(10);
    assert!(small > 0, "a change causes rendering");
    assert_eq!(small, allocations(CHECKS));
}
