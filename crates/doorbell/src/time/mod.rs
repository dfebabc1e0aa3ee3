//! Time in the engine: points in time, the one place that reads the system's clocks, and the wheel of deadlines.
//!
//! Does not know about: what a deadline is for.

mod clock;
mod wheel;

pub use clock::{Clock, OsClock};
pub use doorbell_http::Time;
pub(crate) use wheel::Wheel;
