//! Time in the engine: points in time, the system clocks, and the timer wheel.
//!
//! Does not know about: the purpose of a deadline.

mod clock;
#[cfg(target_os = "linux")]
mod wheel;

pub use clock::{Clock, OsClock};
pub use doorbell_http::Time;
#[cfg(target_os = "linux")]
pub(crate) use wheel::Wheel;
