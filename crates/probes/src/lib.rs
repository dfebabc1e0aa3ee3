//! Health as replies: results of checks go in; replies come out, rendered before a probe comes.
//!
//! A [`Registry`] has checks and endpoints. Results come by [`Registry::found`], commands of
//! operators by [`Registry::drain`] and [`Registry::maintain`]. Replies that change are rendered
//! once for every format and audience, and published as one set before the call returns. A
//! [`HealthHandler`] then chooses the reply to a request: without a lock, an allocation or a clock,
//! and counted by prober.
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
//! | [`Registry`], [`RegistryBuilder`] | the board behind a lock, commands, succession at a reload |
//! | [`ReplyCache`], [`Published`] | rendered replies, and the set that all probes read from |
//! | [`HealthHandler`] | the reply to a request: audience, format, details, checks left out |
//! | [`ProberStats`] | probes by endpoint and prober, and the states that load balancers report |
//! | [`AgentLines`] | HAProxy's agent-check |
//! | [`TransitionSink`] | receivers of transitions: logs, event streams, counters |
//! | [`RunTrigger`] | runs of checks that run on demand |
//!
//! `doorbell-health` decides what a result means; `doorbell-checks` finds results. Protocols with
//! words of their own, such as gRPC, read [`ReplySet::states`] of the same set and wake watchers by
//! [`Registry::follow`]. `examples/two_checks.rs` prints replies as they change.
//!
//! Does not know about: sockets, runtimes, configuration files, tokens. Times come in as arguments:
//! nothing here reads a clock.
#![forbid(unsafe_code)]

mod agent;
mod audience;
mod prober_stats;
mod registry;
mod replies;
mod route;
mod shard;
mod transition;
mod trigger;

pub use agent::AgentLines;
pub use audience::audience_of;
pub use prober_stats::{LbState, LbView, ProbeCounters, ProberRow, ProberStats, ThreadCounters};
pub use registry::{
    CLOCK_STEP_MIN, EndpointOptions, Registry, RegistryBuilder, SameChecks, Serving, Subject,
};
pub use replies::{Published, ReplyCache, ReplyOptions, ReplySet, StateFields};
pub use route::HealthHandler;
pub use shard::{SHARDS_MAX, current as current_shard};
pub use transition::{Transition, TransitionSink};
pub use trigger::RunTrigger;
