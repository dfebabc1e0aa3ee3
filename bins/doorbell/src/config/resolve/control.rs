//! `[control]` and `[maintenance]`, resolved.
//!
//! Does not know about: whether paths can be used.

use super::super::model::{Control, Maintenance};
use super::super::written;
use super::or;

pub(super) fn resolve_control(written: &written::Control) -> Control {
    Control {
        socket: or(&written.socket, Control::default().socket),
        group: written.group.as_ref().map(|at| at.value.clone()),
    }
}

pub(super) fn resolve_maintenance(written: &written::Maintenance) -> Maintenance {
    Maintenance { file_dir: written.file_dir.as_ref().map(|at| at.value.clone()) }
}
