//! Reports on configuration files: every file of `tests/config` and its expected report.
//!
//! `DOORBELL_BLESS=1` regenerates the expected texts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use doorbell_proxy_config::{
    Config, Outside, Parsed, Severity, Source, parse_duration, parse_size, parse_with, schema, to_json,
    to_toml,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn env(name: &str) -> Option<String> {
    match name {
        "DOMAIN" => Some("example.org".into()),
        "BOB_TOKEN" => Some("bob-0123456789abcdefghij".into()),
        _ => None,
    }
}

/// Returns a secret that differs for each file; a few paths give an invalid one.
fn read_secret(path: &Path) -> Result<String, String> {
    match path.to_str() {
        Some("/gone") => Err("no such secret".into()),
        Some("/short") => Ok("0123456789".into()),
        Some("/weak") => Ok("0123456789abcdef".into()),
        Some("/spaces") => Ok("not a token, because of the spaces".into()),
        _ => {
            let name: String = path.to_string_lossy().bytes().map(|byte| format!("{byte:02x}")).collect();
            Ok(format!("{name}{}", "0".repeat(32)))
        }
    }
}

/// Parses without reading the files of certificates and keys.
fn parse(source: &Source) -> Parsed {
    parse_with(source, Outside { read_secret: &read_secret, files_at: None, ..Outside::new(&env) })
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

fn read(path: &Path) -> Source {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    Source { name, text: std::fs::read_to_string(path).unwrap() }
}

fn report(source: &Source, parsed: &Parsed) -> String {
    // A report shows at most 50 problems.
    let parts = parsed.problems.chunks(50).map(|part| source.render(part, false));
    let mut report: String = parts.collect();
    if let Some(config) = &parsed.config {
        report.push_str(&to_toml(config, false).unwrap());
    }
    report
}

#[test]
fn every_file_is_told_what_is_expected() {
    let bless = std::env::var_os("DOORBELL_BLESS").is_some();
    let mut wrong = Vec::new();
    for path in files() {
        let source = read(&path);
        let found = report(&source, &parse(&source));
        let expected_path = path.with_extension("expected");
        if bless {
            std::fs::write(&expected_path, &found).unwrap();
        }
        if std::fs::read_to_string(&expected_path).unwrap_or_default() != found {
            wrong.push(format!("--- {}\n{found}", source.name));
        }
    }
    assert!(wrong.is_empty(), "these reports differ:\n{}", wrong.join("\n"));
    assert!(files().len() >= 16);
}

#[test]
fn only_files_named_so_are_good() {
    for path in files() {
        let source = read(&path);
        let parsed = parse(&source);
        let errors = parsed.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        let is_named_good = source.name.starts_with("good") || source.name.starts_with("warnings");
        assert_eq!(parsed.config.is_some(), is_named_good, "{}", source.name);
        assert_eq!(errors == 0, is_named_good, "{}", source.name);
        assert_eq!(source.to_json(&parsed.problems)["valid"], is_named_good);
    }
}

#[test]
fn each_route_of_a_path_is_reported_once() {
    let route = |n: usize| format!("[route.r{n}]\npath = \"/\"\nreply = {{}}\n");
    let routes: String = (0..2000).map(route).collect();
    let text = format!("version = 1\n[listener.a]\nbind = \":8080\"\n{routes}");
    let parsed = parse(&Source { name: "f".into(), text });
    let duplicates = parsed.problems.iter().filter(|problem| problem.code == "duplicate-route");
    let messages: BTreeSet<&str> = duplicates.map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages.len(), 1999);
    assert!(messages.iter().all(|message| message.contains(" serves the same requests as route `r0`: ")));
    assert_eq!(parsed.problems.len(), 1999);
}

/// A form for comparison that ignores the order of tables and the spelling of values.
fn sorted(config: &Config) -> String {
    let mut value = to_json(config, true);
    // A configuration without HTTP listeners has no routes.
    for (_, route) in value.get_mut("route").and_then(Value::as_object_mut).into_iter().flatten() {
        for key in ["hosts", "methods"] {
            if let Some(list) = route.get_mut(key).and_then(|list| list.as_array_mut()) {
                list.sort_by_key(ToString::to_string);
            }
        }
    }
    value.to_string()
}

