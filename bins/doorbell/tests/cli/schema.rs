//! The JSON Schema against every configuration file: valid files match, and misspelt keys do not.
//!
//! Does not know about: JSON Schema features that our schema does not use, patterns (tested in
//! `deploy/check`).

use super::{doorbell, finish};
use doorbell_proxy_config::schema;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Collects every violation of the schema by a value.
fn complaints(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(expected) = schema["type"].as_str() {
        let is_it = match expected {
            "array" => value.is_array(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "object" => value.is_object(),
            "string" => value.is_string(),
            other => panic!("unsupported type {other}"),
        };
        if !is_it {
            found.push(format!("{at} is not of type {expected}"));
        }
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        found.push(format!("{at} is none of {words:?}"));
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        found.push(format!("{at} is not {}", schema["const"]));
    }
    let bound = |name: &str| schema[name].as_i64().zip(value.as_i64());
    if bound("minimum").is_some_and(|(least, value)| value < least)
        || bound("maximum").is_some_and(|(most, value)| value > most)
    {
        found.push(format!("{at} is out of range"));
    }
    if let Some(forms) = schema["anyOf"].as_array() {
        let fits = |form: &Value| {
            let mut inner = Vec::new();
            complaints(form, value, at, &mut inner);
            // A form with only a pattern stands for a value with a variable.
            let is_pattern = !form["pattern"].is_null() && form["type"].is_null();
            inner.is_empty() && (!is_pattern || value.as_str().is_some_and(|text| text.contains("${")))
        };
        if !forms.iter().any(fits) {
            found.push(format!("{at} matches no form"));
        }
    }
    for value in value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object()) {
        complaints(&schema["items"], value, at, found);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let place = format!("{at}.{key}");
        let (own, others) = (&schema["properties"][key], &schema["additionalProperties"]);
        match (own.is_null(), others) {
            (false, _) => complaints(own, value, &place, found),
            (true, Value::Bool(false)) => found.push(format!("{place} is not known")),
            (true, others) => complaints(others, value, &place, found),
        }
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(key).is_none() {
            found.push(format!("{at}.{key} is missing"));
        }
    }
}

fn json(text: &str) -> Value {
    toml::from_str(text).unwrap()
}

fn judge(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    complaints(&schema(), &json(text), "", &mut found);
    found
}

fn good_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["deploy", "crates/proxy-config/tests/config", "bins/doorbell/src/cli/init"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_good =
                !folder.contains("tests") || name.starts_with("good_") || name.starts_with("warnings");
            if is_good && name.ends_with(".toml") {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn every_good_file_is_valid() {
    let files = good_files();
    assert!(files.len() >= 15, "{files:?}");
    for file in files {
        let found = judge(&std::fs::read_to_string(&file).unwrap());
        assert!(found.is_empty(), "{}: {found:#?}", file.display());
    }
}

/// Appends a letter to each key of every valid file, one key at a time.
#[test]
fn a_misspelt_key_is_not() {
    let mut misspelt = 0;
    for file in good_files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mut is_free = false;
        for (number, line) in lines.iter().enumerate() {
            if let Some(header) = line.strip_prefix('[') {
                // Users choose the keys of these tables.
                is_free = [
                    ".headers",
                    ".weight",
                    ".tokens",
                    ".by_check",
                    ".json",
                    ".require",
                    "[grpc",
                    ".reply.headers",
                ]
                .iter()
                .any(|part| format!("[{header}").split(']').next().unwrap().contains(part));
                continue;
            }
            let Some((key, _)) = line.split_once(" = ") else { continue };
            let is_key =
                key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit());
            if !is_key || is_free {
                continue;
            }
            let wrong = line.replacen(key, &format!("{key}x"), 1);
            let mut changed = lines.clone();
            changed[number] = &wrong;
            let Ok(value) = toml::from_str::<Value>(&changed.join("\n")) else { continue };
            let mut found = Vec::new();
            complaints(&schema(), &value, "", &mut found);
            assert!(!found.is_empty(), "{}: {wrong}", file.display());
            misspelt += 1;
        }
    }
    assert!(misspelt > 100, "only {misspelt} keys were tested");
}

#[test]
fn wrong_values_are_not_valid() {
    for text in [
        "version = 2",
        "",
        "version = 1\n[listener.a]\nbind = 80",
        "version = 1\n[listener.a]\ntcp = { backlog = 0 }",
        "version = 1\n[check.a]\ntype = \"ping\"",
        "version = 1\n[runtime]\ndriver = \"kqueue\"",
        "version = 1\n[health.a]\nstatus = { up = 500 }",
    ] {
        assert!(!judge(text).is_empty(), "{text}");
    }
}

/// Collects every form that has a default, with its path.
fn with_default<'s>(schema: &'s Value, at: &str, found: &mut Vec<(String, &'s Value)>) {
    if schema.get("default").is_some() {
        found.push((at.to_owned(), schema));
    }
    for (key, form) in schema["properties"].as_object().into_iter().flatten() {
        with_default(form, &format!("{at}.{key}"), found);
    }
    let forms = schema["anyOf"].as_array().into_iter().flatten();
    for form in
        forms.chain([&schema["additionalProperties"], &schema["items"]]).filter(|form| form.is_object())
    {
        with_default(form, at, found);
    }
}

#[test]
fn defaults_have_the_form_of_their_key() {
    let schema = schema();
    let mut found = Vec::new();
    with_default(&schema, "", &mut found);
    assert!(found.len() > 140, "{}", found.len());
    for (at, form) in found {
        let mut wrong = Vec::new();
        complaints(form, &form["default"], &at, &mut wrong);
        assert!(wrong.is_empty(), "the default {} of {at} is invalid: {wrong:?}", form["default"]);
    }
}

#[test]
fn the_command_writes_it() {
    let (code, out, err) = finish(doorbell(&["config", "schema"]).output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), schema());
}
