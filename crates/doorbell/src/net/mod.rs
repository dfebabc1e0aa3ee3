//! Listening sockets and their addresses.
//!
//! Does not know about: drivers, workers, connections in progress.

pub(crate) mod last_call;
mod listen;
mod proxy;
mod unix;

pub(crate) use listen::{Bound, Identity, Inherited, Unusable};
pub use listen::{Listen, ListenAddr, ListenError, LocalAddr};
pub(crate) use proxy::Expected;
pub use proxy::ProxyProtocol;
pub(crate) use unix::SocketFile;
