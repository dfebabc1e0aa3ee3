//! `[control]` and `[maintenance]`, resolved.
//!
//! Does not know about: whether paths can be used.

use super::super::model::{Control, Health, Maintenance, Window};
use super::super::written;
use super::names::health_position;
use super::or;
use doorbell_config::Problems;

pub(super) fn resolve_control(written: &written::Control) -> Control {
    Control {
        socket: or(&written.socket, Control::default().socket),
        group: written.group.as_ref().map(|at| at.value.clone()),
    }
}

pub(super) fn resolve_maintenance(
    written: &written::Maintenance,
    health: &[Health],
    problems: &Problems,
) -> Maintenance {
    let windows = written.windows.iter().filter_map(|window| resolve_window(window, health, problems));
    Maintenance { file_dir: written.file_dir.as_ref().map(|at| at.value.clone()), windows: windows.collect() }
}

fn resolve_window(written: &written::Window, health: &[Health], problems: &Problems) -> Option<Window> {
    let names = written.endpoints.iter().flat_map(|names| &names.value);
    let endpoints = names.filter_map(|name| health_position(name, health, problems)).collect();
    Some(Window {
        cron: written.cron.as_ref()?.value.clone(),
        length: written.length.as_ref()?.value,
        endpoints,
        reason: written.reason.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
    })
}
