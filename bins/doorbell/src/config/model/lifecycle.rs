//! `[lifecycle]`: how the process starts, reloads and ends.
//!
//! Does not know about: how a drain is done.

use doorbell_config::{Table, Words};
use std::path::PathBuf;
use std::time::Duration;

/// How doorbell starts, reloads and ends.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Lifecycle {
    // Both together are below the 30 seconds that Kubernetes grants by default.
    /// After SIGTERM probers are told to stay away for so long, and everything is still served.
    #[key(default = "5s", range = "0s..=1d")]
    pub drain_delay: Duration,
    /// Then no new connections are taken, and those that are open have so long to finish. A handler that blocks is not interrupted.
    #[key(default = "20s", range = "0s..=1d")]
    pub drain_timeout: Duration,
    /// From the start on, checks without a result count as up for so long; with 0s as down. Not for endpoints with a latch, or whose
    /// name says that they are about startup.
    #[key(default = "0s", range = "0s..=1d")]
    pub startup_grace: Duration,
    /// What makes it read the configuration anew: SIGHUP, a change of a file, both, or off.
    #[key(default = ["SIGHUP", "file"], filled)]
    pub reload: Vec<ReloadOn>,
    /// Keeps what `doorbell maint` and `doorbell drain` declared across restarts. Without it that is $STATE_DIRECTORY/state under
    /// systemd, and else nothing is kept.
    pub state_file: Option<PathBuf>,
}

/// What has the configuration read anew, beside `doorbell reload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum ReloadOn {
    /// `SIGHUP`
    #[word("SIGHUP")]
    Sighup,
    /// A change of the file, or of a file that it takes a secret from.
    File,
    /// None of the others; beside one of them without a meaning.
    Off,
}

impl Lifecycle {
    /// Whether this has the configuration read anew.
    #[must_use]
    pub fn reloads_on(&self, cause: ReloadOn) -> bool {
        self.reload.contains(&cause)
    }

    /// How long from the start checks without a result count as up; without it they count as down.
    #[must_use]
    pub fn grace(&self) -> Option<Duration> {
        Some(self.startup_grace).filter(|grace| !grace.is_zero())
    }
}
