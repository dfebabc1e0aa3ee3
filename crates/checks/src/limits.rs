//! Limits on the threads that all checks of the process share.

/// Number of threads kept free of lookups, to read files and start programs.
pub(crate) const BLOCKING_MAX: usize = 16;

/// Maximum number of concurrent lookups by all checks of the process. Lookups that an earlier
/// configuration started count too, because a blocked thread cannot be cancelled.
pub(crate) const LOOKUPS_MAX: usize = 32;
