//! The result of a probe.

use doorbell_checks::{Phases, Seen};
use std::time::Duration;

/// The result of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The connection failed.
    ConnectFailed,
    /// The response is what the prober expects.
    Healthy,
    /// The TLS handshake failed, or the response is invalid.
    #[default]
    ProtocolFailed,
    /// No complete result within the timeout.
    TimedOut,
    /// The response is negative.
    Unhealthy,
}

/// The report of one probe.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Whether the target is healthy, and if not, in which way.
    pub verdict: Verdict,
    /// The reason, without a full stop and without control characters.
    pub reason: String,
    /// HTTP status of the last response.
    pub status: Option<u16>,
    /// Sums over the first request and all redirects.
    pub phases: Phases,
    /// Number of redirects that were followed.
    pub redirects: u32,
    /// Observations of the connection and of the last response.
    pub seen: Seen,
    /// Time from the start to the verdict.
    pub total: Duration,
    /// Bytes sent on the last connection.
    pub sent: Vec<u8>,
    /// Received bytes, truncated to a limit.
    pub received: Vec<u8>,
}

impl Verdict {
    /// The word for the verdict in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::ConnectFailed => "connect-failed",
            Self::Healthy => "healthy",
            Self::ProtocolFailed => "protocol-failed",
            Self::TimedOut => "timeout",
            Self::Unhealthy => "unhealthy",
        }
    }
}
