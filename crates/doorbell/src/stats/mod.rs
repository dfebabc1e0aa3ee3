//! Counters of a worker, and snapshots of them that any thread may take.
//!
//! Each counter is written by one thread and read by other threads, so an increment is a plain
//! load, add and store without a locked instruction.

mod datagrams;

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub(crate) use datagrams::DatagramCounters;
pub use datagrams::DatagramSnapshot;

use rustix::io::Errno;

use crate::driver::DriverCounters;
use crate::error::CloseReason;
use crate::time::Time;

/// A number with one writing thread and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
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
            /// Time at which the wait of the last turn ended, in nanoseconds.
            pub(crate) turned: Counter,
            /// Counters by [`ListenerIndex`](crate::id::ListenerIndex); set when the worker is
            /// created.
            listeners: OnceLock<Arc<[ListenerCounters]>>,
            /// Counters by [`DatagramIndex`](crate::id::DatagramIndex); set when the worker is
            /// created.
            datagrams: OnceLock<Arc<[DatagramCounters]>>,
        }

        /// Counters of one worker, or their sum over several, at one moment. All counters start at
        /// 0 with the server and never decrease, except fields that end in `_live`.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Time at which the wait of the worker's last turn ended; [`Time::ZERO`] before the
            /// first turn. In a sum, the latest time of all workers. An idle worker runs a turn at
            /// each check of its listeners.
            pub turned: Time,
            /// Connections closed, by [`CloseReason::index`].
            pub closed: [u64; CloseReason::ALL.len()],
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Snapshot {
                let listeners = self.by_listener();
                Snapshot {
                    $($name: self.$name.value(),)*
                    turned: Time::from_nanos(self.turned.value()),
                    closed: core::array::from_fn(|reason| {
                        listeners.iter().map(|listener| listener.closed[reason].value()).sum()
                    }),
                }
            }
        }

        impl Snapshot {
            /// Adds the counters of another worker.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
                self.turned = self.turned.max(other.turned);
                for (sum, more) in self.closed.iter_mut().zip(other.closed) {
                    *sum += more;
                }
            }

            /// Returns all counters by name, except `closed`.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Connections that the worker serves or has served. Another worker may have
    /// [accepted](crate::Balance) them.
    conns_accepted,
    /// Open connections.
    conns_live,
    /// Requests with a reply (HTTP), or handled frames (stream protocols and raw).
    requests,
    /// Bytes received.
    bytes_in,
    /// Reply bytes passed to the kernel.
    bytes_out,
    /// Accept errors.
    accept_errors,
    /// Number of new connections for which this worker had to leave out a worker with a full queue.
    balance_queue_full,
    /// Times accept was armed.
    accept_rearms,
    /// Stalls: clients waited in a backlog and the armed accept did not report them.
    accept_stalls,
    /// Switches to a lower accept mode: multishot, single-shot, readiness.
    accept_downgrades,
    /// Times the table was full, so that clients had to wait in the backlog.
    table_full,
    /// Completions for a connection that had ended (invariant I-5).
    stale_completions,
    /// Failed hand-overs: the connection could not be detached from the driver, or the receiver did
    /// not take it.
    hand_over_errors,
    /// Times a listener stopped accepting because too many connections waited for a hand-over.
    hand_over_pauses,
    /// Refused hand-overs.
    hand_over_refused,
    /// Connections that had to wait for a hand-over permit.
    hand_over_waits,
    /// PROXY protocol: headers of version 1.
    proxy_v1,
    /// PROXY protocol: headers of version 2 with a client.
    proxy_v2,
    /// PROXY protocol: headers without a client, as health checks of a proxy send.
    proxy_local,
    /// PROXY protocol: connections closed because a header is invalid, missing, or from an
    /// untrusted peer.
    proxy_refused,
    /// Invalid replies of handlers, replaced by a 500.
    handler_misuses,
    /// Panics of handlers.
    handler_panics,
    /// Jobs queued for other threads. The counters of jobs do not include jobs of stream protocols.
    jobs_queued,
    /// Jobs refused because the queue was full (503).
    jobs_refused,
    /// Jobs that exceeded their deadline (503 and close).
    jobs_timed_out,
    /// Jobs cancelled before they started: the client left, the request timed out, or the server
    /// stopped.
    jobs_cancelled,
    /// Jobs that panicked (500 and close).
    jobs_panicked,
    /// Results of jobs dropped because their requests no longer waited (invariant I-10).
    answers_dropped,
    /// Accepted connections closed at once because no slot was free, and invalid completions of the
    /// ring.
    accepts_dropped,
    /// Calls of `io_uring_enter(2)` after which completions were in the kernel's overflow list.
    cq_overflows,
    /// Calls of `io_uring_enter(2)` or `epoll_wait(2)`.
    enters,
    /// Receives that found no free buffer and were retried.
    recv_bufs_starved,
    /// Turns of the worker loop.
    turns,
    /// Changes from io_uring to epoll at run time.
    driver_fallbacks,
}

