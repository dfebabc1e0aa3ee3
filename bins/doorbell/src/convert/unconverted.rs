//! Lines of a converted file that are not part of the result.
//!
//! Does not know about: formats of files.

use std::fmt;

/// A line that was not converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unconverted {
    pub(super) line: usize,
    /// Path of the key or table, as in `modules.m.icmp.ttl`.
    pub(super) key: String,
    pub(super) why: String,
    pub(super) instead: String,
}

impl fmt::Display for Unconverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, key, why, instead } = self;
        write!(f, "{line}: {key}: {why}; {instead}")
    }
}
