//! The running `doorbell` program, from a configuration to the end of the process.
//!
//! | room | purpose |
//! |---|---|
//! | `serve`, `supervisor`, `control_plane` | start and end of the process; its threads |
//! | `reload` | generations of a configuration, watched files |
//! | `build`, `routes`, `guards`, `registry` | a configuration as parts of the engine |
//! | [`sockets`] | listeners, systemd, kept descriptors |
//! | `operator`, `control` | drains, maintenance, events, admin pages, the control socket |
//! | `stats`, [`log`] | counters, metrics, log lines |
//! | `blackbox`, `links`, [`sharing`], [`history`] | `/probe`, other instances, stores |
//! | [`exit`], [`parent`], [`workers`] | exit codes; reports between `doorbell run` and its server; the number of workers |
//!
//! [`run`] serves until a signal or a command stops the process; [`service`] is the service of one
//! listener without a server.
//!
//! Only the `doorbell` program and its benchmarks depend on this crate: its interface is not stable.
#![forbid(unsafe_code)]

mod blackbox;
mod build;
mod control;
mod control_plane;
pub mod exit;
mod guards;
pub mod history;
mod links;
pub mod log;
mod operator;
pub mod parent;
mod prepared_thread;
mod program;
mod query;
mod reaper;
mod registry;
mod reload;
mod routes;
mod serve;
pub mod sharing;
pub mod sockets;
mod stats;
mod supervisor;
pub mod workers;

pub use build::sample::service;
pub use operator::{HOLD_MAX, millis, time_of_day};
pub use program::Program;
pub use reload::{Read, Reading};
pub use serve::run;
