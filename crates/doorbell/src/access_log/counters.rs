//! Counters of log records by outcome.
//!
//! Does not know about: threads.

use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an access log at one moment. They count up from its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct LogCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// Aligned to separate cache lines: worker threads read the fields next to them.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(super) struct Counts {
            $(pub(super) $name: Count,)*
        }

        impl LogCounters {
            /// All counters by name.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }

        impl Counts {
            pub(super) fn snapshot(&self) -> LogCounters {
                LogCounters { $($name: self.$name.value(),)* }
            }
        }
    };
}

counters! {
    /// Lines of requests written to the target.
    written,
    /// Records dropped because the queue was full or the log had stopped.
    dropped,
    /// Lines that could not be written.
    failed,
    /// Times the file was reopened.
    reopened,
    /// Failed attempts to reopen the file.
    reopen_failed,
    /// Times a record woke the writer, at one system call each.
    wakes,
}

/// A counter that any thread may increment, rarely.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
