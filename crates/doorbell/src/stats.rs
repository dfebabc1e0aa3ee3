//! Counters of a worker, and snapshots of them that any thread may take.
//!
//! Does not know about: how they are shown or scraped.
//!
//! One thread writes each counter and others read it, so an increment is a plain load, add and store: no locked instruction.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::driver::DriverCounters;
use crate::error::CloseReason;

/// A number with one writer and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Takes back what was counted too early.
    pub(crate) fn take_back(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) - n, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The live counters of one worker.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            pub(crate) closed: [Counter; CloseReason::ALL.len()],
        }

        /// The counters of one worker, or the sum over several, at one moment. Everything counts up from the start, except
        /// the fields that end in `_live`.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Connections closed, by [`CloseReason::index`].
            pub closed: [u64; CloseReason::ALL.len()],
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Snapshot {
                Snapshot {
                    $($name: self.$name.value(),)*
                    closed: core::array::from_fn(|reason| self.closed[reason].value()),
                }
            }
        }

        impl Snapshot {
            /// Adds another worker's counters.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
                for (sum, more) in self.closed.iter_mut().zip(other.closed) {
                    *sum += more;
                }
            }

            /// Every counter but those of closed connections, by name.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Connections accepted.
    conns_accepted,
    /// Connections open now.
    conns_live,
    /// Requests answered (HTTP) or replies sent (raw).
    requests,
    /// Bytes received.
    bytes_in,
    /// Reply bytes the kernel took.
    bytes_out,
    /// Accept errors.
    accept_errors,
    /// Times accept was armed.
    accept_rearms,
    /// Times a listener was found with waiting clients that accept did not report.
    accept_stalls,
    /// Steps down: multishot, single-shot, readiness.
    accept_downgrades,
    /// Times the table was full, so that clients waited in the backlog.
    table_full,
    /// Completions for a connection that had ended (invariant I-5).
    stale_completions,
    /// Connections that could not be taken out of the driver to be handed over.
    hand_over_errors,
    /// Times a listener stopped accepting because connections wait to be handed over.
    hand_over_pauses,
    /// Connections that were to be handed over and refused.
    hand_over_refused,
    /// Connections that had to wait before they were handed over.
    hand_over_waits,
    /// PROXY protocol: headers of version 1.
    proxy_v1,
    /// PROXY protocol: headers of version 2 with a client.
    proxy_v2,
    /// PROXY protocol: headers in which the proxy speaks for itself, as its health checks do.
    proxy_local,
    /// PROXY protocol: connections closed because of a header that is wrong, missing, or not believed.
    proxy_refused,
    /// Handlers that panicked.
    handler_panics,
    /// Jobs given to other threads.
    jobs_queued,
    /// Jobs for which there was no place: 503.
    jobs_refused,
    /// Jobs that were not done in time: 503 and the end.
    jobs_timed_out,
    /// Jobs called off before they started, because their client left or the server stopped.
    jobs_cancelled,
    /// Jobs that panicked: 500 and the end.
    jobs_panicked,
    /// Answers that came when nobody waited for them any more (invariant I-10).
    answers_dropped,
    /// Accepted connections closed at once because no slot could be trusted.
    accepts_dropped,
    /// Completions that went through the kernel's overflow list.
    cq_overflows,
    /// Calls that waited for the kernel.
    enters,
    /// Receives that found no buffer at first.
    recv_bufs_starved,
    /// Turns of the worker loop.
    turns,
    /// Times a worker changed from io_uring to epoll while running.
    driver_fallbacks,
}

impl Counters {
    pub(crate) fn closed_because(&self, reason: CloseReason) {
        self.closed[reason.index()].add(1);
    }

    pub(crate) fn take_driver(&self, driver: DriverCounters) {
        self.accepts_dropped.set(driver.accepts_dropped);
        self.cq_overflows.set(driver.cq_overflows);
        self.enters.set(driver.enters);
        self.recv_bufs_starved.set(driver.recv_bufs_starved);
    }
}

impl Snapshot {
    /// Connections closed for `reason`.
    pub fn closed_because(&self, reason: CloseReason) -> u64 {
        self.closed[reason.index()]
    }

    /// Connections closed for any reason.
    pub fn closed_total(&self) -> u64 {
        self.closed.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_add_up() {
        let counters = Counters::default();
        counters.requests.add(2);
        counters.closed_because(CloseReason::Done);
        let mut sum = counters.snapshot();
        sum.merge(&counters.snapshot());
        assert_eq!((sum.requests, sum.closed_total()), (4, 2));
        assert_eq!(sum.fields().find(|(name, _)| *name == "requests"), Some(("requests", 4)));
    }
}
