//! Stores the history of health checks as rows: transitions, results, operations, the availability
//! of endpoints, and the quality of links.
//!
//! Adding a row to the bounded buffer never waits for the store. A thread writes the rows in
//! batches, limited by size and time. While the store is unreachable, rows stay in memory up to a
//! limit; beyond the limit, the oldest row of the least important kind is dropped and counted. The
//! counters are exact: every added row is written, dropped or in the buffer.
//!
//! ```
//! use doorbell_history::{Batch, History, Options, Row, Store, StoreError, Transition, Writer};
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! struct Print;
//!
//! impl Store for Print {
//!     async fn check(&self) -> Result<(), StoreError> {
//!         Ok(())
//!     }
//!
//!     async fn insert(&self, batch: &Batch) -> Result<(), StoreError> {
//!         println!("{:?}", batch.rows());
//!         Ok(())
//!     }
//! }
//!
//! // At most 64 MiB of rows, in batches of up to 10,000.
//! let history = Arc::new(History::new(64 << 20, 10_000));
//! let options = Options { interval: Duration::from_secs(5), timeout: Duration::from_secs(10) };
//! let time_of_day = || Duration::from_secs(1_800_000_000);
//! let writer = Writer::start(Arc::clone(&history), Print, options, time_of_day, Vec::new)?;
//! history.push(Row::Transition(Transition {
//!     at_ms: 1_800_000_000_000,
//!     subject: "check",
//!     name: "db".into(),
//!     from: "up",
//!     to: "down",
//!     cause: "",
//!     reason: "connection refused".into(),
//! }));
//! writer.stop();
//! assert_eq!(history.stats().sum(|counts| counts.written), 1);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | items | purpose |
//! |---|---|
//! | [`History`], [`Stats`] | receives rows from any thread; counters |
//! | [`Row`], [`Kind`] | the rows, by kind |
//! | [`Buffer`], [`Batch`], [`Counts`] | the bounded buffer, independent of threads and clocks |
//! | [`Minutes`] | time of endpoints in each state, by minute |
//! | [`Counter`], [`CounterName`] | counters of links and probers, stored by minute |
//! | [`Writer`], [`Options`], [`Backoff`] | the thread that writes, with retries |
//! | [`Store`], [`StoreError`] | the interface of a store |
#![cfg_attr(feature = "clickhouse", doc = "| [`clickhouse`] | the store for ClickHouse and its schema |")]
#![forbid(unsafe_code)]

mod backoff;
mod buffer;
#[cfg(feature = "clickhouse")]
pub mod clickhouse;
mod history;
mod increments;
mod minutes;
mod row;
mod store;
mod writer;

pub use backoff::{Backoff, FIRST, LAST};
pub use buffer::{Batch, Buffer, Counts};
pub use history::{History, Stats, millis};
pub use increments::Counter;
pub use minutes::Minutes;
pub use row::{
    COUNTS_MAX, CheckResult, CounterName, FrameId, Increments, Kind, Minute, Operation, Receipt, Row, STATES,
    Transition,
};
pub use store::{Store, StoreError};
pub use writer::{END, Options, Writer};
