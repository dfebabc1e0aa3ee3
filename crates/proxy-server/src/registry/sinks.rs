//! Receiver of transitions: the event log.

use crate::operator::EventLog;
use doorbell_control::EventKind;
use doorbell_probes::{Transition, TransitionSink};
use std::sync::Arc;

/// Records transitions as events.
pub(super) struct EventSink(pub(super) Arc<EventLog>);

impl TransitionSink for EventSink {
    fn record(&self, transition: &Transition) {
        self.0.record(match transition.clone() {
            Transition::Check { name, from, to, reason, .. } => {
                EventKind::Check { name, from: from.into(), to: to.into(), reason }
            }
            Transition::Endpoint { name, from, to, cause, note, .. } => {
                EventKind::Endpoint { name, from: from.into(), to: to.into(), cause: cause.into(), note }
            }
        });
    }
}
