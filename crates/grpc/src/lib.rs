//! `grpc.health.v1` over the endpoints of a registry: Check, Watch and List.
//!
//! [`Statuses`] gives each gRPC service the state of an endpoint: SERVING if a probe over HTTP from
//! the same audience would get a status that means up, such as 200. A drain has the same effect as
//! over HTTP. [`GrpcHealth`] is the service for tonic.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use doorbell_grpc::{GrpcHealth, OVERALL, Statuses, WatchLimit};
//! use doorbell_health::{EndpointConfig, Time};
//! use doorbell_probes::{EndpointOptions, Registry};
//!
//! let mut builder = Registry::builder(Time::ZERO, Duration::ZERO);
//! builder.endpoint(EndpointConfig::new("readyz"), EndpointOptions::default())?;
//! let registry = builder.build();
//!
//! // The service without a name, and `shop.Cart`, have the state of the endpoint at position 0.
//! let services = [(OVERALL.to_owned(), 0), ("shop.Cart".to_owned(), 0)];
//! let statuses = Statuses::follow(services, &registry);
//! let (end, ends) = tokio::sync::watch::channel(false);
//! let health = GrpcHealth::new(statuses, Arc::new(WatchLimit::new(1_024)), ends);
//! assert!(health.is_serving(None));
//!
//! // At shutdown: ends all Watch streams, because an open stream would delay the shutdown.
//! end.send_replace(true);
//! # drop(health);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | method | reply |
//! |---|---|
//! | Check | the status; NOT_FOUND for an unknown service |
//! | Watch | the status, then each change; SERVICE_UNKNOWN for an unknown service; UNAVAILABLE at the end |
//! | List | the statuses of all services; RESOURCE_EXHAUSTED if there are more than 100 |
//!
//! Programs that embed doorbell get the service from `Health::grpc` of `doorbell-tokio`, with the
//! feature `grpc`.
#![forbid(unsafe_code)]

mod service;
mod statuses;
mod watch;

pub use service::{ClientAddr, GrpcHealth, prober_of};
pub use statuses::{ALB_PATH, OVERALL, Statuses};
pub use watch::{AdmitWatch, WatchLimit, WatchPermit};
