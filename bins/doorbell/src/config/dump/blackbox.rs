//! `[blackbox]` as it is written in a file.
//!
//! Does not know about: what must be written.

use super::super::model::{Blackbox, Config, Module};
use super::name_of;
use doorbell_config::format_duration;
use serde_json::{Value, json};

/// Without what is the default anyway, unless that is asked for.
pub(super) fn blackbox_value(config: &Config, with_defaults: bool) -> Value {
    let Some(blackbox) = &config.blackbox else { return Value::Null };
    let binds: Vec<String> = blackbox.binds.iter().map(ToString::to_string).collect();
    let targets: Vec<String> = blackbox.targets.iter().map(ToString::to_string).collect();
    let mut value = json!({ "bind": binds, "targets": targets });
    if with_defaults || blackbox.modules != Module::NAMES.map(|(_, module)| module) {
        let names = blackbox.modules.iter().map(|module| name_of(&Module::NAMES, *module));
        value["modules"] = json!(names.collect::<Vec<_>>());
    }
    for (key, time, default) in
        [("cache", blackbox.cache, Blackbox::CACHE), ("timeout", blackbox.timeout, Blackbox::TIMEOUT)]
    {
        if with_defaults || time != default {
            value[key] = json!(format_duration(time));
        }
    }
    value
}
