//! The manual: how doorbell works, which guarantees it gives, and how to choose a lane.
//!
//! - [`which_lane`]: ring, compute or Tokio: where the work of a request runs, and what each lane
//!   costs.
//! - [`architecture`]: the layers, their dependencies, and the invariants.
//! - [`life_of_a_connection`]: from accept to the freed slot, with all ways to end.
//! - [`compute_lane`]: work on other threads: its cost, and when it pays off.
//! - [`limits`]: all limits and timeouts, with their defaults and effects.
//!
//! Operators read the book (`deploy/book/src`): load balancers and probers (`behind`), reloads, and
//! the design decisions with their measurements (`decisions`, one file per number).
//!
//! Does not know about: single functions; their own pages document them.

pub mod architecture;
pub mod compute_lane;
pub mod life_of_a_connection;
pub mod limits;
pub mod which_lane;
