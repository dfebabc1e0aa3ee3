//! Checks that one of several instances runs for all.
//!
//! Does not know about: any store, schedules of other checks.

#[cfg(feature = "tokio")]
mod drive;
mod machine;
mod message;

#[cfg(feature = "tokio")]
pub use drive::{Local, ShareView, Shares};
pub use machine::{Action, ShareCounters, ShareMachine, ShareOptions};
pub use message::{Message, SharedResult};
