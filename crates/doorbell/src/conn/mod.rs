//! Connections: the table they live in, what one of them is, and the only code that changes its phase.
//!
//! Does not know about: drivers, protocols (a connection is generic over its protocol's state), handlers.

mod lifecycle;
mod state;
mod table;

pub(crate) use lifecycle::Phase;
pub(crate) use state::{AfterSend, Arriving, Conn};
pub(crate) use table::Table;
