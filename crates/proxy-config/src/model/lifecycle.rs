//! `[lifecycle]`: start, reload and end of the process.

use doorbell_config::{Table, Words};
use std::path::PathBuf;
use std::time::Duration;

/// Start, reload and end of the process.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Lifecycle {
    // The sum of the defaults of `drain_delay` and `drain_timeout` is below the default grace
    // period of Kubernetes, 30 seconds.
    /// Time after SIGTERM in which endpoints report the drain and all requests are still served.
    #[key(default = "5s", range = "0s..=1d")]
    pub drain_delay: Duration,
    /// Time for open connections to finish after `drain_delay`, when no new ones are accepted.
    #[key(default = "20s", range = "0s..=1d")]
    pub drain_timeout: Duration,
    /// Time from the start in which checks without a result count as up; with 0s they count as
    /// down. Ignored by endpoints with `latch = true` and by startup endpoints such as startupz.
    #[key(default = "0s", range = "0s..=1d")]
    pub startup_grace: Duration,
    /// Causes of a reload: SIGHUP, file (a change of the configuration file, of a secret or of
    /// `reply.file`), both, or off.
    #[key(default = ["SIGHUP", "file"], filled)]
    pub reload: Vec<ReloadOn>,
    /// File that stores the declarations of `doorbell maint` and `doorbell drain` across restarts.
    /// Default: $STATE_DIRECTORY/state under systemd; otherwise the declarations are not stored.
    pub state_file: Option<PathBuf>,
}

/// Causes of a reload, in addition to `doorbell reload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum ReloadOn {
    /// `SIGHUP`
    #[word("SIGHUP")]
    Sighup,
    /// A change of the configuration file, or of a file from which it takes a secret or a reply.
    File,
    /// No cause; cannot be combined with another cause.
    Off,
}

impl Lifecycle {
    /// Whether this event causes a reload.
    #[must_use]
    pub fn reloads_on(&self, cause: ReloadOn) -> bool {
        self.reload.contains(&cause)
    }

    /// Time from the start in which checks without a result count as up; `None`: they count as
    /// down.
    #[must_use]
    pub fn grace(&self) -> Option<Duration> {
        Some(self.startup_grace).filter(|grace| !grace.is_zero())
    }
}
