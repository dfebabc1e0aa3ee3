//! Upper bounds on real time, and other figures to which only an idle machine can be held.
//!
//! A plain `cargo test` must pass on a machine of any speed, so there such a figure is only printed. The long versions of the tests
//! (`DOORBELL_FULL=1`, one test at a time and nothing else running) assert it.
//!
//! Does not know about: what is measured.

use std::fmt::{Debug, Display};

/// Whether the long versions of tests were asked for, on a machine that does nothing else.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("DOORBELL_FULL").is_some_and(|value| value == "1")
}

/// Prints what was measured; in the long versions it must be at most `limit`.
///
/// # Panics
///
/// In the long versions, if it is more.
#[track_caller]
#[expect(clippy::print_stderr, reason = "figures are shown with the output of their test")]
pub fn at_most<T: PartialOrd + Debug>(what: impl Display, measured: T, limit: T) {
    eprintln!("{what}: {measured:?} of at most {limit:?}");
    assert!(!is_long() || measured <= limit, "{what}: {measured:?} is more than {limit:?}");
}
