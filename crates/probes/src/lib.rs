//! Health as replies: what a probe gets, and statistics of the probers that ask.
//!
//! Does not know about: sockets, runtimes, configuration files. Times come in as arguments; nothing here reads a clock.
//!
//! ```
//! use doorbell_health::EndpointState;
//! use doorbell_http::Time;
//! use doorbell_http::prober::Prober;
//! use doorbell_probes::ProberStats;
//!
//! let stats = ProberStats::new(["readyz"].into_iter(), 1);
//! let readyz = stats.probe_counters(0).expect("the first endpoint");
//! readyz.own().count(Some(Prober::Kubelet), EndpointState::Up, Time::ZERO);
//! assert_eq!((stats.rows()[0].prober_name(), stats.rows()[0].count()), ("kubelet", 1));
//! ```
#![forbid(unsafe_code)]

mod audience;
mod prober_stats;
mod shard;

pub use audience::audience_of;
pub use prober_stats::{LbState, LbView, ProbeCounters, ProberStats, Row, ThreadCounters};
pub use shard::{SHARDS_MAX, current as current_shard};
