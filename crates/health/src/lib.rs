//! Health as pure logic. Input: check results and the time. Output: states, events and rendered
//! replies.
//!
//! No result, name or reason causes a panic, and a result that changes no state usually costs no
//! allocation and no formatting.
//!
//! ```
//! use std::time::Duration;
//! use doorbell_health::{
//!     Audience, Board, CheckConfig, CheckResult, EndpointConfig, Format, Outcome, Severity, Time,
//! };
//!
//! let mut builder = Board::builder(Time::ZERO);
//! let db = builder.check("db", CheckConfig::default())?;
//! let readyz = builder.endpoint(EndpointConfig::new("readyz").with(db, Severity::Required))?;
//! let mut board = builder.build();
//!
//! let now = Time::from_secs(1);
//! board.apply(db, &CheckResult::success(Duration::from_millis(3)), now);
//! let reply = board.reply(readyz, Audience::Kubelet, Format::Text, true).expect("a known endpoint");
//! assert_eq!((reply.code, reply.body), (200, b"up\ndb: up\n".as_slice()));
//!
//! for second in [6, 7, 8] {
//!     let refused = CheckResult::new(Outcome::Failure, Duration::ZERO, b"connection refused");
//!     board.apply(db, &refused, Time::from_secs(second));
//! }
//! let reply = board.reply(readyz, Audience::Kubelet, Format::Kube, true).expect("a known endpoint");
//! assert_eq!(reply.code, 503);
//! assert_eq!(reply.body, b"[-]db failed: connection refused\nreadyz check failed\n");
//! # Ok::<(), doorbell_health::ConfigError>(())
//! ```
//!
//! | where | what |
//! |---|---|
//! | [`Board`] | all checks and endpoints of a process; the entry point |
//! | [`CheckConfig`], [`Check`] | how results become the state of a check |
//! | [`EndpointConfig`], [`Endpoint`] | how checks and operators decide about an endpoint |
//! | [`Command`] | drains, forced states and maintenance |
//! | [`Format`], [`Reply`] | rendered replies |
//! | [`Snapshot`] | an endpoint at one moment, for replies with excluded checks |
//! | [`limits`] | caps on sizes and numbers |
#![forbid(unsafe_code)]

mod board;
mod check;
mod endpoint;
mod error;
mod format;
pub mod limits;
mod maintenance;
mod reason;
mod snapshot;
mod time;

pub use board::{
    Board, BoardBuilder, Changes, CheckIndex, Command, Counters, EndpointIndex, Event, Inheritance, Target,
};
pub use check::{
    Check, CheckConfig, CheckResult, CheckState, Entry, FlapRule, History, Initial, Move, Outcome,
};
pub use endpoint::{
    Audience, Cause, Class, Codes, Details, Endpoint, EndpointConfig, EndpointState, FailOpen, Forced,
    ForcedState, Grace, OnDrain, OnStale, Quorum, Severity, Use, Verdict,
};
pub use error::ConfigError;
pub use format::{Format, Rendered, Reply, stamp};
pub use maintenance::Maintenance;
pub use reason::Reason;
pub use snapshot::{Excluded, Snapshot};
pub use time::Time;
