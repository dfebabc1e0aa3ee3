//! `[systemd]`, resolved.
//!
//! Does not know about: whether systemd started us.

use super::super::model::Systemd;
use super::super::written;
use super::or;

pub(super) fn resolve_systemd(written: &written::Systemd) -> Systemd {
    let default = Systemd::default();
    Systemd {
        notify: or(&written.notify, default.notify),
        ready_on: or(&written.ready_on, default.ready_on),
        watchdog: or(&written.watchdog, default.watchdog),
        fd_store: or(&written.fd_store, default.fd_store),
    }
}
