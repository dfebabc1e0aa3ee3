//! Connections: their table, the state of one connection, and the only code that changes its phase.

mod lifecycle;
mod state;
mod table;

pub(crate) use lifecycle::Phase;
pub(crate) use state::{AfterSend, Arriving, Conn};
pub(crate) use table::Table;
