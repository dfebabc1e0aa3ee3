//! Endpoints on a board, compared with a simple oracle that counts all their checks at every step.

use std::time::Duration;

use doorbell_health::{
    Board, Cause, CheckConfig, CheckResult, CheckState, Command, EndpointConfig, EndpointState, FailOpen,
    Forced, ForcedState, Grace, Maintenance, OnStale, Outcome, Quorum, Reason, Severity, Target, Time, Use,
};
use proptest::collection::vec;
use proptest::prelude::*;

const CHECKS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    Result(usize, Outcome),
    MaintainCheck(usize, bool),
    Drain(bool),
    Force(Option<ForcedState>),
    Maintain(bool),
    Tick,
}

/// The part of the oracle's state that the endpoint rules depend on.
#[derive(Default)]
struct Oracle {
    was_up: bool,
    group_failed_since: Option<u64>,
    draining: bool,
    maintained: bool,
    forced: Option<ForcedState>,
}

/// The class of one check as a character: up, degraded, down, maintenance, unknown.
fn mark(board: &Board, one: &Use, on_stale: OnStale) -> char {
    let check = board.check(one.check).expect("the index belongs to this board");
    let settled = |up: bool| {
        if !up {
            '-'
        } else if check.is_degraded() {
            '~'
        } else {
            '+'
        }
    };
    match check.state() {
        CheckState::Up | CheckState::GoingDown | CheckState::Degraded => settled(true),
        CheckState::Down | CheckState::GoingUp | CheckState::Flapping => '-',
        CheckState::Maintenance => 'm',
        CheckState::Unknown => '?',
        CheckState::Stale => match on_stale {
            OnStale::Degraded => '~',
            OnStale::Down => '-',
            OnStale::Keep if check.last_outcome() == Some(Outcome::Maintenance) => 'm',
            OnStale::Keep => settled(check.is_settled_up()),
            OnStale::Unknown => '?',
        },
    }
}

impl Oracle {
    fn by_checks(config: &EndpointConfig, marks: &[char], grace: bool, open: bool) -> (EndpointState, Cause) {
        let unknown = if grace { '+' } else { '-' };
        let marks: Vec<char> = marks.iter().map(|&one| if one == '?' { unknown } else { one }).collect();
        let of = |want: fn(&Use) -> bool| {
            let both = config.uses.iter().zip(&marks);
            both.filter(|(one, _)| want(one)).map(|(_, &mark)| mark).collect::<String>()
        };
        let required = of(|one| one.severity == Severity::Required);
        let degrading = of(|one| one.severity == Severity::Degrading);
        let members = of(|one| one.in_quorum);
        let up = members.matches(['+', '~']).count();
        let wanted =
            config.quorum.map_or(0, |quorum| quorum.min(u32::try_from(members.len()).expect("at most six")))
                as usize;
        let covers_required = open && config.quorum.is_none();
        if required.contains('-') && !covers_required {
            return (EndpointState::Down, Cause::Checks);
        }
        if up < wanted && !open {
            let on_purpose = up + members.matches('m').count() >= wanted;
            let state = if on_purpose { EndpointState::Maintenance } else { EndpointState::Down };
            return (state, Cause::Quorum);
        }
        if required.contains('m') {
            return (EndpointState::Maintenance, Cause::Checks);
        }
        if required.contains('-') || up < wanted {
            return (EndpointState::Degraded, Cause::FailOpen);
        }
        let complains = required.contains('~') || degrading.contains(['~', '-', 'm']);
        (if complains { EndpointState::Degraded } else { EndpointState::Up }, Cause::Checks)
    }

