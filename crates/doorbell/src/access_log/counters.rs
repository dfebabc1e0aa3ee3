//! What became of the records of a log.
//!
//! Does not know about: who counts.

use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an access log, at one moment. They count up from its start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct LogCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// On cache lines of their own: who answers requests reads what lies beside them.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(super) struct Counts {
            $(pub(super) $name: Count,)*
        }

        impl LogCounters {
            /// Every counter by name.
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
    /// Lines of requests that the target took.
    written,
    /// Records that found the queue full, or the log stopped.
    dropped,
    /// Lines that the target did not take.
    failed,
    /// Times the file was opened again.
    reopened,
    /// Times it could not be.
    reopen_failed,
    /// Times a record woke the writer, a system call each.
    wakes,
}

/// Written by any thread, and seldom.
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
