//! The state of a link as plain data.

use crate::minute::MinuteReport;
use std::time::Duration;

/// State, measurements and counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkReport {
    /// Age of the open connection; `None` without one.
    pub connected_for: Option<Duration>,
    /// Version of the protocol on the current connection.
    pub version: Option<u16>,
    /// Transitions that are not acknowledged.
    pub waiting: u64,
    /// The last round-trip time.
    pub round_trip: Option<Duration>,
    /// The peer's clock minus this one, in microseconds, and the error bound.
    pub clock_offset: Option<(i64, Duration)>,
    /// The last complete minute; if it had no frames, the current minute.
    pub minute: Option<MinuteReport>,
    /// Counters since the link was created.
    pub counters: LinkCounters,
}

/// Counters of a link since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Connections.
    pub connections: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that were lost with a connection; counted when the next connection opens.
    pub lost: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Transitions that arrived.
    pub transitions_received: u64,
    /// Transitions that arrived again and were ignored.
    pub duplicates: u64,
    /// Results that arrived.
    pub results_received: u64,
    /// Unacknowledged transitions that a newer one superseded because the queue was full.
    pub superseded: u64,
    /// Results that were dropped because the queue was full.
    pub results_dropped: u64,
    /// Receipts that were dropped because the queue was full. The frames are not lost.
    pub receipts_dropped: u64,
}
