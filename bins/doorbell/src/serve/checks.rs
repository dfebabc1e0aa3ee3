//! The checks of a configuration, ready to run.
//!
//! Does not know about: what follows from their findings.

use crate::checks::{Counters, Plan, Push, Run, Runner, TlsPool};
use crate::config::model::Config;
use std::sync::Arc;

/// `None` where there is nothing to check.
///
/// # Errors
/// When a check needs a file that cannot be used.
pub(super) fn plan(config: &Config, counters: &Arc<Counters>) -> Result<Option<(Plan, Push)>, String> {
    if config.checks.is_empty() {
        return Ok(None);
    }
    let instance = instance(config);
    let (mut runs, mut pool) = (Vec::new(), TlsPool::default());
    for (position, check) in config.checks.iter().enumerate() {
        if let Some(runner) = Runner::build(check, &mut pool)? {
            runs.push(Run::new(position, &check.name, &instance, check.pace.jitter, runner));
        }
    }
    Ok(Some(Plan::new(runs, config.runtime.checks_in_flight as usize, Arc::clone(counters))))
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
