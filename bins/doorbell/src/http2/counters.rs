//! What the lane refused and ended, by why: one number each, for the last line of the log and for metrics.
//!
//! Does not know about: who reads them.

use super::flood_limits::Abuse;
use crate::http::Misuses;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts up from the start.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            /// Connections that were handed over.
            pub(super) connections: AtomicU64,
            /// Of these, those that are not over.
            live: AtomicU64,
            /// Kinds of invalid replies that were logged.
            misuses_told: AtomicU8,
            /// Requests answered, those of gRPC among them.
            pub(super) requests: AtomicU64,
            /// Jobs of the compute lane.
            pub(super) jobs: AtomicU64,
            $($(#[$doc])* pub(super) $name: AtomicU64,)*
        }

        impl Counters {
            /// What was refused or ended, by name.
            pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((concat!("http2_", stringify!($name)), self.$name.load(Ordering::Relaxed)),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Ended at their age.
    aged,
    /// Ended: too many CONTINUATION frames of one header block.
    continuation_flood,
    /// Ended: too many control frames.
    control_flood,
    /// Ended: too many bytes of header blocks.
    header_flood,
    /// Invalid replies of handlers, answered by a 500.
    handler_misuses,
    /// TLS handshakes that failed, took too long, or were one too many.
    handshakes_refused,
    /// Ended: no request for a while.
    idle,
    /// Requests refused: the queue of the compute lane was full.
    jobs_refused,
    /// Requests whose job took too long.
    jobs_timed_out,
    /// Refused: too many connections of one address.
    per_ip,
    /// Ended: hyper found the client at fault.
    protocol,
    /// Ended: too many streams were reset.
    reset_flood,
    /// Closed: nothing of HTTP/2 came in time.
    silent,
    /// Closed: nothing came of their requests.
    stalled,
    /// Ended: too many streams were begun at once.
    stream_flood,
    /// Ended: too many tiny DATA frames.
    tiny_data_flood,
    /// Closed: the runtime could not watch them.
    unregistered,
    /// Ended: they had all the requests they may have.
    used_up,
    /// Watch streams refused.
    watches,
    /// Ended: too many WINDOW_UPDATE frames.
    window_update_flood,
    /// Ended: they never opened a window for the replies they asked for.
    windowless,
}

impl Counters {
    /// Connections and requests.
    pub(crate) fn served(&self) -> (u64, u64) {
        (self.connections.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed))
    }

    /// Connections that are not over.
    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// A connection begins; it is over when what is given goes.
    pub(super) fn begin(self: &Arc<Self>) -> Live {
        count(&self.live);
        Live(Arc::clone(self))
    }

    /// Jobs that were begun.
    pub(crate) fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Relaxed)
    }

    /// What ring workers count as `handler_misuses`, of requests by HTTP/2. Each kind is logged once.
    pub(super) fn count_misuses(&self, misuses: Misuses) {
        if misuses.count() == 0 {
            return;
        }
        self.handler_misuses.fetch_add(misuses.count().into(), Ordering::Relaxed);
        for misuse in misuses.untold(&self.misuses_told) {
            tracing::error!(%misuse, "invalid reply of a handler to a request by HTTP/2: sent a 500");
        }
    }

    pub(super) fn count_abuse(&self, abuse: Abuse) {
        count(match abuse {
            Abuse::Continuations => &self.continuation_flood,
            Abuse::Control => &self.control_flood,
            Abuse::HeaderBytes => &self.header_flood,
            Abuse::Resets => &self.reset_flood,
            Abuse::Streams => &self.stream_flood,
            Abuse::TinyData => &self.tiny_data_flood,
            Abuse::WindowUpdates => &self.window_update_flood,
            Abuse::Windowless => &self.windowless,
        });
    }
}

/// A connection that is not over.
#[derive(Debug)]
pub(super) struct Live(Arc<Counters>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
