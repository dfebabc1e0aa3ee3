//! State that instances of doorbell share in a store: Redis or Valkey.
//!
//! - A *shared check* runs on one instance, which holds a lease; all others apply its results. A
//!   [`ShareMachine`] decides at each instance, without I/O: its inputs are the time, replies of
//!   the store, messages and results; its outputs are [actions](Action) and one deadline.
//! - A *shared limit* is kept by the store. Each instance leases tokens in advance ([`limit`]).
//! - A *store* is a [`SharedStore`]. Without a connection, calls fail at once, so that the caller
//!   continues with its own state.
//!
//! ```
//! use doorbell_link::Outcome;
//! use doorbell_shared::{Action, Lease, ShareMachine, ShareOptions, SharedResult};
//! use std::time::Duration;
//!
//! let seconds = Duration::from_secs;
//! let options = ShareOptions {
//!     name: "db".into(),
//!     check: "db:1".into(),
//!     instance: "web-1".into(),
//!     holder: "web-1 7".into(),
//!     interval: seconds(5),
//!     timeout: seconds(1),
//!     max_age: seconds(15),
//!     seed: 1,
//! };
//! let mut machine = ShareMachine::new(options, seconds(0));
//! let Some(Action::Lease(request)) = machine.poll(seconds(0)) else { unreachable!() };
//! // The store grants the lease to this instance, which notifies the others and runs the check.
//! machine.leased(seconds(0), Some(Lease { is_own: true, token: 1, remaining: request.lasts, latest: None }));
//! assert!(matches!(machine.poll(seconds(0)), Some(Action::Notify(_))));
//! assert_eq!(machine.poll(seconds(0)), Some(Action::Run));
//! let result = SharedResult::new(Outcome::Success, Duration::from_millis(3), "", seconds(5));
//! machine.ran(seconds(0), seconds(5), Some(result));
//! assert!(matches!(machine.poll(seconds(0)), Some(Action::Publish(_))));
//! ```
//!
//! | items | purpose |
//! |---|---|
//! | [`SharedStore`], [`StoreError`] | the interface of a store |
//! | [`Lease`], [`LeaseRequest`], [`Publication`], [`Notification`], [`Stamp`], [`Stored`] | leases and results in the store |
//! | [`Status`], [`StoreCounters`] | connection state and counters |
//! | [`ShareMachine`], [`ShareOptions`], [`Action`], [`ShareCounters`] | decides which instance runs a check, and which results are valid |
//! | [`Message`], [`SharedResult`] | messages between instances, in frozen formats |
//! | [`Announcement`], [`EndpointState`] | the description of an instance, in a frozen format |
#![cfg_attr(feature = "tokio", doc = "| [`Shares`], [`Local`], [`ShareView`] | runs the machines on Tokio |")]
#![cfg_attr(feature = "redis", doc = "| [`redis`] | the store for Redis and Valkey |")]
#![forbid(unsafe_code)]

mod check;
mod fleet;
mod format;
pub mod limit;
#[cfg(feature = "redis")]
pub mod redis;
mod status;
mod store;

pub use check::{Action, Message, ShareCounters, ShareMachine, ShareOptions, SharedResult};
#[cfg(feature = "tokio")]
pub use check::{Local, ShareView, Shares};
pub use fleet::{Announcement, EndpointState};
pub use status::{Status, StoreCounters};
pub use store::{Lease, LeaseRequest, Notification, Publication, SharedStore, Stamp, StoreError, Stored};
