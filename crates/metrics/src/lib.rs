//! Prometheus metrics: families as plain data, and the families that the program `doorbell` and
//! programs that embed it have in common.
//!
//! | families | items |
//! |---|---|
//! | endpoints, checks, probers | [`HealthSample`] |
//! | workers of the engine, datagrams (Linux) | [`Workers`], [`Datagrams`] |
//! | the process (Linux) | [`Process`] |
//!
//! [`Families`] collects the families; [`Exposition`] renders them in one of two text formats.
//!
//! Does not know about: HTTP, except `Accept` and `Content-Type`; the counting of values.
#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod engine;
mod family;
mod health;
mod origin;
#[cfg(target_os = "linux")]
mod process;
mod requests;
mod text;

#[cfg(target_os = "linux")]
pub use engine::{Datagrams, Workers, datagrams};
pub use family::{Families, Filling, as_f64};
pub use health::{CheckSample, EndpointSample, HealthSample, LastResult};
pub use origin::Origin;
#[cfg(target_os = "linux")]
pub use process::Process;
pub use requests::requests;
pub use text::Exposition;
