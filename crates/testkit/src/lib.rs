//! Code shared by the tests of several crates: the simulator, misbehaving peers on real sockets,
//! and the rules of the workspace.
//!
//! Never published; a dev-dependency only.

#![forbid(unsafe_code)]

pub mod clock;
pub mod figures;
pub mod peers;
pub mod sim;
pub mod skip;
pub mod tidy;
