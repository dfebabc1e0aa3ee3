//! Time in the engine: points in time, the system clocks, and the timer wheel.
//!
//! Does not know about: the purpose of a deadline.

mod clock;
mod wheel;

pub use clock::{Clock, OsClock};
pub use doorbell_http::Time;
pub(crate) use wheel::Wheel;