/// Live counters of one listener in one worker.
#[derive(Debug, Default)]
pub(crate) struct ListenerCounters {
    /// Connections accepted; updated at the end of a turn.
    accepted: Counter,
    closed: [Counter; CloseReason::ALL.len()],
    accept_errors: [Counter; ACCEPT_ERRORS.len() + 1],
    proxy: [Counter; ProxyResult::ALL.len()],
}

/// Accept errors that have a separate counter (accept(2)).
const ACCEPT_ERRORS: [(Errno, &str); 9] = [
    (Errno::CONNABORTED, "ECONNABORTED"),
    (Errno::INTR, "EINTR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NFILE, "ENFILE"),
    (Errno::NOBUFS, "ENOBUFS"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::PERM, "EPERM"),
    (Errno::PROTO, "EPROTO"),
];

/// The result of reading a PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyResult {
    /// A header without a client, as health checks of a proxy send.
    Local,
    /// There was no header, and none was required.
    None,
    /// The header was invalid, missing, or from an untrusted peer.
    Refused,
    /// A header of version 1.
    V1,
    /// A header of version 2 with a client.
    V2,
}

impl ProxyResult {
    /// All results, in the order of their discriminants.
    pub const ALL: [Self; 5] = [Self::Local, Self::None, Self::Refused, Self::V1, Self::V2];
}

/// Counters of one listener over all workers, at one moment.
///
/// All counters start at 0 with the server and never decrease, except `conns_live`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerSnapshot {
    /// Connections accepted.
    pub conns_accepted: u64,
    /// Open connections.
    pub conns_live: u64,
    /// Connections closed, by [`CloseReason::index`].
    pub closed: [u64; CloseReason::ALL.len()],
    accept_errors: [u64; ACCEPT_ERRORS.len() + 1],
    proxy: [u64; ProxyResult::ALL.len()],
}

impl ListenerCounters {
    /// Adds the connections accepted in a turn, and the number of these that have already closed.
    #[inline]
    pub(crate) fn accepted_and_done(&self, accepted: u64, done: u64) {
        self.accepted.add(accepted);
        self.closed[CloseReason::Done.index()].add(done);
    }

    #[inline(always)]
    pub(crate) fn closed_because(&self, reason: CloseReason) {
        self.closed[reason.index()].add(1);
    }

    pub(crate) fn accept_failed(&self, errno: Errno) {
        let known = ACCEPT_ERRORS.iter().position(|(known, _)| *known == errno);
        self.accept_errors[known.unwrap_or(ACCEPT_ERRORS.len())].add(1);
    }

    pub(crate) fn proxied(&self, result: ProxyResult) {
        self.proxy[result as usize].add(1);
    }

    fn live(&self) -> u64 {
        let gone = self.closed.iter().map(Counter::value).sum();
        // A connection that opened and closed in this turn is not in `accepted` yet.
        self.accepted.value().saturating_sub(gone)
    }
}

impl ListenerSnapshot {
    pub(crate) fn add(&mut self, worker: &ListenerCounters) {
        self.conns_accepted += worker.accepted.value();
        self.conns_live += worker.live();
        let add = |sums: &mut [u64], counters: &[Counter]| {
            sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter.value());
        };
        add(&mut self.closed, &worker.closed);
        add(&mut self.accept_errors, &worker.accept_errors);
        add(&mut self.proxy, &worker.proxy);
    }

    /// Returns the accept errors by errno name; rare errors are summed as `other`.
    pub fn accept_errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = ACCEPT_ERRORS.iter().map(|(_, name)| *name).chain(["other"]);
        names.zip(self.accept_errors)
    }

    /// Returns the number of connections with this PROXY protocol result.
    pub fn proxied(&self, result: ProxyResult) -> u64 {
        self.proxy[result as usize]
    }
}