/// Replaces the masks of a check by references to secrets.
fn refer(check: &mut Value) {
    for key in ["/bearer", "/password", "/basic/password"] {
        if let Some(secret) = check.pointer_mut(key) {
            assert_eq!(secret, "***");
            *secret = format!("${{file:{key}}}").into();
        }
    }
    for key in ["/headers/Cookie", "/metadata/authorization"] {
        if let Some(field) = check.pointer_mut(key) {
            assert_eq!(field, "***");
            *field = format!("${{file:{key}}}").into();
        }
    }
}

/// The dumped configuration, with references to secrets in place of the masks.
fn dumped(config: &Config, with_defaults: bool) -> String {
    let mut value = to_json(config, with_defaults);
    for at in ["/check", "/blackbox/module"] {
        let checks = value.pointer_mut(at).and_then(|checks| checks.as_object_mut());
        checks.into_iter().flatten().for_each(|(_, check)| refer(check));
    }
    if let Some(token) = value.get_mut("admin").and_then(|admin| admin.get_mut("token")) {
        assert_eq!(token, "***");
        *token = "${file:/bearer}".into();
    }
    for (table, name) in [("/history/clickhouse", "clickhouse"), ("/shared", "redis")] {
        if let Some(password) = value.pointer_mut(&format!("{table}/password")) {
            assert_eq!(password, "***");
            *password = format!("${{file:/run/secrets/{name}}}").into();
        }
    }
    let limits = value.get_mut("limit").and_then(|limits| limits.as_object_mut());
    for (_, limit) in limits.into_iter().flatten() {
        if let Some(secret) = limit.pointer_mut("/shared/secret") {
            assert_eq!(secret, "***");
            *secret = "${file:/run/secrets/limits}".into();
        }
    }
    let rules = value.get_mut("auth").and_then(|rules| rules.as_object_mut());
    for (name, rule) in rules.into_iter().flatten() {
        let secrets = rule.get_mut("tokens").and_then(|tokens| tokens.as_object_mut());
        let secrets = secrets.into_iter().flatten().map(|(token, secret)| (token.clone(), secret));
        let secrets = secrets.collect::<Vec<_>>();
        for (token, secret) in secrets {
            assert_eq!(secret, "***");
            *secret = format!("${{file:/{name}/{token}}}").into();
        }
        if let Some(secret) = rule.get_mut("jwt").and_then(|jwt| jwt.get_mut("secret")) {
            assert_eq!(secret, "***");
            *secret = format!("${{file:/{name}}}").into();
        }
    }
    toml::to_string_pretty(&value).unwrap()
}

#[test]
fn what_is_dumped_reads_back_the_same() {
    let mut seen = 0;
    for path in files() {
        let source = read(&path);
        let Some(config) = parse(&source).config else { continue };
        seen += 1;
        for with_defaults in [false, true] {
            let text = dumped(&config, with_defaults);
            let again = Source { name: "dump".into(), text };
            let parsed = parse(&again);
            let shown = again.render(&parsed.problems, false);
            let back = parsed.config.unwrap_or_else(|| panic!("{}\n{shown}", again.text));
            assert_eq!(sorted(&back), sorted(&config), "{}", again.text);
        }
    }
    assert!(seen >= 3);
}

#[test]
fn debug_output_hides_secrets() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/good_checks.toml");
    let config = parse(&read(&file)).config.unwrap();
    let shown = format!("{config:?}");
    assert!(shown.contains("Cookie") && shown.contains("app.internal"), "{shown}");
    for path in ["/run/secrets/app-token", "/run/secrets/app-cookie"] {
        let secret = read_secret(Path::new(path)).unwrap();
        assert!(!shown.contains(&secret), "{path}: {shown}");
    }
}

#[test]
fn machines_get_places_and_codes() {
    let source = Source { name: "f".into(), text: "version = 1\n[log]\nlevle = \"x\"\n".into() };
    let report = source.to_json(&parse(&source).problems);
    let problem = &report["problems"][0];
    assert_eq!(problem["code"], "unknown-key");
    assert_eq!(problem["severity"], "error");
    assert_eq!(problem["at"], serde_json::json!({ "line": 3, "column": 1, "end_line": 3, "end_column": 6 }));
    assert_eq!(problem["help"], "did you mean `level`?");
}

