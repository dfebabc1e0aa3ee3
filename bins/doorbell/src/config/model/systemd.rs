//! `[systemd]`: what the service manager is told. Without `NOTIFY_SOCKET` nobody is told anything.
//!
//! Does not know about: how it is told.

/// `[systemd]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Systemd {
    /// Whether to tell at all.
    pub notify: bool,
    /// From when on the service is started.
    pub ready_on: ReadyOn,
    /// Whether to say that all is well, while every worker goes on (`WatchdogSec=`).
    pub watchdog: bool,
    /// Whether listening sockets are kept for the next start.
    pub fd_store: FdStore,
}

/// Whether the service manager keeps the sockets of listeners at TCP addresses while doorbell restarts (`FileDescriptorStoreMax=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FdStore {
    /// If it says that it does: systemd from 254 on, by `FDSTORE`.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Also if it does not say so: systemd before 254.
    On,
}

/// From when on the service is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyOn {
    /// Every check has its first result, good or bad, or `startup_grace` is over.
    Checks,
    /// Listeners are open.
    #[default]
    Listeners,
}

impl Default for Systemd {
    fn default() -> Self {
        Self { notify: true, ready_on: ReadyOn::default(), watchdog: true, fd_store: FdStore::default() }
    }
}
