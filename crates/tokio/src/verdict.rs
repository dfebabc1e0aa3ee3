//! What a probe asks for and what it is told, in the ring threads and in the program alike.
//!
//! Does not know about: how a reply is written.

/// What a probe asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Whether the program is to be restarted: `/livez` and `/healthz`.
    Live,
    /// Whether the program takes traffic: `/readyz`.
    Ready,
    /// Whether starting up is over: `/startupz`.
    Started,
}

/// What a probe is told: [`Self::Ok`] with status 200, everything else with 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// A handed-over connection waits for longer than [`crate::Health::accept_within`] although others are accepted. Not ready, but alive.
    Backlog,
    /// The program said that it is not alive.
    Down,
    /// A drain has begun.
    Draining,
    /// [`crate::Handed`] was dropped, or accepts nothing although connections wait for longer than [`crate::Health::accept_within`].
    NotAccepting,
    /// The program did not say that it takes traffic.
    NotReady,
    /// What was asked for holds.
    Ok,
    /// A runtime, or one of its workers, is stuck.
    Stalled,
    /// The program is still starting up.
    Starting,
    /// No server was given this health by [`crate::Embed::health`]: a stuck runtime would not be noticed.
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
    /// Every verdict, in the order of their declaration.
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

    /// The body of the reply: one line.
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
