//! The state machine of a check, compared with a simple oracle that examines all past events at
//! every step.
//!
//! `DOORBELL_HEALTH_CASES` sets the number of cases; default 600.

use std::collections::HashSet;
use std::time::Duration;

use doorbell_health::{
    Check, CheckConfig, CheckResult, CheckState, FlapRule, Initial, Maintenance, Outcome, Time,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// One step of a scenario.
#[derive(Clone, Copy, Debug)]
enum Step {
    Result(Outcome),
    /// Maintenance by an operator, optionally with an end after this many seconds.
    Maintain(Option<u64>),
    MaintainEnd,
    /// Time passes without another event.
    Wait,
}

/// All past events, each with its second.
struct Oracle<'a> {
    config: &'a CheckConfig,
    past: &'a [(u64, Step)],
}

impl Oracle<'_> {
    fn results(&self) -> Vec<(u64, Outcome)> {
        let results = self.past.iter().filter_map(|&(at, step)| match step {
            Step::Result(outcome) => Some((at, outcome)),
            Step::Maintain(_) | Step::MaintainEnd | Step::Wait => None,
        });
        results.collect()
    }

    fn max_age(&self) -> u64 {
        self.config.max_age().as_secs()
    }

    fn believed(&self) -> Option<bool> {
        match self.config.initial {
            Initial::Down | Initial::FullyDown => Some(false),
            Initial::FullyUp | Initial::Up => Some(true),
            Initial::Unknown => None,
        }
    }

    /// The settled value after `results`, and the times of its changes between up and down.
    fn settled(&self, results: &[(u64, Outcome)]) -> (Option<bool>, Vec<u64>) {
        let fully = matches!(self.config.initial, Initial::FullyDown | Initial::FullyUp);
        let (mut settled, mut changes) = (self.believed(), Vec::new());
        // Whether the next result alone decides, because there is none or the last one is too old.
        let mut alone = !fully;
        let mut sides: Vec<bool> = Vec::new();
        for (index, &(at, outcome)) in results.iter().enumerate() {
            let before = if index == 0 { 0 } else { results[index - 1].0 };
            let grew_old = at - before >= self.max_age() && (index > 0 || settled.is_some());
            alone |= grew_old;
            let Some(side) = outcome.is_success() else { continue };
            sides.push(side);
            let needed = if side { self.config.rise } else { self.config.fall } as usize;
            let enough =
                sides.len() >= needed && sides[sides.len() - needed..].iter().all(|&one| one == side);
            if (enough || alone) && settled != Some(side) {
                if settled.is_some() {
                    changes.push(at);
                }
                settled = Some(side);
            }
            alone = false;
        }
        (settled, changes)
    }

    fn is_flapping(&self, changes: &[u64], now: u64) -> bool {
        let Some(rule) = &self.config.flap else { return false };
        let allowed = rule.transitions_max as usize;
        let mut held_until = 0;
        for (index, &at) in changes.iter().enumerate() {
            let within = changes[..=index].iter().filter(|&&one| at - one <= rule.window.as_secs()).count();
            if within > allowed || at < held_until {
                held_until = at + rule.hold.as_secs();
            }
        }
        now < held_until
    }

    fn is_maintained(&self, now: u64) -> bool {
        let declared = self.past.iter().rev().find_map(|&(at, step)| match step {
            Step::Maintain(None) => Some(true),
            Step::Maintain(Some(secs)) => Some(now < at + secs),
            Step::MaintainEnd => Some(false),
            Step::Result(_) | Step::Wait => None,
        });
        declared.unwrap_or(false)
    }

    fn state(&self, now: u64) -> CheckState {
        let results = self.results();
        let (settled, changes) = self.settled(&results);
        let last = results.last().copied();
        if self.is_maintained(now) {
            return CheckState::Maintenance;
        }
        let doubtful = last.is_some() || settled.is_some();
        if doubtful && now - last.map_or(0, |(at, _)| at) >= self.max_age() {
            return CheckState::Stale;
        }
        match last {
            Some((_, Outcome::Maintenance)) => return CheckState::Maintenance,
            Some((_, Outcome::Unknown)) => return CheckState::Unknown,
            _ => {}
        }
        if self.is_flapping(&changes, now) {
            return CheckState::Flapping;
        }
        let last_side = results.iter().rev().find_map(|(_, outcome)| outcome.is_success());
        let complained = results
            .iter()
            .rev()
            .find(|(_, outcome)| outcome.is_success() == Some(true))
            .is_some_and(|(_, outcome)| *outcome == Outcome::Degraded);
        match (settled, last_side) {
            (None, _) => CheckState::Unknown,
            (Some(true), Some(false)) => CheckState::GoingDown,
            (Some(true), _) if complained => CheckState::Degraded,
            (Some(true), _) => CheckState::Up,
            (Some(false), Some(true)) => CheckState::GoingUp,
            (Some(false), _) => CheckState::Down,
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Result(Outcome::Success)),
        6 => Just(Step::Result(Outcome::Failure)),
        1 => Just(Step::Result(Outcome::Timeout)),
        1 => Just(Step::Result(Outcome::Error)),
        3 => Just(Step::Result(Outcome::Degraded)),
        1 => Just(Step::Result(Outcome::Maintenance)),
        1 => Just(Step::Result(Outcome::Unknown)),
        1 => prop::option::of(1_u64..20).prop_map(Step::Maintain),
        1 => Just(Step::MaintainEnd),
        3 => Just(Step::Wait),
    ]
}

