//! `[systemd]` as it was written.
//!
//! Does not know about: whether systemd started us.

use super::super::model::{FdStore, ReadyOn};
use doorbell_config::{At, Section};

#[derive(Debug, Default)]
pub(crate) struct Systemd {
    pub(crate) notify: Option<At<bool>>,
    pub(crate) ready_on: Option<At<ReadyOn>>,
    pub(crate) watchdog: Option<At<bool>>,
    pub(crate) fd_store: Option<At<FdStore>>,
}

pub(crate) const FD_STORE: [(&str, FdStore); 3] =
    [("auto", FdStore::Auto), ("off", FdStore::Off), ("on", FdStore::On)];

pub(crate) const READY_ON: [(&str, ReadyOn); 2] =
    [("checks", ReadyOn::Checks), ("listeners", ReadyOn::Listeners)];

impl Systemd {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let systemd = Self {
            notify: at.bool("notify"),
            ready_on: at.choice("ready_on", &READY_ON),
            watchdog: at.bool("watchdog"),
            fd_store: at.choice("fd_store", &FD_STORE),
        };
        at.finish();
        systemd
    }
}
