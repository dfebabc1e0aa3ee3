//! Models of the state that doorbell's threads share. loom runs each model under the interleavings
//! and memory orders that it supports, which exclude load buffering. Larger models are limited to
//! interleavings with at most two or three involuntary thread switches.
//!
//! The modules `control`, `hand_over::gate`, `id`, `limit`, `offload`, `panics`, `queue`, `pulse`
//! and `waits` include source files of the engine, of `doorbell-http` and of `doorbell-tokio`.
//! Their dependencies (`sync`, `driver`, `stats`, `time`, the connection that is handed over) are
//! replaced by stand-ins.
//!
//! Each function of [`explored`] is a model. If a wake-up is lost, the waiting thread of the model
//! never continues, and loom reports a deadlock.
#![forbid(unsafe_code)]
#![expect(
    dead_code,
    unreachable_pub,
    reason = "the source files are compiled completely, and the models use only parts of them"
)]

// The sources of `doorbell-tokio` contain paths that begin with `doorbell::`. These paths resolve
// to this crate.
extern crate self as doorbell;

#[path = "../../doorbell/src/control.rs"]
mod control;
mod driver;
pub mod explored;
mod hand_over;
#[path = "../../doorbell/src/id.rs"]
mod id;
mod limit;
mod offload;
#[path = "../../doorbell/src/panics.rs"]
mod panics;
#[path = "../../tokio/src/pulse.rs"]
mod pulse;
#[path = "../../tokio/src/queue.rs"]
mod queue;
mod stats;
mod sync;
mod time;
#[path = "../../tokio/src/waits.rs"]
mod waits;

use hand_over::{HandedConn, Taker};
use time::Time;
