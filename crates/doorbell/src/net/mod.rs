//! Sockets before there are connections.
//!
//! Does not know about: drivers, workers.

mod listen;

pub(crate) use listen::Bound;
pub use listen::{Listen, ListenAddr, ListenError, LocalAddr};
