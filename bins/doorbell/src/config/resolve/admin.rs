//! Validates `[admin]` against the other tables.
//!
//! Does not know about: its pages and calls.

use super::super::bind::Bind;
use super::super::model::Config;
use doorbell_config::{Places, Problem, Problems};

/// Reports an admin address that is also the address of a listener.
pub(super) fn lint(config: &Config, places: &Places, problems: &Problems) {
    let Some(admin) = &config.admin else { return };
    let place = places.get("admin.bind").or_else(|| places.get("admin"));
    // An invalid address is already reported.
    let Some(place) = place.filter(|place| !problems.has_error_at(place)) else { return };
    let same = |bound: &Bind| matches!(bound, Bind::Tcp(addr) if *addr == admin.bind && addr.port() != 0);
    let mut binds = config.listeners.iter().flat_map(|listener| &listener.binds);
    if let Some(first) = binds.find(|at| same(&at.value)) {
        problems.add(
            Problem::error("bound-twice", place, format!("{} is bound twice", admin.bind))
                .also(first.span.clone(), "by a listener here")
                .help("give one of them another address"),
        );
    }
}