    fn said(&mut self, board: &Board, config: &EndpointConfig, now: u64) -> (EndpointState, Cause) {
        let marks: Vec<char> = config.uses.iter().map(|one| mark(board, one, config.on_stale)).collect();
        let in_group = |one: &Use| {
            if config.quorum.is_some() { one.in_quorum } else { one.severity == Severity::Required }
        };
        let group: Vec<char> =
            config.uses.iter().zip(&marks).filter(|(one, _)| in_group(one)).map(|(_, &mark)| mark).collect();
        let grace = config.grace.is_some_and(|grace| !config.latch && now < grace.duration.as_secs());
        let max_healthy = config.fail_open.map_or(0, |rule| usize::from(rule.max_healthy));
        let healthy = group.iter().filter(|&&mark| mark != '-').count();
        let counted = group.iter().filter(|&&mark| matches!(mark, '+' | '~') || mark == '?' && grace).count();
        let members = u32::try_from(group.len()).expect("at most six");
        let is_reached = config.quorum.is_some_and(|quorum| counted >= quorum.min(members) as usize);
        let is_failed = healthy < group.len() && healthy * 100 <= max_healthy * group.len() && !is_reached;
        self.group_failed_since = is_failed.then(|| self.group_failed_since.unwrap_or(now));
        let open = match (config.fail_open, self.group_failed_since) {
            (Some(rule), Some(since)) => self.was_up && now < since + rule.max_age.as_secs(),
            _ => false,
        };
        let grace = config.grace.is_some_and(|grace| !config.latch && now < grace.duration.as_secs());
        let serving = |state| matches!(state, EndpointState::Degraded | EndpointState::Up);
        let checks = Self::by_checks(config, &marks, grace, open);
        self.was_up |= serving(Self::by_checks(config, &marks, false, false).0);
        match self.forced {
            _ if self.maintained => (EndpointState::Maintenance, Cause::Maintenance),
            _ if self.draining => (EndpointState::Drain, Cause::Drain),
            Some(ForcedState::Degraded) => (EndpointState::Degraded, Cause::Forced),
            Some(ForcedState::Down) => (EndpointState::Down, Cause::Forced),
            Some(ForcedState::Up) => (EndpointState::Up, Cause::Forced),
            None if config.latch && self.was_up && !serving(checks.0) => (EndpointState::Up, Cause::Latch),
            None => checks,
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop::sample::select(vec![
        Outcome::Success,
        Outcome::Success,
        Outcome::Failure,
        Outcome::Failure,
        Outcome::Degraded,
        Outcome::Maintenance,
    ]);
    let forced = prop::sample::select(vec![
        None,
        None,
        None,
        Some(ForcedState::Up),
        Some(ForcedState::Down),
        Some(ForcedState::Degraded),
    ]);
    prop_oneof![
        20 => (0..CHECKS, outcome).prop_map(|(check, outcome)| Step::Result(check, outcome)),
        1 => (0..CHECKS, any::<bool>()).prop_map(|(check, begin)| Step::MaintainCheck(check, begin)),
        1 => any::<bool>().prop_map(Step::Drain),
        1 => forced.prop_map(Step::Force),
        1 => any::<bool>().prop_map(Step::Maintain),
        3 => Just(Step::Tick),
    ]
}

/// Uses with random severity, membership in the quorum, and weight.
fn uses() -> impl Strategy<Value = Vec<(Severity, bool, u32)>> {
    let severity = prop::sample::select(vec![Severity::Degrading, Severity::Info, Severity::Required]);
    vec((severity, any::<bool>(), 0_u32..100), 0..=CHECKS)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_verdict_matches_a_full_count(
        uses in uses(),
        quorum in prop::option::of(1_u8..=100),
        fail_open in prop::option::of((1_u64..40, prop::sample::select(vec![0_u8, 0, 30, 50, 99]))),
        grace in prop::option::of(1_u64..40),
        latch in any::<bool>(),
        on_stale in prop::sample::select(vec![OnStale::Degraded, OnStale::Down, OnStale::Keep, OnStale::Unknown]),
        rise in 1_u32..3,
        steps in vec((0_u64..6, step()), 1..60),
    ) {
        let mut builder = Board::builder(Time::ZERO);
        let config = CheckConfig {
            rise, fall: rise, max_age: Some(Duration::from_secs(25)), history_len: 0, ..CheckConfig::default()
        };
        let checks: Vec<_> = (0..CHECKS).map(|at| builder.check(&at.to_string(), config.clone()).unwrap()).collect();
        let members = uses.iter().any(|&(_, member, _)| member);
        let quorum = quorum.filter(|_| members).map(Quorum::Percent);
        let uses = uses.iter().zip(&checks).map(|(&(severity, member, weight), &check)| Use {
            in_quorum: member && quorum.is_some(), weight, ..Use::new(check, severity)
        });
        let config = EndpointConfig {
            uses: uses.collect(),
            quorum,
            fail_open: fail_open
                .map(|(secs, max_healthy)| FailOpen { max_age: Duration::from_secs(secs), max_healthy }),
            grace: grace.map(|secs| Grace { duration: Duration::from_secs(secs) }),
            latch,
            on_stale,
            ..EndpointConfig::new("e")
        };
        let endpoint = builder.endpoint(config.clone()).unwrap();
        let mut board = builder.build();
        let (mut oracle, mut now) = (Oracle::default(), 0);
        oracle.said(&board, &config, 0);
        for (wait, step) in steps {
            // Call `tick` at every deadline, so that the oracle sees the start of every condition.
            while board.deadline() <= Time::from_secs(now + wait) {
                let at = board.deadline();
                board.tick(at);
                let verdict = board.endpoint(endpoint).unwrap().verdict();
                let expect = oracle.said(&board, &config, at.as_nanos() / 1_000_000_000);
                prop_assert_eq!((verdict.state, verdict.cause), expect);
            }
            now += wait;
            let at = Time::from_secs(now);
            match step {
                Step::Result(check, outcome) => {
                    board.apply(checks[check], &CheckResult::new(outcome, Duration::ZERO, b"x"), at);
                }
                Step::MaintainCheck(check, begin) => {
                    let maintenance = begin.then(|| Maintenance::new("", at, None));
                    board.command(Command::MaintainCheck { check: checks[check], maintenance }, at);
                }
                Step::Drain(draining) => {
                    oracle.draining = draining;
                    board.command(Command::Drain { target: Target::All, reason: draining.then(Reason::default) }, at);
                }
                Step::Force(state) => {
                    oracle.forced = state;
                    let forced = state.map(|state| Forced { state, reason: Reason::default(), until: None });
                    board.command(Command::Force { target: Target::One(endpoint), forced }, at);
                }
                Step::Maintain(begin) => {
                    oracle.maintained = begin;
                    let maintenance = begin.then(|| Maintenance::new("", at, None));
                    board.command(Command::Maintain { target: Target::All, maintenance }, at);
                }
                Step::Tick => {
                    board.tick(at);
                }
            }
            let found = board.endpoint(endpoint).unwrap();
            let expect = oracle.said(&board, &config, now);
            prop_assert_eq!((found.verdict().state, found.verdict().cause), expect, "second {} after {:?}", now, step);
            let beneath = found.verdict_without_drain();
            let regardless = matches!(beneath.cause, Cause::FailOpen | Cause::Forced | Cause::Latch)
                && matches!(beneath.state, EndpointState::Degraded | EndpointState::Up);
            let in_grace = config.grace.is_some_and(|grace| !config.latch && now < grace.duration.as_secs());
            let weights = config.uses.iter().filter(|one| match mark(&board, one, on_stale) {
                _ if regardless => true,
                '?' => in_grace,
                mark => matches!(mark, '+' | '~'),
            });
            let weight: u32 = weights.map(|one| one.weight).sum();
            prop_assert_eq!(found.weight().unwrap_or_default(), weight);
            // If checks or a quorum decided the state, at least one check is reported as deciding.
            let by_checks = matches!(found.verdict().cause, Cause::Checks | Cause::FailOpen | Cause::Quorum);
            let blamed = found.deciding(found.verdict()).count();
            prop_assert_eq!(blamed > 0, by_checks && found.verdict().state != EndpointState::Up);
        }
    }
}
