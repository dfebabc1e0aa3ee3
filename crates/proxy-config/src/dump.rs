//! A configuration as TOML or JSON, with or without default values.

use super::model::Config;
use doorbell_config::Table as _;
use serde_json::{Map, Value};
use toml::Table;

/// A TOML file that results in the same configuration, apart from secrets, which are masked.
///
/// # Errors
/// Never for a validated configuration.
pub fn to_toml(config: &Config, with_defaults: bool) -> Result<String, toml::ser::Error> {
    toml::to_string_pretty(&to_json(config, with_defaults))
}

/// The file `text` of this configuration with all defaults and with its tables in the order of their
/// names. The result contains the secrets of the file, so it must not be shown.
///
/// `None` if a value cannot be written as TOML.
#[must_use]
pub fn to_sorted(config: &Config, text: &str) -> Option<String> {
    let mut all: Table = to_toml(config, true).ok()?.parse().ok()?;
    merge(&mut all, text.parse().ok()?);
    Some(all.to_string())
}

fn merge(all: &mut Table, more: Table) {
    for (key, value) in more {
        match (all.get_mut(&key), value) {
            (Some(toml::Value::Table(all)), toml::Value::Table(more)) => merge(all, more),
            (_, value) => drop(all.insert(key, value)),
        }
    }
}

/// The configuration as JSON, with the keys and values of [`to_toml`].
#[must_use]
pub fn to_json(config: &Config, with_defaults: bool) -> Value {
    let mut root = config.to_json(with_defaults);
    // `livez` and `readyz` exist without a table, so their tables are omitted if empty.
    if let Some(health) = root.get_mut("health").and_then(Value::as_object_mut) {
        let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
        health.retain(|name, value| !is_empty(value) || !["livez", "readyz"].contains(&&**name));
        if health.is_empty() {
            root.as_object_mut().map(|root| root.remove("health"));
        }
    }
    root
}
