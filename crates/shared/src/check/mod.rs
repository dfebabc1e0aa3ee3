//! Shared checks: one of several instances runs a check for all.

#[cfg(feature = "tokio")]
mod drive;
mod machine;
mod message;

#[cfg(feature = "tokio")]
pub use drive::{Local, ShareView, Shares};
pub use machine::{Action, ShareCounters, ShareMachine, ShareOptions};
pub use message::{Message, SharedResult};
