//! The manual: how doorbell works, which guarantees it gives, and how to choose a lane.
//!
//! - [`which_lane`]: the three lanes (ring, compute, Tokio), in which the work of a request can
//!   run, and the cost of each.
//! - [`architecture`]: the layers, their dependencies, and the invariants.
//! - [`life_of_a_connection`]: from accept to the freed slot, with every way in which a connection
//!   can end.
//! - [`compute_lane`]: work on other threads: its cost, and the break-even point.
//! - [`limits`]: all limits and timeouts, with their defaults and effects.
//!
//! Operators read the book (`deploy/book/src`): load balancers and probers (`behind`), reloads, and
//! the design decisions with their measurements (`decisions`, one file per decision).

pub mod architecture;
pub mod compute_lane;
pub mod life_of_a_connection;
pub mod limits;
pub mod which_lane;
