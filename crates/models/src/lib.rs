//! What threads of doorbell share, run by loom under every interleaving and every order of memory that the language allows.
//!
//! Does not know about: sockets, the ring, runtimes. The modules `control`, `hand_over::gate`, `id`, `limit`, `offload`, `panics`,
//! `queue`, `pulse` and `waits` are the sources of the engine and of the embedding themselves; what they stand on (`sync`, `driver`, the connection that is handed over) is the
//! model's.
//!
//! Each function of [`explored`] is a model. What it waits for never comes when a wake-up is lost: loom calls that a deadlock.
#![forbid(unsafe_code)]
#![expect(dead_code, unreachable_pub, reason = "the sources are whole, and a model needs a part of each")]

// The embedding says `doorbell::`, and means what is here.
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
#[path = "../../tokio/src/waits.rs"]
mod waits;

use doorbell_http::Time;
use hand_over::{HandedConn, Taker};
