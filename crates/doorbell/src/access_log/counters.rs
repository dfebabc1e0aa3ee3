//! Counters of an access log.

use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an access log at one moment. The counters start at 0 when the log starts.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct LogCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters. The alignment keeps them out of the cache lines of the neighbouring
        /// fields, which worker threads read.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(super) struct Counts {
            $(pub(super) $name: Count,)*
        }

        impl LogCounters {
            /// Returns all counters by name.
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
    /// Request lines written to the target.
    written,
    /// Records dropped because the queue was full or the log had stopped.
    dropped,
    /// Lines that could not be written.
    failed,
    /// Times the file was reopened.
    reopened,
    /// Failed attempts to reopen the file.
    reopen_failed,
    /// Times a record woke the writer, which costs one system call.
    wakes,
}

/// A counter that any thread may increment, but rarely does.
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
