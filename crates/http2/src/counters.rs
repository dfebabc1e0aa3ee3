//! Counters of HTTP/2: refused and ended connections and requests by reason, for the log line at
//! exit and for metrics.

use super::flood_limits::Abuse;
use doorbell::http::Misuses;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters since the start.
        #[derive(Debug, Default)]
        pub struct Counters {
            /// Handed-over connections.
            pub(super) connections: AtomicU64,
            /// Open connections.
            live: AtomicU64,
            /// Kinds of invalid replies that have been logged.
            misuses_logged: AtomicU8,
            /// Requests served, including gRPC.
            pub(super) requests: AtomicU64,
            /// Jobs of the compute lane.
            pub(super) jobs: AtomicU64,
            $($(#[$doc])* pub(super) $name: AtomicU64,)*
        }

        impl Counters {
            /// Counters of refused and ended connections and requests, with their names.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((concat!("http2_", stringify!($name)), self.$name.load(Ordering::Relaxed)),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Ended: maximum age.
    aged,
    /// Ended: too many CONTINUATION frames of one header block.
    continuation_flood,
    /// Ended: too many control frames.
    control_flood,
    /// Ended: too many bytes of header blocks.
    header_flood,
    /// Requests refused: a handler called `hand_over`, which is impossible inside HTTP/2 (503).
    hand_over_refused,
    /// Invalid replies of handlers, replaced by a 500.
    handler_misuses,
    /// Panics of handlers (500).
    handler_panics,
    /// TLS handshakes that failed, timed out or were refused.
    handshakes_refused,
    /// Ended: idle timeout.
    idle,
    /// Requests whose job panicked (500).
    jobs_panicked,
    /// Requests refused: the queue of the compute lane was full.
    jobs_refused,
    /// Requests whose job timed out.
    jobs_timed_out,
    /// Refused: too many connections of one address.
    per_ip,
    /// Ended: protocol error of the client, found by hyper.
    protocol,
    /// Ended: too many streams were reset.
    reset_flood,
    /// Closed: no HTTP/2 frame in time.
    silent,
    /// Closed: requests without progress.
    stalled,
    /// Ended: too many open streams.
    stream_flood,
    /// Ended: too many tiny DATA frames.
    tiny_data_flood,
    /// Closed: the runtime could not register the socket.
    unregistered,
    /// Ended: maximum number of requests.
    used_up,
    /// Refused: too many Watch streams.
    watches,
    /// Ended: too many WINDOW_UPDATE frames.
    window_update_flood,
    /// Ended: the client did not open a window for its replies.
    windowless,
}

impl Counters {
    /// Numbers of connections and requests.
    pub fn served(&self) -> (u64, u64) {
        (self.connections.load(Ordering::Relaxed), self.requests.load(Ordering::Relaxed))
    }

    /// Number of open connections.
    pub fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// Counts an open connection until the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Live {
        count(&self.live);
        Live(Arc::clone(self))
    }

    /// Number of started jobs.
    pub fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Relaxed)
    }

    /// Counts invalid replies of handlers in `handler_misuses`, as workers do. Each kind is logged
    /// once.
    pub(super) fn count_misuses(&self, misuses: Misuses) {
        if misuses.count() == 0 {
            return;
        }
        self.handler_misuses.fetch_add(misuses.count().into(), Ordering::Relaxed);
        for misuse in misuses.unreported(&self.misuses_logged) {
            tracing::error!(%misuse, "invalid reply of a handler to an HTTP/2 request: sent 500");
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

/// An open connection.
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
