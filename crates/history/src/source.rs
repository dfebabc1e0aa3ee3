//! Source of the time and counters.
//!
//! Does not know about: rows, threads.

use crate::increments::Counter;
use std::time::Duration;

/// Source of the time and of the counters that are stored by minute. A function that returns the
/// time since 1970 is a source without counters.
pub trait Source: Send + 'static {
    /// Returns the time since 1970.
    fn time_of_day(&self) -> Duration;

    /// Returns the current values of all counters. Called on the writer thread: at its start, once
    /// a minute, and at shutdown.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
}

impl<F: Fn() -> Duration + Send + 'static> Source for F {
    fn time_of_day(&self) -> Duration {
        self()
    }
}