fn config() -> impl Strategy<Value = CheckConfig> {
    let initial = prop::sample::select(vec![
        Initial::Down,
        Initial::FullyDown,
        Initial::FullyUp,
        Initial::Unknown,
        Initial::Up,
    ]);
    let flap =
        prop::option::of((1_u64..60, 1_u32..5, 1_u64..30).prop_map(|(window, transitions_max, hold)| {
            FlapRule { window: Duration::from_secs(window), transitions_max, hold: Duration::from_secs(hold) }
        }));
    (initial, 1_u32..4, 1_u32..4, 2_u64..40, flap).prop_map(|(initial, rise, fall, max_age, flap)| {
        CheckConfig {
            initial,
            rise,
            fall,
            flap,
            max_age: Some(Duration::from_secs(max_age)),
            history_len: 4,
            ..CheckConfig::default()
        }
    })
}

fn cases() -> u32 {
    std::env::var("DOORBELL_HEALTH_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn every_state_is_what_the_whole_past_says(
        config in config(),
        steps in vec((0_u64..12, step()), 1..60),
        // Interval of additional ticks between results; it must not affect the states.
        tick_every in 1_u64..9,
    ) {
        let mut check = Check::new(config.clone(), Time::ZERO).unwrap();
        let mut past = Vec::new();
        let mut now = 0;
        for (wait, step) in steps {
            for between in (now..now + wait).filter(|second| second % tick_every == 0) {
                check.handle_time(Time::from_secs(between));
                let expect = Oracle { config: &config, past: &past }.state(between);
                prop_assert_eq!(check.state(), expect, "second {} after {:?}", between, past);
            }
            now += wait;
            let at = Time::from_secs(now);
            let before = check.state();
            let moves = match step {
                Step::Result(outcome) => {
                    check.handle_result(&CheckResult::new(outcome, Duration::ZERO, b""), at)
                }
                Step::Maintain(secs) => {
                    let until = secs.map(|secs| Time::from_secs(now + secs));
                    [check.set_maintenance(Some(Maintenance::new("", at, until)), at), None]
                }
                Step::MaintainEnd => [check.set_maintenance(None, at), None],
                Step::Wait => [check.handle_time(at), None],
            };
            past.push((now, step));
            let expect = Oracle { config: &config, past: &past }.state(now);
            prop_assert_eq!(check.state(), expect, "second {} after {:?}", now, past);
            // The transitions lead from the previous state to the current one without a gap.
            let mut led = before;
            for moved in moves.into_iter().flatten() {
                prop_assert_eq!(moved.from, led);
                prop_assert_ne!(moved.from, moved.to);
                led = moved.to;
            }
            prop_assert_eq!(led, check.state());
            prop_assert!(check.deadline() > at, "no deadline is overdue");
            if matches!(step, Step::Result(_)) {
                let due = check.next_due();
                prop_assert_eq!(due, at.after(check.interval()), "one interval after a run of zero duration");
            }
        }
    }
}

#[test]
fn the_steps_reach_every_state() {
    let mut runner = TestRunner::deterministic();
    let mut seen = HashSet::new();
    for _ in 0..200 {
        let config = config().new_tree(&mut runner).unwrap().current();
        let steps = vec((0_u64..12, step()), 1..60).new_tree(&mut runner).unwrap().current();
        let (mut past, mut now) = (Vec::new(), 0);
        for (wait, step) in steps {
            now += wait;
            past.push((now, step));
            seen.insert(Oracle { config: &config, past: &past }.state(now));
        }
    }
    assert_eq!(seen.len(), CheckState::ALL.len(), "{seen:?}");
}