impl Counters {
    /// Returns counters for `count` listeners. Existing counters continue after a change of the
    /// driver.
    pub(crate) fn listeners(&self, count: usize) -> Arc<[ListenerCounters]> {
        let new = || (0..count).map(|_| ListenerCounters::default()).collect();
        Arc::clone(self.listeners.get_or_init(new))
    }

    /// Returns counters for `count` datagram listeners. Existing counters continue after a change
    /// of the driver.
    pub(crate) fn datagrams(&self, count: usize) -> Arc<[DatagramCounters]> {
        let new = || (0..count).map(|_| DatagramCounters::default()).collect();
        Arc::clone(self.datagrams.get_or_init(new))
    }

    /// Adds the counters of each datagram listener to `sums`.
    pub(crate) fn add_datagrams(&self, sums: &mut Vec<DatagramSnapshot>) {
        let datagrams = self.datagrams.get().map_or(&[][..], |datagrams| &**datagrams);
        sums.resize_with(sums.len().max(datagrams.len()), DatagramSnapshot::default);
        sums.iter_mut().zip(datagrams).for_each(|(sum, counters)| sum.add(counters));
    }

    /// Counts all open connections as lost, after their driver or worker has failed.
    pub(crate) fn lose_connections(&self) {
        self.conns_live.set(0);
        self.by_listener()
            .iter()
            .for_each(|listener| listener.closed[CloseReason::Lost.index()].add(listener.live()));
    }

    /// Returns the counters of all listeners, by index.
    pub(crate) fn by_listener(&self) -> &[ListenerCounters] {
        self.listeners.get().map_or(&[], |listeners| &**listeners)
    }

    /// Adds the counters of each listener to `sums`.
    pub(crate) fn add_listeners(&self, sums: &mut Vec<ListenerSnapshot>) {
        let listeners = self.by_listener();
        sums.resize_with(sums.len().max(listeners.len()), ListenerSnapshot::default);
        sums.iter_mut().zip(listeners).for_each(|(sum, listener)| sum.add(listener));
    }

    pub(crate) fn take_driver(&self, driver: DriverCounters) {
        self.accepts_dropped.set(driver.accepts_dropped);
        self.cq_overflows.set(driver.cq_overflows);
        self.enters.set(driver.enters);
        self.recv_bufs_starved.set(driver.recv_bufs_starved);
    }
}

impl Snapshot {
    /// Returns the number of connections closed for `reason`.
    pub fn closed_because(&self, reason: CloseReason) -> u64 {
        self.closed[reason.index()]
    }

    /// Returns the number of connections closed for any reason.
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
        counters.turned.set(7);
        counters.listeners(2)[1].closed_because(CloseReason::Done);
        let mut sum = counters.snapshot();
        sum.merge(&counters.snapshot());
        assert_eq!((sum.requests, sum.closed_total(), sum.turned), (4, 2, Time::from_nanos(7)));
        assert_eq!(sum.fields().find(|(name, _)| *name == "requests"), Some(("requests", 4)));
    }

    #[test]
    fn counters_of_a_listener_continue_after_its_driver_is_lost() {
        let counters = Counters::default();
        let before = counters.listeners(2);
        before[1].accepted_and_done(5, 1);
        before[1].accept_failed(Errno::MFILE);
        before[1].accept_failed(Errno::NOSYS);
        let sum = |at: usize| {
            let mut sum = ListenerSnapshot::default();
            [(), ()].iter().for_each(|()| sum.add(&counters.by_listener()[at]));
            sum
        };
        assert_eq!((sum(1).conns_accepted, sum(1).conns_live), (10, 8), "two workers");
        let errors: Vec<_> = sum(1).accept_errors().filter(|(_, count)| *count > 0).collect();
        assert_eq!(errors, [("EMFILE", 2), ("other", 2)]);
        counters.lose_connections();
        assert_eq!((sum(1).conns_live, sum(1).closed[CloseReason::Lost.index()]), (0, 8));
        let after = counters.listeners(2);
        after[1].accepted_and_done(1, 0);
        assert_eq!((sum(1).conns_accepted, sum(1).conns_live), (12, 2));
        assert_eq!(sum(0), ListenerSnapshot::default());
    }
}
