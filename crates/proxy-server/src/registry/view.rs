//! Views of the registry for operators.

use super::HealthRegistry;
use crate::operator::millis;
use doorbell_control::{AnswerView, CheckView, EndpointView, ResultView, UseView};
use doorbell_health::{Audience, Board, Check, Endpoint, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of results in a view of one check.
const HISTORY_MAX: usize = 1000;

/// Maximum number of results of each check in a view of all checks.
const HISTORY_OF_ALL_MAX: usize = 10;

impl HealthRegistry {
    /// All endpoints, in the order of the configuration.
    pub(crate) fn endpoints(&self) -> Vec<EndpointView> {
        let now = self.now();
        self.with_board(|board| {
            board.endpoints().iter().map(|endpoint| endpoint_view(board, endpoint, now)).collect()
        })
    }

    /// Checks in the order of the configuration: all, or the check with this name. Each view has
    /// the position of its check, so that the caller can fill in the kind.
    pub(crate) fn checks(&self, name: Option<&str>, history: bool) -> Vec<(usize, CheckView)> {
        let now = self.now();
        let history = match (history, name) {
            (false, _) => 0,
            (true, None) => HISTORY_OF_ALL_MAX,
            (true, Some(_)) => HISTORY_MAX,
        };
        self.with_board(|board| {
            let checks = board.checks().enumerate();
            let selected = checks.filter(|(_, (_, known, _))| name.is_none_or(|name| name == *known));
            selected.map(|(at, (_, name, check))| (at, check_view(name, check, history, now))).collect()
        })
    }

    /// The time now, since `Time::ZERO`.
    pub(crate) fn since_zero(&self) -> Duration {
        self.now().since(Time::ZERO)
    }

    /// Number of checks in each state.
    pub(crate) fn check_counts(&self) -> BTreeMap<String, u32> {
        self.with_board(|board| {
            let mut counts = BTreeMap::new();
            for (_, _, check) in board.checks() {
                *counts.entry(check.state().as_str().to_owned()).or_default() += 1;
            }
            counts
        })
    }
}

fn endpoint_view(board: &Board, endpoint: &Endpoint, now: Time) -> EndpointView {
    let config = endpoint.config();
    let verdict = endpoint.verdict();
    let uses = config.uses.iter().zip(endpoint.classes()).filter_map(|(one, class)| {
        Some(UseView {
            check: board.check_name(one.check)?.to_owned(),
            severity: one.severity.into(),
            in_quorum: one.in_quorum,
            weight: one.weight,
            class: (*class).into(),
        })
    });
    EndpointView {
        name: config.name.clone(),
        state: verdict.state.into(),
        cause: verdict.cause.into(),
        note: endpoint.note(verdict).to_owned(),
        age_ms: millis(now.since(endpoint.state_since())),
        answers: Audience::ALL.map(|audience| answer_view(endpoint, audience)).into(),
        weight: endpoint.weight(),
        uses: uses.collect(),
    }
}

fn answer_view(endpoint: &Endpoint, audience: Audience) -> AnswerView {
    let (verdict, code) = endpoint.answer(audience);
    AnswerView { audience: audience.into(), state: verdict.state.into(), code }
}

fn check_view(name: &str, check: &Check, history: usize, now: Time) -> CheckView {
    let entries = check.history().iter();
    let unseen = entries.len().saturating_sub(history);
    let history = entries.skip(unseen).map(|entry| ResultView {
        age_ms: millis(now.since(entry.at)),
        outcome: entry.outcome.into(),
        latency_us: u32::try_from(entry.latency().as_micros()).unwrap_or(u32::MAX),
    });
    CheckView {
        name: name.to_owned(),
        kind: String::new(),
        from: None,
        state: check.state().into(),
        age_ms: millis(now.since(check.state_since())),
        last: check.last().map(|(at, result)| ResultView {
            age_ms: millis(now.since(at)),
            outcome: result.outcome.into(),
            latency_us: u32::try_from(result.latency.as_micros()).unwrap_or(u32::MAX),
        }),
        reason: check.reason().to_owned(),
        last_success_age_ms: check.last_success_at().map(|at| millis(now.since(at))),
        successes: check.consecutive_successes(),
        failures: check.consecutive_failures(),
        interval_ms: millis(check.interval()),
        next_in_ms: Some(check.next_due()).filter(|due| *due != Time::MAX).map(|due| millis(due.since(now))),
        history: history.collect(),
    }
}