#[test]
fn secrets_are_shown_nowhere() {
    let text = r#"
version = 1
[listener.web]
bind = ":1"
[auth.a]
tokens = { ops = "correct-horse-battery-staple", short = "hunter2" }
token = { typo = "another-secret-of-somebody" }
[auth.b]
jwt = { algorithm = "HS256", secret = "a-secret-of-a-length-that-is-good-enough" }
[check.a]
type = "grpc"
address = "unix:/a"
metadata = { authorization = "Bearer clear-token-of-a-call" }
[blackbox]
bind = "127.0.0.1:0"
targets = ["10.0.0.0/8"]
[blackbox.module.m]
type = "http"
basic = { username = "u", password = "clear-password-of-a-module" }
headers = { X-Api-Key = "clear-key-of-a-module" }
[auth.c]
jwt = { algorithm = "HS256", secret = "too-short-a-secret" }
"#;
    let clear = [
        "correct-horse",
        "hunter2",
        "another-secret",
        "a-secret-of",
        "too-short",
        "clear-token",
        "clear-password",
        "clear-key",
    ];
    let source = Source { name: "f".into(), text: text.into() };
    let parsed = parse(&source);
    assert!(parsed.problems.len() >= 6, "{:?}", parsed.problems);
    let shown = source.render(&parsed.problems, false) + &source.to_json(&parsed.problems).to_string();
    let shown = shown + &format!("{parsed:?}");
    for secret in clear {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    assert!(
        shown.contains("tokens = { ops = \"****************************\", short = \"*******\" }"),
        "{shown}"
    );

    let good = text.lines().filter(|line| !line.contains("too-short") && !line.contains("typo"));
    let good = good.filter(|line| *line != "[auth.c]").collect::<Vec<_>>().join("\n");
    let good = good.replace(", short = \"hunter2\"", "");
    let config = parse(&Source { name: "f".into(), text: good }).config.unwrap();
    assert_eq!(config.auth[0].tokens[0].1.reveal(), "correct-horse-battery-staple");
    let shown = format!("{config:?}{}{}", to_toml(&config, true).unwrap(), to_json(&config, true));
    for secret in clear {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    assert!(shown.contains("***"));

    let broken = "version = 1\n[auth.a]\ntokens = { a = \"correct-horse }\n";
    let source = Source { name: "f".into(), text: broken.into() };
    let shown = source.render(&parse(&source).problems, false);
    assert!(shown.contains("tokens = { * = \"***************\n"), "{shown}");
    assert!(!shown.contains("horse"));
}

#[test]
fn the_annotated_examples_are_those_that_are_tested() {
    assert_eq!(include_str!("../../../deploy/sidecar.toml"), include_str!("config/good_checks.toml"));
    assert_eq!(include_str!("../../../deploy/service.toml"), include_str!("config/good_service.toml"));
    assert_eq!(include_str!("../../../deploy/reference.toml"), include_str!("config/good_reference.toml"));
}

#[test]
fn a_board_holds_all_endpoints_of_a_valid_file() {
    for (name, count, is_valid) in [("h0", 1_022, true), ("h0", 1_023, false), ("livez", 1_023, true)] {
        let mut text = format!("version = 1\n[health.{name}]\n");
        (1..count).for_each(|number| text.push_str(&format!("[health.h{number}]\n")));
        let parsed = parse(&Source { name: "f".into(), text });
        let codes = parsed.problems.iter().filter(|problem| problem.severity == Severity::Error);
        let codes: Vec<_> = codes.map(|problem| (problem.code, problem.span.start > 0)).collect();
        let expected = if is_valid { &[][..] } else { &[("out-of-range", true)] };
        assert_eq!(codes, expected, "{name} {count}");
    }
}

/// Collects the keys of a schema, as in `check.*.tls.ca`. A star stands for a name that users
/// choose.
fn keys_of(schema: &Value, at: &str, keys: &mut BTreeSet<String>) {
    for form in schema["anyOf"].as_array().into_iter().flatten() {
        keys_of(form, at, keys);
    }
    if schema["items"].is_object() {
        keys_of(&schema["items"], at, keys);
    }
    let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    for (key, form) in schema["properties"].as_object().into_iter().flatten() {
        keys_of(form, &below(key), keys);
        keys.insert(below(key));
    }
    if schema["additionalProperties"].is_object() {
        keys_of(&schema["additionalProperties"], &below("*"), keys);
    }
}

fn is_written(file: &Value, key: &[&str]) -> bool {
    let Some((first, rest)) = key.split_first() else { return true };
    match file {
        Value::Array(items) => items.iter().any(|item| is_written(item, key)),
        Value::Object(table) if *first == "*" => table.values().any(|value| is_written(value, rest)),
        Value::Object(table) => table.get(*first).is_some_and(|value| is_written(value, rest)),
        _ => false,
    }
}

#[test]
fn the_annotated_examples_have_every_key() {
    let files = ["sidecar", "service", "reference"].map(|name| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../deploy/{name}.toml"));
        toml::from_str::<Value>(&read(&path).text).unwrap()
    });
    let has = |key: &str| {
        // A module of [blackbox] has the keys of a check.
        let key = key.replace("blackbox.module.*.", "check.*.");
        let parts: Vec<&str> = key.split('.').collect();
        files.iter().any(|file| is_written(file, &parts))
    };
    let mut keys = BTreeSet::new();
    keys_of(&schema(), "", &mut keys);
    assert!(keys.len() > 250 && keys.contains("check.*.tls.ca") && !has("check.*.tls.cb"), "{keys:?}");
    keys.retain(|key| !has(key));
    assert!(keys.is_empty(), "no file of deploy/ mentions {keys:#?}");
}

/// The subschema of a key, as in `check.*.interval`.
fn form_of<'s>(schema: &'s Value, key: &[&str]) -> Option<&'s Value> {
    let Some((first, rest)) = key.split_first() else { return Some(schema) };
    let own = match *first {
        "*" => Some(&schema["additionalProperties"]).filter(|form| form.is_object()),
        first => schema["properties"].get(first),
    };
    let forms = schema["anyOf"].as_array().into_iter().flatten().chain(schema.get("items"));
    own.and_then(|form| form_of(form, rest)).or_else(|| forms.into_iter().find_map(|form| form_of(form, key)))
}

