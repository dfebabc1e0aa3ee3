//! The health registry of this process: a [`ClockedRegistry`] with an event log.

pub(crate) mod agent;
mod build;
mod sinks;
#[cfg(test)]
mod tests;
mod view;

use crate::operator::{EventLog, time_of_day};
use doorbell_checks::CheckStats;
use doorbell_health::Time;
use doorbell_probes::{Registry, ReplyCache};
use doorbell_proxy_config::model::{Config, HealthRoute};
use doorbell_tokio::registry::{ClockedRegistry, LogSink, TransitionCounters};
use sinks::EventSink;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;

/// A [`ClockedRegistry`] with an event log.
#[derive(Debug)]
pub(crate) struct HealthRegistry {
    registry: Arc<ClockedRegistry>,
    /// Set when transitions are reported to the event log.
    has_event_log: OnceLock<()>,
}

impl Deref for HealthRegistry {
    type Target = ClockedRegistry;

    fn deref(&self) -> &ClockedRegistry {
        &self.registry
    }
}

impl HealthRegistry {
    /// Builds the registry of a configuration, without results.
    pub(crate) fn build(config: &Config) -> Result<Arc<Self>, String> {
        Self::finish(config, Registry::builder(Time::ZERO, time_of_day()), Instant::now())
    }

    /// Builds the registry of a server that replaces another server at a reload. The registry has
    /// the clock origin of `before`, and reports no transitions until
    /// [`Registry::report_instead_of`].
    pub(crate) fn build_after(config: &Config, before: &Self) -> Result<Arc<Self>, String> {
        Self::finish(config, before.successor(before.now()), before.origin())
    }

    fn finish(
        config: &Config,
        builder: doorbell_probes::RegistryBuilder,
        origin: Instant,
    ) -> Result<Arc<Self>, String> {
        let registry = build::build(config, builder)?;
        registry.report_to(Arc::new(LogSink));
        let registry = Arc::new(ClockedRegistry::new(registry, origin, time_of_day));
        Ok(Arc::new(Self { registry, has_event_log: OnceLock::new() }))
    }

    /// The receiver of check results.
    pub(crate) const fn result_sink(&self) -> &Arc<ClockedRegistry> {
        &self.registry
    }

    /// Records transitions in this event log from now on; a second event log is ignored.
    pub(crate) fn report_to(&self, event_log: &Arc<EventLog>) {
        if self.has_event_log.set(()).is_ok() {
            self.registry.report_to(Arc::new(EventSink(Arc::clone(event_log))));
        }
    }

    /// Counts the transitions of each check in `check_stats`, by the position of the check.
    pub(crate) fn count_in(&self, check_stats: &[Arc<CheckStats>]) {
        self.registry.report_to(Arc::new(TransitionCounters(check_stats.to_vec())));
    }

    /// Renders the replies of a route with these header fields and methods; `None` if a field
    /// cannot be sent.
    pub(crate) fn cache(
        &self,
        route: &HealthRoute,
        headers: &[(String, String)],
        allow: &str,
        has_singles: bool,
    ) -> Option<Arc<ReplyCache>> {
        self.registry.cache(build::reply_options(route, headers, allow, has_singles))
    }
}
