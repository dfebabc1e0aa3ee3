//! `[systemd]`: what the service manager is told. Without `NOTIFY_SOCKET` nothing is sent.
//!
//! Does not know about: how it is told.

use doorbell_config::{Table, Words};

/// Does something only below systemd, or what speaks like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Table)]
pub struct Systemd {
    /// Whether systemd is told of the start, of reloads and of the end.
    #[key(default = true)]
    pub notify: bool,
    /// When the service counts as started: listeners when they are open, checks when each has its first result or `startup_grace` is
    /// over.
    #[key(default = "listeners")]
    pub ready_on: ReadyOn,
    /// Whether systemd is told that every worker goes on, where the unit has WatchdogSec=.
    #[key(default = true)]
    pub watchdog: bool,
    /// Whether sockets are kept for the next start; auto does from systemd 254 on.
    #[key(default = "auto")]
    pub fd_store: FdStore,
}

/// Whether the service manager keeps the sockets of listeners at TCP addresses while doorbell restarts (`FileDescriptorStoreMax=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum FdStore {
    /// If it says that it does: systemd from 254 on, by `FDSTORE`.
    Auto,
    /// Never.
    Off,
    /// Also if it does not say so: systemd before 254.
    On,
}

/// From when on the service is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Words)]
pub enum ReadyOn {
    /// Every check has its first result, good or bad, or `startup_grace` is over.
    Checks,
    /// Listeners are open.
    Listeners,
}
