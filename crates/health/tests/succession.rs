//! Successive boards at a reload: a new configuration alone changes no verdict.

use std::time::Duration;

use doorbell_health::{
    Board, CheckConfig, CheckResult, Command, EndpointConfig, EndpointState, FailOpen, FlapRule, Grace,
    Inheritance, Initial, OnStale, Outcome, Quorum, Reason, Severity, Target, Time, Use,
};
use proptest::collection::vec;
use proptest::prelude::*;

const CHECKS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Drain(bool),
    /// A new board with the same configuration.
    Reload,
    Result(usize, Outcome),
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let outcomes = vec![
        Outcome::Success,
        Outcome::Success,
        Outcome::Degraded,
        Outcome::Failure,
        Outcome::Failure,
        Outcome::Maintenance,
    ];
    let result =
        (0..CHECKS, prop::sample::select(outcomes)).prop_map(|(at, outcome)| Step::Result(at, outcome));
    let step = prop_oneof![
        8 => result,
        2 => Just(Step::Reload),
        1 => Just(Step::Tick),
        1 => any::<bool>().prop_map(Step::Drain),
    ];
    vec((0..8_u64, step), 1..60)
}

fn check() -> impl Strategy<Value = CheckConfig> {
    let initial = prop::sample::select(vec![
        Initial::Down,
        Initial::FullyDown,
        Initial::FullyUp,
        Initial::Unknown,
        Initial::Up,
    ]);
    let flap =
        prop::option::of((2..20_u64, 1..4_u32, 1..20_u64).prop_map(|(window, transitions_max, hold)| {
            FlapRule { window: Duration::from_secs(window), transitions_max, hold: Duration::from_secs(hold) }
        }));
    (1..4_u32, 1..4_u32, initial, 3..30_u64, flap).prop_map(|(rise, fall, initial, max_age, flap)| {
        CheckConfig {
            rise,
            fall,
            initial,
            max_age: Some(Duration::from_secs(max_age)),
            flap,
            history_len: 3,
            ..CheckConfig::default()
        }
    })
}

#[derive(Clone, Debug)]
struct Role {
    severity: Severity,
    in_quorum: bool,
    weight: u32,
}

fn role() -> impl Strategy<Value = Role> {
    let severity = prop::sample::select(vec![Severity::Degrading, Severity::Info, Severity::Required]);
    (severity, any::<bool>(), 0..3_u32).prop_map(|(severity, in_quorum, weight)| Role {
        severity,
        in_quorum,
        weight,
    })
}

/// The rules of an endpoint, besides its checks.
#[derive(Clone, Debug)]
struct Rules {
    quorum: Option<Quorum>,
    fail_open: Option<(u64, u8)>,
    latch: bool,
    grace: Option<u64>,
    on_stale: OnStale,
}

fn rules() -> impl Strategy<Value = Rules> {
    let quorum = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Quorum::Count(1))),
        1 => (1..=100_u8).prop_map(|percent| Some(Quorum::Percent(percent))),
    ];
    let on_stale =
        prop::sample::select(vec![OnStale::Degraded, OnStale::Down, OnStale::Keep, OnStale::Unknown]);
    let time = || prop::option::of(1..60_u64);
    let fail_open = prop::option::of((1..60_u64, prop::sample::select(vec![0_u8, 30, 60, 99])));
    (quorum, fail_open, any::<bool>(), time(), on_stale).prop_map(
        |(quorum, fail_open, latch, grace, on_stale)| Rules { quorum, fail_open, latch, grace, on_stale },
    )
}

fn build(checks: &[CheckConfig], roles: &[Role], rules: &Rules, now: Time) -> Board {
    let mut builder = Board::builder(now);
    let seconds = Duration::from_secs;
    let uses = checks.iter().zip(roles).enumerate().map(|(at, (config, role))| {
        let check =
            builder.check(&format!("check-{at}"), config.clone()).expect("the configuration is valid");
        Use { in_quorum: role.in_quorum, weight: role.weight, ..Use::new(check, role.severity) }
    });
    let uses: Vec<Use> = uses.collect();
    let quorum = rules.quorum.filter(|_| uses.iter().any(|one| one.in_quorum));
    let uses = uses.into_iter().map(|one| Use { in_quorum: one.in_quorum && quorum.is_some(), ..one });
    let config = EndpointConfig {
        uses: uses.collect(),
        quorum,
        fail_open: rules.fail_open.map(|(age, max_healthy)| FailOpen { max_age: seconds(age), max_healthy }),
        latch: rules.latch,
        grace: rules.grace.map(|time| Grace { duration: seconds(time) }),
        on_stale: rules.on_stale,
        ..EndpointConfig::new("ready")
    };
    builder.endpoint(config).expect("the configuration is valid");
    builder.build()
}

