//! Counters of a datagram listener.

use super::Counter;

macro_rules! datagram_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Live counters of one datagram listener in one worker.
        #[derive(Debug, Default)]
        pub(crate) struct DatagramCounters {
            $($name: Counter,)*
        }

        /// Counters of one datagram listener over all workers, at one moment. All counters start at
        /// 0 with the server and never decrease.
        ///
        /// Each received datagram is counted once more: as replied, send_failed, silent, truncated,
        /// limited, guarded, panicked or invalid.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct DatagramSnapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl DatagramCounters {
            /// Adds the counts of a batch.
            pub(crate) fn add(&self, batch: &DatagramSnapshot) {
                $(if batch.$name != 0 {
                    self.$name.add(batch.$name);
                })*
            }
        }

        impl DatagramSnapshot {
            pub(crate) fn add(&mut self, worker: &DatagramCounters) {
                $(self.$name += worker.$name.value();)*
            }

            /// Adds other counters of the same listener.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Returns all counters by name.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

datagram_counters! {
    /// Datagrams received.
    received,
    /// Replies that the kernel accepted.
    replied,
    /// Replies that the kernel did not accept, for example because the queue of the socket was
    /// full.
    send_failed,
    /// Datagrams to which the handler did not reply.
    silent,
    /// Datagrams above the maximum size, which were dropped.
    truncated,
    /// Datagrams above the limit per client address, which were dropped.
    limited,
    /// Replies that were not sent because they were too long for their request.
    guarded,
    /// Datagrams whose handler panicked.
    panicked,
    /// Datagrams without a readable sender, which were dropped.
    invalid,
    /// Datagrams that were in the queue of a socket when it was closed.
    dropped,
    /// Receives that failed.
    recv_errors,
}
