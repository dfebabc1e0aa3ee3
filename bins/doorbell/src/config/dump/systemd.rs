//! `[systemd]` as it is written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::Systemd;
use super::super::written::{FD_STORE, READY_ON};
use super::name_of;
use serde_json::{Value, json};

pub(super) fn systemd_value(systemd: &Systemd) -> Value {
    json!({
        "notify": systemd.notify,
        "ready_on": name_of(&READY_ON, systemd.ready_on),
        "watchdog": systemd.watchdog,
        "fd_store": name_of(&FD_STORE, systemd.fd_store),
    })
}
