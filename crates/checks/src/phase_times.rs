//! Phases of a run, and how long each took.

/// Timed phases of a run, named as in blackbox_exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connecting.
    Connect,
    /// Waiting for a response.
    Processing,
    /// Lookup of a name.
    Resolve,
    /// TLS handshake.
    Tls,
    /// Reading content.
    Transfer,
}

/// Durations of the phases of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTimes {
    /// Phase in which the run ended; `None` if all phases were completed or the run has no phases.
    pub last: Option<Phase>,
    /// Microseconds by [`Phase`]; `None` for phases that did not occur.
    pub took_us: [Option<u32>; Phase::ALL.len()],
}

impl Phase {
    /// All phases, sorted by name.
    pub const ALL: [Self; 5] = [Self::Connect, Self::Processing, Self::Resolve, Self::Tls, Self::Transfer];

    /// The name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Processing => "processing",
            Self::Resolve => "resolve",
            Self::Tls => "tls",
            Self::Transfer => "transfer",
        }
    }
}
