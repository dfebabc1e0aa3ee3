//! Transitions of checks and endpoints, for logs, event streams and counters.

use doorbell_health::{Board, Cause, CheckState, EndpointState, Event};

/// A change of the state of one check or one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The state of a check changed.
    Check {
        /// Position of the check.
        check: usize,
        /// Name of the check.
        name: String,
        /// Former state.
        from: CheckState,
        /// New state.
        to: CheckState,
        /// Reason of the last result, or of the maintenance; may be empty.
        reason: String,
    },
    /// The state of an endpoint changed, or only its cause.
    Endpoint {
        /// Position of the endpoint.
        endpoint: usize,
        /// Name of the endpoint.
        name: String,
        /// Former state.
        from: EndpointState,
        /// New state.
        to: EndpointState,
        /// Cause of the new state.
        cause: Cause,
        /// Reason that an operator gave; may be empty.
        note: String,
    },
}

/// Receives the transitions of a registry.
pub trait TransitionSink: Send + Sync {
    /// Called in the order of the transitions, under the lock of the registry: must neither block
    /// nor call the registry.
    fn record(&self, transition: &Transition) {
        let _ = transition;
    }

    /// Called after the lock is released, so it may be slow.
    fn write(&self, transition: &Transition) {
        let _ = transition;
    }
}

impl Transition {
    /// `None` for an event of another board.
    pub(crate) fn of(event: &Event, board: &Board) -> Option<Self> {
        Some(match *event {
            Event::Check { check, moved, .. } => Self::Check {
                check: check.as_usize(),
                name: board.check_name(check)?.to_owned(),
                from: moved.from,
                to: moved.to,
                reason: board.check(check)?.reason().to_owned(),
            },
            Event::Endpoint { endpoint: index, from, to, .. } => {
                let endpoint = board.endpoint(index)?;
                Self::Endpoint {
                    endpoint: index.as_usize(),
                    name: endpoint.config().name.clone(),
                    from: from.state,
                    to: to.state,
                    cause: to.cause,
                    note: endpoint.note(to).to_owned(),
                }
            }
        })
    }
}
