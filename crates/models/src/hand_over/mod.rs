//! The gate from the engine's sources, and a connection that is only a number.

use std::sync::Arc;

#[path = "../../../doorbell/src/hand_over/gate.rs"]
mod gate;

pub(crate) use gate::{Gate, Permit};

/// Stands in for a connection that is being handed over.
#[derive(Debug)]
pub(crate) struct HandedConn {
    pub(crate) number: usize,
    pub(crate) _permit: Permit,
}

/// A receiver of connections, with the same methods as the engine's trait.
pub(crate) trait Taker: Send + Sync {
    fn take(&self, conns: &mut Vec<HandedConn>);
}

/// The count and the limit of connections, with the same fields as the engine's type.
#[derive(Clone, Debug)]
pub(crate) struct HandedCount {
    pub(crate) gate: Arc<Gate>,
}

impl HandedCount {
    pub(crate) fn close(&self) {
        self.gate.close();
    }
}
