//! `[health.NAME]` as it is written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::{CheckUse, Config, Health, HealthState, OnDrain, Quorum};
use super::super::written::{DEGRADED_VIA, ON_STALE};
use super::name_of;
use doorbell_config::{format_duration, format_size};
use doorbell_health::Severity;
use serde_json::{Map, Value, json};
use std::time::Duration;

pub(super) fn health_value(health: &Health, config: &Config) -> Value {
    let name = |one: &CheckUse| config.checks.get(one.check).map_or("", |check| &*check.name);
    let list = |severity: Severity| {
        let of_it = health.uses.iter().filter(|one| one.severity == severity);
        of_it.map(name).collect::<Vec<_>>()
    };
    let mut value = json!({
        "require": list(Severity::Required),
        "degrading": list(Severity::Degrading),
        "info": list(Severity::Info),
        "latch": health.latch,
        "on_stale": name_of(&ON_STALE, health.on_stale),
        "status": {
            "up": health.codes.up,
            "degraded": health.codes.degraded,
            "down": health.codes.down,
            "drain": health.codes.drain,
            "maintenance": health.codes.maintenance,
        },
        "on_drain": {
            "kubelet": on_drain_value(health.on_drain[0]),
            "load_balancer": on_drain_value(health.on_drain[1]),
            "default": on_drain_value(health.on_drain[2]),
        },
        "degraded_via": name_of(&DEGRADED_VIA, health.degraded_via),
        "envoy_degraded": health.fields.envoy_degraded,
        "endpoint_weight": health.fields.endpoint_weight,
        "max_body": format_size(health.body_bytes.into()),
    });
    // Of checks it has no effect.
    if health.uses.is_empty() {
        value["initial"] = json!(match health.initial {
            HealthState::Down => "down",
            HealthState::Up => "up",
        });
    }
    if let Some(quorum) = health.quorum {
        let members: Vec<_> = health.uses.iter().filter(|one| one.in_quorum).map(name).collect();
        value["quorum"] = json!({ "of": members, "min": quorum_value(quorum) });
    }
    if let Some(max_age) = health.fail_open {
        value["fail_open"] = json!({ "max_age": format_duration(max_age) });
    }
    if let Some(secs) = health.fields.retry_after_secs {
        value["retry_after"] = json!(format_duration(Duration::from_secs(secs.into())));
    }
    let weights: Map<String, Value> = health
        .uses
        .iter()
        .filter(|one| one.weight > 0)
        .map(|one| (name(one).to_owned(), json!(one.weight)))
        .collect();
    if !weights.is_empty() {
        value["weight"] = Value::Object(weights);
    }
    let by_check: Map<String, Value> =
        health.uses.iter().filter_map(|one| Some((name(one).to_owned(), json!(one.code?)))).collect();
    if !by_check.is_empty() {
        value["status"]["by_check"] = Value::Object(by_check);
    }
    value
}

fn quorum_value(quorum: Quorum) -> Value {
    match quorum {
        Quorum::Count(count) => json!(count),
        Quorum::Percent(percent) => json!(format!("{percent}%")),
    }
}

fn on_drain_value(answer: OnDrain) -> Value {
    match answer {
        OnDrain::Code(code) => json!(code),
        OnDrain::Ignore => json!("ignore"),
        OnDrain::Report => json!("report"),
    }
}
