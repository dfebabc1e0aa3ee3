//! What a configuration file is told: every file of `tests/config` against the text beside it.
//!
//! Does not know about: the command line. With `DOORBELL_BLESS` set the expected texts are written anew.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use doorbell_proxy::config::{Config, Parsed, Severity, Source, parse, to_json, to_toml};
use std::path::{Path, PathBuf};

fn env(name: &str) -> Option<String> {
    (name == "DOMAIN").then(|| "example.org".into())
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
    let mut report = source.render(&parsed.problems, false);
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
        let found = report(&source, &parse(&source, &env));
        let expected_path = path.with_extension("expected");
        if bless {
            std::fs::write(&expected_path, &found).unwrap();
        }
        if std::fs::read_to_string(&expected_path).unwrap_or_default() != found {
            wrong.push(format!("--- {}\n{found}", source.name));
        }
    }
    assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
    assert!(files().len() >= 9);
}

#[test]
fn only_files_named_so_are_good() {
    for path in files() {
        let source = read(&path);
        let parsed = parse(&source, &env);
        let errors = parsed.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        let is_named_good = source.name.starts_with("good") || source.name.starts_with("warnings");
        assert_eq!(parsed.config.is_some(), is_named_good, "{}", source.name);
        assert_eq!(errors == 0, is_named_good, "{}", source.name);
        assert_eq!(source.to_json(&parsed.problems)["valid"], is_named_good);
    }
}

/// Neither the order of tables nor how a value was spelled is kept.
fn sorted(config: &Config) -> String {
    let mut value = to_json(config, true);
    for route in value["route"].as_object_mut().unwrap().values_mut() {
        for key in ["hosts", "methods"] {
            if let Some(list) = route.get_mut(key).and_then(|list| list.as_array_mut()) {
                list.sort_by_key(ToString::to_string);
            }
        }
    }
    value.to_string()
}

#[test]
fn what_is_dumped_reads_back_the_same() {
    let mut seen = 0;
    for path in files() {
        let source = read(&path);
        let Some(config) = parse(&source, &env).config else { continue };
        seen += 1;
        for with_defaults in [false, true] {
            let text = to_toml(&config, with_defaults).unwrap();
            let again = Source { name: "dump".into(), text };
            let parsed = parse(&again, &|_| None);
            let shown = again.render(&parsed.problems, false);
            let back = parsed.config.unwrap_or_else(|| panic!("{}\n{shown}", again.text));
            assert_eq!(sorted(&back), sorted(&config), "{}", again.text);
        }
    }
    assert!(seen >= 3);
}

#[test]
fn machines_get_places_and_codes() {
    let source = Source { name: "f".into(), text: "version = 1\n[log]\nlevle = \"x\"\n".into() };
    let report = source.to_json(&parse(&source, &|_| None).problems);
    let problem = &report["problems"][0];
    assert_eq!(problem["code"], "unknown-key");
    assert_eq!(problem["severity"], "error");
    assert_eq!(problem["at"], serde_json::json!({ "line": 3, "column": 1, "end_line": 3, "end_column": 6 }));
    assert_eq!(problem["help"], "did you mean `level`?");
}
