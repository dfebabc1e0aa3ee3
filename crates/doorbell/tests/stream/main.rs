//! Stream protocols: their events, limits and order without sockets, and the same over real sockets
//! on every driver.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod drains;
mod events;
mod handlers;
mod limits;
mod messages;
mod sockets;
