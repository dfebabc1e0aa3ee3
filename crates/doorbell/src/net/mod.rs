//! Listening sockets and their addresses.

mod balance;
mod bind;
mod buf_lens;
pub(crate) mod last_call;
mod listen;
mod options;
mod proxy;
mod unix;
mod unusable;

pub use balance::Balance;
pub(crate) use balance::allowed_cpus;
pub(crate) use bind::{Failure, copies, patient};
pub(crate) use buf_lens::BufLens;
pub(crate) use listen::{Bound, Identity, Inherited};
pub use listen::{Listen, ListenAddr, ListenError, LocalAddr};
pub(crate) use proxy::Expected;
pub use proxy::ProxyProtocol;
pub(crate) use unix::SocketFile;
pub(crate) use unusable::Unusable;
