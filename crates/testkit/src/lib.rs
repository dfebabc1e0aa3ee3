//! Code shared by the tests of several crates: the simulator, misbehaving peers on real sockets,
//! and the rules of the workspace.
//!
//! Never published; a dev-dependency only.
//!
//! | module | what it owns |
//! |---|---|
//! | [`sim`] | a simulated driver with peers, faults and virtual time |
//! | [`clock`] | the virtual clock |
//! | [`peers`] | probers, load and misbehaving clients on real sockets |
//! | [`skip`] | reports of tests that a machine cannot run |
//! | [`figures`] | limits on measured times, asserted in long runs only |
//! | [`tidy`] | the rules of the workspace |

#![forbid(unsafe_code)]

pub mod clock;
pub mod figures;
pub mod peers;
pub mod sim;
pub mod skip;
pub mod tidy;
