//! Kinds of probes and their verdicts, the same in ring threads and in the program.
//!
//! Does not know about: how a reply is written.

/// Kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Liveness, whether the program should be restarted: `/livez` and `/healthz`.
    Live,
    /// Readiness, whether the program takes traffic: `/readyz`.
    Ready,
    /// Whether the startup phase is over: `/startupz`.
    Started,
}

/// Result of a probe: [`Self::Ok`] gives status 200, all others 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// A handed-over connection waits longer than [`crate::Health::accept_within`], although others
    /// are accepted. Not ready, but alive.
    Backlog,
    /// The program has set itself to not alive.
    Down,
    /// A drain has begun.
    Draining,
    /// [`crate::Handed`] was dropped, or accepts no connection although some wait longer than
    /// [`crate::Health::accept_within`].
    NotAccepting,
    /// The program has not set itself to ready.
    NotReady,
    /// The probe succeeds.
    Ok,
    /// A runtime or one of its workers is stuck.
    Stalled,
    /// The program is still in its startup phase.
    Starting,
    /// No server uses this health ([`crate::Embed::health`]): a stuck runtime would not be
    /// detected.
    Unwatched,
}

impl Probe {
    /// The probe of a path, if it is one.
    pub fn of(path: &str) -> Option<Self> {
        match path {
            "/healthz" | "/livez" => Some(Self::Live),
            "/readyz" => Some(Self::Ready),
            "/startupz" => Some(Self::Started),
            _ => None,
        }
    }
}

impl Verdict {
    /// All verdicts, in the order of their declaration.
    pub(crate) const ALL: [Self; 9] = [
        Self::Backlog,
        Self::Down,
        Self::Draining,
        Self::NotAccepting,
        Self::NotReady,
        Self::Ok,
        Self::Stalled,
        Self::Starting,
        Self::Unwatched,
    ];

    /// 200 or 503.
    pub const fn status(self) -> u16 {
        if matches!(self, Self::Ok) { 200 } else { 503 }
    }

    /// Body of the reply, one line.
    pub const fn body(self) -> &'static str {
        match self {
            Self::Backlog => "backlog\n",
            Self::Down => "down\n",
            Self::Draining => "draining\n",
            Self::NotAccepting => "not accepting\n",
            Self::NotReady => "not ready\n",
            Self::Ok => "ok\n",
            Self::Stalled => "stalled\n",
            Self::Starting => "starting\n",
            Self::Unwatched => "not watched: Embed::health is missing\n",
        }
    }
}
