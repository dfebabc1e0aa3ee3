//! `[systemd]`: notifications to the service manager. Without `NOTIFY_SOCKET` nothing is sent.

use doorbell_config::{Table, Words};

/// Integration with systemd or a compatible service manager; no effect elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Table)]
pub struct Systemd {
    /// Notifies systemd of start, reload and stop; required by `watchdog` and `fd_store`.
    #[key(default = true)]
    pub notify: bool,
    /// Event that completes the start: listeners (all are open) or checks (each check except those
    /// of type ttl or link has a first result, or `lifecycle.startup_grace` is above 0s and has
    /// passed).
    #[key(default = "listeners")]
    pub ready_on: ReadyOn,
    /// Sends watchdog notifications while every worker and the check thread make progress, if the
    /// unit has WatchdogSec=.
    #[key(default = true)]
    pub watchdog: bool,
    /// Stores listening TCP sockets in systemd for the next start: off, on, or auto (on with
    /// systemd 254 and later).
    #[key(default = "auto")]
    pub fd_store: FdStore,
}

/// Whether the service manager stores the sockets of TCP listeners during a restart
/// (`FileDescriptorStoreMax=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum FdStore {
    /// If `FDSTORE` is set, as with systemd 254 and later.
    Auto,
    /// Never.
    Off,
    /// Even if `FDSTORE` is not set, for systemd before 254.
    On,
}

/// Event that completes the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum ReadyOn {
    /// Every check except those of type ttl or link has its first result, or
    /// `lifecycle.startup_grace` is above 0s and has passed.
    Checks,
    /// All listeners are open.
    Listeners,
}
