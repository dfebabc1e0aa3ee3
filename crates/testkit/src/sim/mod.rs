//! The simulated driver: a seeded world of peers, virtual time and faults behind the contract of
//! [`doorbell::driver::Driver`].
//!
//! A test creates a [`Sim`] from a [`SimConfig`], adds peers with scripts to its [`World`], passes
//! [`Sim::driver`] and [`Sim::clock`] to a worker, runs turns of the worker, and reads each
//! [`PeerLog`]. The same seed and plan give the same run, event by event. Misuse of the contract by
//! the worker panics with the number of the broken rule (D-n, I-n).

mod accept;
mod datagrams;
mod driver;
mod events;
mod faults;
mod handed;
mod network;
mod peer;
mod rng;
mod socket;
mod world;

pub use datagrams::{DatagramFaults, DatagramPlan, SimDatagram};
pub use driver::{Sim, SimDriver};
pub use faults::{FaultCounts, FaultKind, FaultPlan};
pub use peer::{AwaitTest, OwnEnd, PeerIndex, PeerLog, PeerPlan, PeerStep, Reading, ResetCause};
pub use rng::{Rng, splitmix};
pub use world::{SimConfig, Unsent, World};