/// The comment `5s; after SIGTERM ..` claims the default 5s. A comment that begins with a word is
/// skipped: it may list the possible values.
#[test]
fn what_the_annotated_examples_call_a_default_is_one() {
    let schema = schema();
    let (mut looked_at, mut wrong) = (0, Vec::new());
    for name in ["sidecar", "service", "reference"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../deploy/{name}.toml"));
        let mut table = Vec::new();
        for line in read(&path).text.lines() {
            if let Some(header) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
                table = header.trim_start_matches('[').split('.').map(str::to_owned).collect();
                continue;
            }
            let Some((key, rest)) = line.split_once(" = ") else { continue };
            let Some((_, comment)) = rest.split_once("  # ") else { continue };
            let said = comment.trim().split(';').next().unwrap();
            let is_plain = said.parse::<u64>().is_ok() || ["true", "false"].contains(&said);
            if !is_plain && parse_duration(said).is_none() && parse_size(said).is_none() {
                continue;
            }
            let mut place: Vec<&str> = table.iter().map(String::as_str).chain([key]).collect();
            if form_of(&schema, &place).is_none() {
                place[1] = "*";
            }
            let form = form_of(&schema, &place).unwrap_or_else(|| panic!("{name}: {line}"));
            // The defaults of keys that all checks share are in `[check_defaults]`.
            let shared = form_of(&schema, &["check_defaults", key]).filter(|_| table[0] == "check");
            let Some(default) = form.get("default").or_else(|| shared?.get("default")) else { continue };
            looked_at += 1;
            if default.as_str().map_or_else(|| default.to_string(), str::to_owned) != said {
                wrong.push(format!("{name}.toml: {line}\n  by default it is {default}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(looked_at >= 30, "only {looked_at}");
}
