//! Time in the engine: points in time, the system clocks, and the timer wheel.

mod clock;
#[cfg(target_os = "linux")]
mod wheel;

pub use clock::{Clock, OsClock};
pub use doorbell_http::Time;
#[cfg(target_os = "linux")]
pub(crate) use wheel::Wheel;
