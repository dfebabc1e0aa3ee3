//! The places of the hand-over as they are, and a connection that is a number.
//!
//! Does not know about: descriptors.

use std::sync::Arc;

#[path = "../../../doorbell/src/hand_over/gate.rs"]
mod gate;

pub(crate) use gate::{Gate, Permit};

/// A connection on its way.
#[derive(Debug)]
pub(crate) struct HandedConn {
    pub(crate) number: usize,
    pub(crate) _permit: Permit,
}

/// As the engine's.
pub(crate) trait Taker: Send + Sync {
    fn take(&self, conns: &mut Vec<HandedConn>);
}

/// As the engine's.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) gate: Arc<Gate>,
}

impl Places {
    pub(crate) fn close(&self) {
        self.gate.close();
    }
}
