//! Pre-rendered replies to health probes: results of checks go in, replies come out.
//!
//! A [`Registry`] contains checks and endpoints. [`Registry::found`] applies the result of a check;
//! [`Registry::drain`] and [`Registry::maintain`] apply commands of an operator. Each of these
//! calls renders the replies that changed, once for every format and audience, and publishes them
//! as one set before it returns. For nearly every probe, a [`HealthHandler`] sends the reply and
//! counts the probe without taking a lock, allocating memory or reading a clock.
//!
//! ```
//! use doorbell_health::{CheckConfig, CheckResult, Details, EndpointConfig, Severity, Time};
//! use doorbell_http::forwarded::Networks;
//! use doorbell_http::{Client, Conn, Date, Io, Limits, Out, service_fn};
//! use doorbell_probes::{EndpointOptions, HealthHandler, Registry, ReplyOptions};
//! use std::time::Duration;
//!
//! let mut builder = Registry::builder(Time::ZERO, Duration::ZERO);
//! let db = builder.check("db", CheckConfig::default())?;
//! let readyz = EndpointConfig::new("readyz").with(db, Severity::Required);
//! builder.endpoint(readyz, EndpointOptions::default())?;
//! let registry = builder.build();
//!
//! let options = ReplyOptions { details: Details::Always, ..ReplyOptions::default() };
//! let cache = registry.cache(options).expect("an endpoint at position 0");
//! let handler = HealthHandler::new(cache, false, Networks::default());
//! let service = service_fn(|request, reply| handler.send(|| false, request, reply));
//!
//! registry.found(0, &CheckResult::success(Duration::from_millis(3)), Time::from_secs(1));
//!
//! let (limits, date) = (Limits::default(), Date::new(784_111_777));
//! let now = doorbell_http::Time::ZERO;
//! let (mut carry, mut out) = (Vec::new(), Out::new());
//! let (closing, client) = (false, &Client::UNKNOWN);
//! let (date, limits) = (&date, &limits);
//! let io = Io { now, date, limits, carry: &mut carry, out: &mut out, closing, client };
//! let _next = Conn::new(now, limits).handle_input(b"GET /readyz HTTP/1.0\r\n\r\n", io, &service);
//! assert!(out.head.ends_with(b"\r\n\r\nup\ndb: up\n"));
//! # Ok::<(), doorbell_health::ConfigError>(())
//! ```
//!
//! | item | what it owns |
//! |---|---|
//! | [`ProbeRoutes`] | maps a path to the handler of its endpoint, or of one check |
//! | [`PortableReply`] | the same replies for requests that another HTTP implementation has parsed |
//! | [`Registry`], [`RegistryBuilder`] | the board behind a lock, operator commands, hand-over at a reload |
//! | [`ReplyCache`], [`Published`] | rendered replies, and the set from which all probes read |
//! | [`HealthHandler`] | the reply to a request: audience, format, details, excluded checks |
//! | [`ProberStats`] | probes by endpoint and prober, and the states that load balancers report |
//! | [`AgentLines`] | HAProxy's agent-check |
//! | [`TransitionSink`] | interface for receivers of transitions: logs, event streams, counters |
//! | [`RunTrigger`] | requests to run on-demand checks |
//!
//! `doorbell-checks` runs checks; `doorbell-health` derives states from the results. Other
//! protocols with their own status values, such as gRPC, read [`ReplySet::states`] from the same
//! set and notify their watchers through [`Registry::follow`]. `examples/two_checks.rs` prints
//! replies as they change.
//!
//! The caller passes in the time; this crate never reads a clock.
#![forbid(unsafe_code)]

mod agent;
mod audience;
mod portable;
mod prober_stats;
mod registry;
mod replies;
mod route;
mod routes;
mod shard;
mod transition;
mod trigger;

pub use agent::AgentLines;
pub use audience::audience_of;
pub use portable::{PortableReply, PortableRequest, ReplyParts};
pub use prober_stats::{LbState, LbView, ProbeCounters, ProberRow, ProberStats, ThreadCounters};
pub use registry::{
    CLOCK_STEP_MIN, EndpointOptions, Registry, RegistryBuilder, SameChecks, Serving, Subject, endpoint_target,
};
pub use replies::{Published, ReplyCache, ReplyOptions, ReplySet, StateFields};
pub use route::HealthHandler;
pub use routes::{ProbeRoutes, Probed};
pub use shard::{SHARDS_MAX, current as current_shard};
pub use transition::{Transition, TransitionSink};
pub use trigger::RunTrigger;
