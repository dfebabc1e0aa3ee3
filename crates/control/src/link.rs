//! Views of links to other instances.

use bitcode::{Decode, Encode};
use serde::Serialize;
use std::collections::BTreeMap;

/// One link.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize)]
pub struct LinkView {
    /// `[link.NAME]`
    pub name: String,
    /// Address of the peer; empty if the peer connects.
    pub peer: String,
    /// Age of the connection; `None` while not connected.
    pub connected_ms: Option<u64>,
    /// Why the last connection or attempt ended; empty while connected, and if none has ended yet.
    pub last_end: String,
    /// Transitions that the peer has not acknowledged.
    pub waiting: u64,
    /// Number of checks and endpoints that the peer has stated.
    pub subjects: u64,
    /// The last round trip.
    pub round_trip_us: Option<u64>,
    /// The peer's clock minus the clock of this instance.
    pub clock_offset_us: Option<i64>,
    /// Maximum error of `clock_offset_us`.
    pub clock_error_us: Option<u64>,
    /// Measurements of the last complete minute or, if it had no frames, of the current minute.
    pub minute: Option<LinkMinuteView>,
    /// Counters since the link was created, by name.
    pub counters: BTreeMap<String, u64>,
}

impl LinkView {
    /// The counter with this name; 0 if it is absent.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}

/// Measurements of one minute.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize)]
pub struct LinkMinuteView {
    /// Start of the minute.
    pub starts_unix_ms: u64,
    /// Number of frames for which the peer has returned a receipt (the arrival time).
    pub frames: u64,
    /// Round trips.
    pub round_trip: QuantilesView,
    /// One-way latencies to the peer.
    pub one_way: QuantilesView,
    /// Maximum error of `one_way`.
    pub one_way_error_us: u64,
    /// Correlation of frame size and round trip, from -1 to 1.
    pub size_correlation: Option<f64>,
    /// Rate of sending in the busiest 100 ms.
    pub sent_max_bytes_per_s: u64,
    /// Rate of receiving in the busiest 100 ms.
    pub received_max_bytes_per_s: u64,
}

/// Quantiles of a latency in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct QuantilesView {
    /// Half of the frames were faster.
    pub p50_us: u64,
    /// 90 % of the frames were faster.
    pub p90_us: u64,
    /// 99 % of the frames were faster.
    pub p99_us: u64,
    /// The slowest frame.
    pub max_us: u64,
}
