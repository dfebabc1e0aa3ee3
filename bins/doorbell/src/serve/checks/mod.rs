//! The checks of a configuration, ready to run.
//!
//! Does not know about: what follows from their findings.

#[cfg(test)]
mod tests;

use crate::checks::{Connector, Counters, Plan, Push, Run, Runner, Shared};
use crate::config::model::{Check, CheckKind, Config};
use std::sync::Arc;

/// `None` where there is nothing to check. What is done is counted in `counters`; `connector` is one for the same egress, if there is one.
///
/// # Errors
/// When a check needs a file that cannot be used.
pub(super) fn plan(
    config: &Config,
    counters: &Arc<Counters>,
    connector: Option<Arc<Connector>>,
) -> Result<Option<(Plan, Push)>, String> {
    if config.checks.is_empty() {
        return Ok(None);
    }
    let is_exec = |check: &&Check| matches!(check.kind, CheckKind::Exec(_));
    if let Some(check) = config.checks.iter().find(is_exec).filter(|_| !config.allow_exec) {
        let name = &check.name;
        return Err(format!(
            "check {name} runs a program, which nobody allowed: start with --allow-exec, or remove it"
        ));
    }
    let instance = instance(config);
    let connector = match connector {
        Some(connector) => connector,
        None => Arc::new(Connector::open(&config.egress)?),
    };
    let (mut runs, mut shared) = (Vec::new(), Shared::new(Arc::clone(&connector)));
    let tallies = counters.tallies.of(config.checks.iter().map(|check| check.name.as_str()));
    for (position, (check, tally)) in config.checks.iter().zip(&tallies).enumerate() {
        if let Some(runner) = Runner::build(check, &mut shared)? {
            runs.push(Run::new(position, check, &instance, runner, Arc::clone(tally)));
        }
    }
    let counters = Arc::clone(counters);
    Ok(Some(Plan::new(runs, tallies, config.runtime.checks_in_flight as usize, connector, counters)))
}

/// What tells this doorbell from its replicas, and stays the same when it is started again: a pod or a machine has a name, and two on one
/// machine have different addresses.
fn instance(config: &Config) -> String {
    let host = rustix::system::uname();
    let binds = config.listeners.iter().flat_map(|listener| &listener.binds).map(ToString::to_string);
    let own: Vec<String> =
        std::iter::once(host.nodename().to_string_lossy().into_owned()).chain(binds).collect();
    own.join(" ")
}
