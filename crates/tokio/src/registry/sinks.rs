//! Receivers of transitions: the log, and counters of checks.

use std::sync::Arc;

use doorbell_checks::CheckStats;
use doorbell_health::{CheckState, EndpointState};
use doorbell_probes::{Transition, TransitionSink};

/// Writes transitions to the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogSink;

/// Counts transitions of checks, by position.
#[derive(Clone, Debug)]
pub struct TransitionCounters(pub Vec<Arc<CheckStats>>);

#[derive(Clone, Copy)]
enum Level {
    Debug,
    Info,
    Warn,
}

impl TransitionSink for LogSink {
    fn write(&self, transition: &Transition) {
        let (level, what, name, from, to, why) = match transition {
            Transition::Check { name, from, to, reason, .. } => {
                (level_of_check(*to), "check", name, from.as_str(), to.as_str(), reason.as_str())
            }
            Transition::Endpoint { name, from, to, cause, .. } => {
                (level_of_endpoint(*to), "health", name, from.as_str(), to.as_str(), cause.as_str())
            }
        };
        match level {
            Level::Debug => tracing::debug!(from, to, why, "{what} {name}: {to}"),
            Level::Info => tracing::info!(from, to, why, "{what} {name}: {to}"),
            Level::Warn => tracing::warn!(from, to, why, "{what} {name}: {to}"),
        }
    }
}

const fn level_of_check(state: CheckState) -> Level {
    match state {
        CheckState::GoingDown | CheckState::GoingUp | CheckState::Unknown => Level::Debug,
        CheckState::Maintenance | CheckState::Up => Level::Info,
        CheckState::Degraded | CheckState::Down | CheckState::Flapping | CheckState::Stale => Level::Warn,
    }
}

const fn level_of_endpoint(state: EndpointState) -> Level {
    match state {
        EndpointState::Degraded | EndpointState::Down => Level::Warn,
        EndpointState::Drain | EndpointState::Maintenance | EndpointState::Up => Level::Info,
    }
}

impl TransitionSink for TransitionCounters {
    fn record(&self, transition: &Transition) {
        if let Transition::Check { check, to, .. } = transition
            && let Some(stats) = self.0.get(*check)
        {
            stats.moved_to(*to);
        }
    }
}
