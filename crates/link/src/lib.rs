//! Links between instances: one connection each, on which both sides send transitions and results.
//!
//! A [`Link`] is a state machine without I/O for one side of a link. Its inputs are bytes and the
//! current time; its outputs are bytes, [events](Event) and a deadline. It outlives connections:
//!
//! - *Transitions* are kept until the peer acknowledges them, sent again after a reconnect, and
//!   reported once and in order. If the queue is full, a newer state of a subject supersedes an
//!   older one.
//! - *Results* are sent at most once. If the queue is full, the oldest result is dropped and
//!   counted.
//! - *Receipts* return the arrival times of frames. Round-trip times and one-way latencies are
//!   calculated from them. The bounds of a latency are valid even if the clocks differ.
//!
//! ```
//! use doorbell_link::{Event, Link, LinkOptions, State, Subject, Time};
//!
//! let now = Time::from_micros(1_800_000_000_000_000);
//! let [mut eu, mut central] = [1, 2].map(|incarnation| Link::new(LinkOptions::default(), incarnation));
//! eu.transition(now, Subject::check("db"), State::Down, "connection refused");
//! eu.connected(now);
//! central.connected(now);
//! let mut bytes = Vec::new();
//! for _ in 0..2 {
//!     eu.transmit(now, &mut bytes);
//!     central.receive(now, &std::mem::take(&mut bytes))?;
//!     central.transmit(now, &mut bytes);
//!     eu.receive(now, &std::mem::take(&mut bytes))?;
//! }
//! eu.transmit(now, &mut bytes);
//! central.receive(now, &bytes)?;
//! assert!(matches!(central.next_event(), Some(Event::Opened { .. })));
//! let Some(Event::Transition(statement)) = central.next_event() else { unreachable!() };
//! assert_eq!((statement.subject.name.as_str(), statement.state), ("db", State::Down));
//! # Ok::<(), doorbell_link::Ended>(())
//! ```
//!
//! | task | items |
//! |---|---|
//! | exchange frames | [`Link`], [`LinkOptions`], [`Event`], [`Ended`] |
//! | send states and results | [`Link::transition`], [`Link::result`], [`Subject`], [`State`] |
//! | store the states of a peer | [`RemoteStates`], [`RemoteState`] |
//! | decide by the states at several instances | [`decide`], [`Decision`] |
//! | measure | [`LinkReport`], [`MinuteReport`], [`Receipt`] |
//! | delay reconnects | [`Backoff`], [`Jitter`] |
//! | connect with Tokio and rustls (feature `tokio`) | `net::Dial`, `net::Acceptor`, `net::LinkHandle` |
//!
//! The frames are described in the source of the module `wire`; those of version 1 are frozen.
#![forbid(unsafe_code)]

mod backoff;
mod conn;
mod ended;
mod link;
mod loss;
mod minute;
#[cfg(feature = "tokio")]
pub mod net;
mod offset;
mod outbox;
mod quorum;
mod receipts;
mod remote;
mod report;
mod time;
mod wire;

pub use backoff::{Backoff, Jitter};
pub use ended::Ended;
pub use link::{Event, Link, LinkOptions, Receipt};
pub use minute::{MinuteReport, Quantiles};
pub use quorum::{Decision, decide};
pub use remote::{RemoteState, RemoteStates, SUBJECTS_MAX};
pub use report::{LinkCounters, LinkReport};
pub use time::Time;
pub use wire::{FRAME_LEN_MAX, Measured, Outcome, State, Statement, Subject, SubjectKind, VERSIONS};