fn take(board: &mut Board, step: &Step, now: Time) {
    let _changes = match step {
        Step::Drain(on) => {
            let reason = on.then(|| Reason::new(b"kernel"));
            board.command(Command::Drain { target: Target::All, reason }, now)
        }
        Step::Result(at, outcome) => {
            let check = board.check_named(&format!("check-{at}")).expect("the index belongs to this board");
            board.apply(check, &CheckResult::new(*outcome, Duration::from_millis(3), b"why"), now)
        }
        Step::Reload | Step::Tick => board.tick(now),
    };
}

/// All observable properties of a board.
fn described(board: &Board) -> Vec<String> {
    let checks = board.checks().map(|(_, name, check)| {
        let history: Vec<_> = check.history().iter().collect();
        format!(
            "{name} {:?} since {:?}, every {:?}, next {:?}, {} {}, {:?}, {history:?}",
            check.state(),
            check.state_since(),
            check.interval(),
            check.next_due(),
            check.consecutive_successes(),
            check.consecutive_failures(),
            check.last_success_at(),
        )
    });
    let endpoints = board.endpoints().iter().map(|endpoint| {
        format!(
            "{:?} above {:?} since {:?}, {:?}, {:?}",
            endpoint.verdict(),
            endpoint.verdict_without_drain(),
            endpoint.state_since(),
            endpoint.weight(),
            endpoint.classes()
        )
    });
    checks.chain(endpoints).collect()
}

proptest! {
    #[test]
    fn a_board_that_is_replaced_says_what_one_that_stays_says(
        checks in vec(check(), CHECKS),
        roles in vec(role(), CHECKS),
        rules in rules(),
        steps in steps(),
    ) {
        let mut secs = 0;
        let make = |now| build(&checks, &roles, &rules, now);
        let (mut staying, mut replaced) = (make(Time::ZERO), make(Time::ZERO));
        for (pause, step) in &steps {
            secs += pause;
            let now = Time::from_secs(secs);
            for board in [&mut staying, &mut replaced] {
                take(board, &Step::Tick, now);
            }
            if matches!(step, Step::Reload) {
                let mut next = make(now);
                let _changes = next.inherit_checks(&replaced, |_| Inheritance::State, now);
                let _changes = next.inherit_endpoints(&replaced, now);
                replaced = next;
            }
            take(&mut staying, step, now);
            take(&mut replaced, step, now);
            prop_assert_eq!(described(&replaced), described(&staying), "after {:?} at {} s", step, secs);
        }
    }

    /// A check that is added changes no state before its first result. The boards have no
    /// [`Grace`], because unknown checks count as up during a grace period.
    #[test]
    fn a_check_that_joins_changes_no_state(
        checks in vec(check(), CHECKS),
        roles in vec(role(), CHECKS),
        rules in rules().prop_map(|rules| Rules { grace: None, ..rules }),
        steps in steps(),
        joins in (check(), role()),
    ) {
        let mut secs = 0;
        let mut roles = roles;
        let mut board = build(&checks, &roles, &rules, Time::ZERO);
        for (pause, step) in &steps {
            secs += pause;
            take(&mut board, step, Time::from_secs(secs));
        }
        let now = Time::from_secs(secs);
        take(&mut board, &Step::Tick, now);
        let before = board.endpoints()[0].verdict_without_drain();
        let (check, role) = joins;
        // Excluded case: the endpoint fails open, and its group is the quorum. A new check that is
        // both required and in the quorum ends fail-open, whatever the check's class.
        let closes = role.severity == Severity::Required && role.in_quorum;
        prop_assume!(!(closes && rules.quorum.is_some() && rules.fail_open.is_some()));
        // Excluded case: the new check is the first member of a quorum that had no members.
        let has_quorum = |roles: &[Role]| roles.iter().any(|role| role.in_quorum);
        prop_assume!(rules.quorum.is_none() || has_quorum(&roles) || !role.in_quorum);
        roles.push(role);
        let checks: Vec<CheckConfig> = checks.iter().cloned().chain([check]).collect();
        let mut next = build(&checks, &roles, &rules, now);
        let last = format!("check-{CHECKS}");
        let inheritance = |name: &str| if *name == *last { Inheritance::Awaits(Duration::from_secs(3)) } else { Inheritance::State };
        let _changes = next.inherit_checks(&board, inheritance, now);
        let _changes = next.inherit_endpoints(&board, now);
        let after = next.endpoints()[0].verdict_without_drain();
        prop_assert_eq!(after.state, before.state, "{:?} became {:?}", before, after);
        prop_assert!(after.state != EndpointState::Drain);
    }
}
