//! Upper bounds on real time, and other figures that hold only on an idle machine.
//!
//! A plain `cargo test` must pass on a machine of any speed, so it only prints such figures. The
//! long versions of the tests (`DOORBELL_FULL=1`, one test at a time and nothing else running)
//! assert them.

use std::fmt::{Debug, Display};

/// Whether the long versions of tests are requested (`DOORBELL_FULL=1`). They require an otherwise
/// idle machine.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("DOORBELL_FULL").is_some_and(|value| value == "1")
}

/// Prints a measurement; in the long versions it must be at most `limit`.
///
/// # Panics
///
/// In the long versions, if the measurement exceeds the limit.
#[track_caller]
#[expect(clippy::print_stderr, reason = "figures are shown with the output of their test")]
pub fn at_most<T: PartialOrd + Debug>(what: impl Display, measured: T, limit: T) {
    eprintln!("{what}: {measured:?} of at most {limit:?}");
    assert!(!is_long() || measured <= limit, "{what}: {measured:?} is more than {limit:?}");
}
