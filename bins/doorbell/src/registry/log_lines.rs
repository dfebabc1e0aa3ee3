//! Transitions as lines of the log. Nothing is written while nothing changes.
//!
//! Does not know about: when something changes.

use doorbell_health::{Board, CheckState, EndpointState, Event};

/// One transition, in words.
#[derive(Debug)]
pub(super) struct Line {
    level: Level,
    what: &'static str,
    name: String,
    from: &'static str,
    to: &'static str,
    why: String,
}

#[derive(Clone, Copy, Debug)]
enum Level {
    Debug,
    Info,
    Warn,
}

impl Line {
    pub(super) fn of(event: &Event, board: &Board) -> Option<Self> {
        Some(match *event {
            Event::Check { check, moved, .. } => Self {
                level: match moved.to {
                    CheckState::GoingDown | CheckState::GoingUp | CheckState::Unknown => Level::Debug,
                    CheckState::Maintenance | CheckState::Up => Level::Info,
                    CheckState::Degraded | CheckState::Down | CheckState::Flapping | CheckState::Stale => {
                        Level::Warn
                    }
                },
                what: "check",
                name: board.check_name(check)?.to_owned(),
                from: moved.from.as_str(),
                to: moved.to.as_str(),
                why: board.check(check)?.reason().to_owned(),
            },
            Event::Endpoint { endpoint, from, to, .. } => Self {
                level: match to.state {
                    EndpointState::Degraded | EndpointState::Down => Level::Warn,
                    EndpointState::Drain | EndpointState::Maintenance | EndpointState::Up => Level::Info,
                },
                what: "health",
                name: board.endpoint(endpoint)?.config().name.clone(),
                from: from.state.as_str(),
                to: to.state.as_str(),
                why: to.cause.as_str().to_owned(),
            },
        })
    }

    pub(super) fn write(&self) {
        let Self { level, what, name, from, to, why } = self;
        match level {
            Level::Debug => tracing::debug!(from, to, why, "{what} {name}: {to}"),
            Level::Info => tracing::info!(from, to, why, "{what} {name}: {to}"),
            Level::Warn => tracing::warn!(from, to, why, "{what} {name}: {to}"),
        }
    }
}
