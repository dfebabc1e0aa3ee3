//! Builds a registry and the options of its replies from a configuration.

use crate::workers;
use doorbell_health::{CheckIndex, ConfigError, EndpointConfig, FailOpen, Format, Grace, Use};
use doorbell_probes::{EndpointOptions, Registry, RegistryBuilder, ReplyOptions};
use doorbell_proxy_config::model::{
    Config, DegradedVia, Details, Health, HealthFormat, HealthRoute, HealthState, Role,
};
use doorbell_tokio::registry::check_config;
use std::sync::Arc;

/// Builds a registry with all checks and endpoints of a configuration, at the same positions.
pub(super) fn build(config: &Config, builder: RegistryBuilder) -> Result<Arc<Registry>, String> {
    let mut builder = builder.threads(workers::count(config));
    let mut checks = Vec::new();
    for check in &config.checks {
        let index = builder.check(&check.name, check_config(check));
        checks.push(index.map_err(|error| format!("check {}: {error}", check.name))?);
    }
    let grace = config.lifecycle.grace().map(|duration| Grace { duration });
    for health in &config.health {
        // A startup endpoint has no grace period and becomes up by results only: with `latch`, it
        // would otherwise stay up after the grace period.
        let grace = grace.filter(|_| Role::of(&health.name) != Role::Startup);
        let added = endpoint_config(health, &checks, grace)
            .and_then(|endpoint| builder.endpoint(endpoint, endpoint_options(health)));
        added.map_err(|error| format!("health {}: {error}", health.name))?;
    }
    Ok(builder.build())
}

fn endpoint_config(
    health: &Health,
    checks: &[CheckIndex],
    grace: Option<Grace>,
) -> Result<EndpointConfig, ConfigError> {
    let uses = health.uses.iter().map(|one| {
        let check = checks.get(one.check).copied().ok_or(ConfigError::UnknownCheck)?;
        Ok(Use {
            check,
            severity: one.severity,
            in_quorum: one.in_quorum,
            weight: one.weight,
            code: one.code,
        })
    });
    Ok(EndpointConfig {
        uses: uses.collect::<Result<_, _>>()?,
        quorum: health.quorum(),
        fail_open: health
            .fail_open
            .as_ref()
            .map(|open| FailOpen { max_age: open.max_age, max_healthy: open.max_healthy }),
        latch: health.latch,
        on_stale: health.on_stale,
        grace,
        codes: health.codes(),
        on_drain: health.on_drain(),
        // Replies with and without details are rendered, because each route selects one form.
        details: doorbell_health::Details::Authenticated,
        body_len_max: health.max_body as usize,
        ..EndpointConfig::new(health.name.as_str())
    })
}

fn endpoint_options(health: &Health) -> EndpointOptions {
    EndpointOptions {
        is_readiness: Health::is_readiness(&health.name),
        warns_kubelets: health.degraded_via == DegradedVia::KubeWarning,
        is_down: health.initial == HealthState::Down && health.uses.is_empty(),
        fields: health.fields(),
    }
}

/// Options for the replies of a health route with these header fields and methods.
pub(super) fn reply_options(
    route: &HealthRoute,
    headers: &[(String, String)],
    allow: &str,
    has_singles: bool,
) -> ReplyOptions {
    ReplyOptions {
        endpoint: route.endpoint,
        format: match route.format {
            HealthFormat::Auto => None,
            HealthFormat::HealthJson => Some(Format::HealthJson),
            HealthFormat::KubeVerbose => Some(Format::Kube),
            HealthFormat::Spring => Some(Format::Spring),
            HealthFormat::Text => Some(Format::Text),
        },
        details: match route.details {
            Details::Always => doorbell_health::Details::Always,
            Details::Authenticated => doorbell_health::Details::Authenticated,
            Details::Never => doorbell_health::Details::Never,
        },
        headers: headers.to_vec(),
        allow: allow.to_owned(),
        has_singles,
    }
}
