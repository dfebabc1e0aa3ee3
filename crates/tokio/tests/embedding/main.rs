//! Programs that embed doorbell, with every front and both drivers. One program, so that it is linked
//! once and its tests wait at the same time.
//!
//! Does not know about: the `doorbell` program.

mod common;

#[cfg(feature = "alias")]
mod alias;
#[cfg(feature = "axum")]
mod axum;
mod both;
#[cfg(feature = "axum")]
mod details;
#[cfg(all(feature = "axum", feature = "grpc", feature = "hyper", feature = "metrics"))]
mod examples;
#[cfg(all(feature = "axum", feature = "hyper"))]
mod fronts;
mod full;
#[cfg(all(feature = "grpc", feature = "tower"))]
mod grpc;
#[cfg(feature = "axum")]
mod inside;
#[cfg(all(feature = "axum", feature = "metrics"))]
mod metrics;
#[cfg(feature = "axum")]
mod paths;
mod receivers;
mod refused;
mod spans;
#[cfg(all(feature = "axum", feature = "checks"))]
mod targets;
#[cfg(feature = "axum")]
mod tls;
mod watched;
