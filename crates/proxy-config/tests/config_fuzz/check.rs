//! Checks one text as a configuration file, from a test, a corpus or the fuzzer.

use doorbell_proxy_config::{Config, Outside, Parsed, Source, parse_with, to_json, to_toml};
use serde_json::Value;
use std::path::Path;

/// Parses the text, renders its report, and writes the configuration; the written text parses
/// again. Returns the report in all forms.
pub(crate) fn check(text: &str) -> String {
    let source = Source { name: "fuzz.toml".into(), text: text.to_owned() };
    let parsed = parse(&source, &|name| (name.len() < 4).then(|| name.to_owned()));
    let report = source.render(&parsed.problems, false);
    assert_eq!(parsed.problems.is_empty(), report.is_empty());
    let json = source.to_json(&parsed.problems);
    let sarif = source.to_sarif(&parsed.problems, ["doorbell", "0"]);
    match parsed.config {
        Some(config) => {
            assert!(to_toml(&config, false).is_ok());
            let text = dumped(&config);
            let again = Source { name: "again".into(), text };
            assert!(parse(&again, &|_| None).config.is_some(), "{}", again.text);
        }
        None => assert!(!parsed.problems.is_empty()),
    }
    format!("{report}{json:#}{sarif:#}")
}

/// Returns a valid secret that differs for each file.
fn read_secret(path: &Path) -> Result<String, String> {
    let name: String = path.to_string_lossy().bytes().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{name}{}", "0".repeat(32)))
}

/// Parses without reading any file.
fn parse(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Parsed {
    parse_with(source, Outside { read_secret: &read_secret, files_at: None, ..Outside::new(env) })
}

/// The dumped configuration, with references to secrets in place of the masks.
fn dumped(config: &Config) -> String {
    let mut value = to_json(config, true);
    for key in ["admin", "blackbox", "check", "history", "limit", "shared"] {
        value.get_mut(key).into_iter().for_each(show);
    }
    let rules = value.get_mut("auth").and_then(|rules| rules.as_object_mut());
    for (name, rule) in rules.into_iter().flatten() {
        let tokens = rule.get_mut("tokens").and_then(|tokens| tokens.as_object_mut());
        for (number, secret) in tokens.into_iter().flat_map(|tokens| tokens.values_mut()).enumerate() {
            *secret = format!("${{file:/{name}/{number}}}").into();
        }
        if let Some(secret) = rule.get_mut("jwt").and_then(|jwt| jwt.get_mut("secret")) {
            *secret = format!("${{file:/{name}}}").into();
        }
    }
    toml::to_string_pretty(&value).expect("a valid configuration can be written")
}

/// Replaces each mask by a reference to a secret.
fn show(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(show),
        Value::Object(table) => table.values_mut().for_each(show),
        Value::String(text) if text == "***" => *text = "${file:/secret}".into(),
        _ => {}
    }
}
