//! Builds the checks of a configuration.

#[cfg(test)]
mod tests;

use doorbell_checks::options::{Check, CheckKind, EgressOptions};
use doorbell_checks::{Connector, Plan, Push, Run, Runner, SchedulerCounters, SharedResources};
use doorbell_probes::Registry;
use doorbell_proxy_config::host_name;
use doorbell_proxy_config::model::Config;
use doorbell_tokio::registry::States;
use std::collections::HashMap;
use std::sync::Arc;

/// State of the checks that the next configuration takes over.
#[derive(Debug)]
pub(crate) struct CheckHandover {
    egress: EgressOptions,
    connector: Option<Arc<Connector>>,
    /// Stateful runners, by name.
    runners: HashMap<String, Arc<Runner>>,
}

impl CheckHandover {
    pub(crate) fn of(config: &Config, plan: &Plan) -> Self {
        let remember = plan.runners().filter(|(_, runner)| runner.can_move());
        let named = remember
            .filter_map(|(at, runner)| Some((config.checks.get(at)?.name.clone(), Arc::clone(runner))));
        Self {
            egress: config.check_defaults.egress.clone(),
            connector: plan.connector().cloned(),
            runners: named.collect(),
        }
    }

    /// The existing runner of a check, if the check is unchanged and the runner is stateful.
    fn runner(&self, check: &Check) -> Option<Arc<Runner>> {
        self.runners.get(&check.name).filter(|runner| runner.is_for(check)).cloned()
    }
}

/// Plans the checks; `None` without checks. The scheduler updates `counters`. Unchanged checks
/// reuse their state from `handover`. Alias checks read the states of `registry`.
///
/// # Errors
/// If a check cannot be built, or runs a program without `--allow-exec`.
pub(crate) fn plan(
    config: &Config,
    counters: &Arc<SchedulerCounters>,
    handover: Option<&CheckHandover>,
    registry: &Arc<Registry>,
) -> Result<Option<(Plan, Push)>, String> {
    if config.checks.is_empty() {
        return Ok(None);
    }
    let is_exec = |check: &&Check| matches!(check.kind, CheckKind::Exec(_));
    if let Some(check) = config.checks.iter().find(is_exec).filter(|_| !config.allow_exec) {
        let name = &check.name;
        return Err(format!(
            "check {name} runs a program, which is not allowed: start with --allow-exec, or remove the check"
        ));
    }
    let instance = instance(config);
    let handover_connector = handover
        .filter(|handover| handover.egress == config.check_defaults.egress)
        .and_then(|handover| handover.connector.clone());
    let connector = match handover_connector {
        Some(connector) => connector,
        None => Arc::new(Connector::open(&config.check_defaults.egress)?),
    };
    let states = States(Arc::clone(registry));
    let checks = config.checks.iter().enumerate();
    states.follow(checks.filter_map(|(position, check)| Some((position, check.kind.followed()?))));
    let mut shared = SharedResources::new(Arc::clone(&connector)).with_states(Arc::new(states));
    let mut runs = Vec::new();
    let stats = counters.by_check.of(config.checks.iter().map(|check| check.name.as_str()));
    for (position, (check, stats)) in config.checks.iter().zip(&stats).enumerate() {
        let runner = match handover.and_then(|handover| handover.runner(check)) {
            None => Runner::build(check, &mut shared)?.map(Arc::new),
            known => known,
        };
        if let Some(runner) = runner {
            runs.push(Run::new(position, check, &instance, runner, Arc::clone(stats)));
        }
    }
    let in_flight_max = config.runtime.checks_in_flight as usize;
    let (plan, push) = Plan::new(runs, stats, in_flight_max, Arc::clone(counters));
    Ok(Some((plan.with_connector(connector), push)))
}

/// Identifies this instance among its replicas by its host name and the addresses of its listeners,
/// which are the same after a restart.
fn instance(config: &Config) -> String {
    let binds = config.listeners.iter().flat_map(|listener| listener.addresses()).map(ToString::to_string);
    std::iter::once(host_name()).chain(binds).collect::<Vec<_>>().join(" ")
}
