//! Where the history reads the time and counters.
//!
//! Does not know about: rows, threads.

use crate::growth::Counter;
use std::time::Duration;

/// Where the writer reads the time and the counters that are stored by minute. A function that
/// returns the time since 1970 is a source without counters.
pub trait Source: Send + 'static {
    /// The time since 1970.
    fn time_of_day(&self) -> Duration;

    /// All counters now. Called once a minute, on the thread of the writer.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }
}

impl<F: Fn() -> Duration + Send + 'static> Source for F {
    fn time_of_day(&self) -> Duration {
        self()
    }
}
