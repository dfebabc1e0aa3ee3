//! Any bytes as a configuration file: reading, reporting and writing never panic, and what is written reads back.
//!
//! Does not know about: what is right in a file.
#![no_main]

use doorbell_proxy::config::{Source, parse, to_toml};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let source = Source { name: "fuzz.toml".into(), text: String::from_utf8_lossy(bytes).into_owned() };
    let parsed = parse(&source, &|name| (name.len() < 4).then(|| name.to_owned()));
    let report = source.render(&parsed.problems, false);
    assert_eq!(parsed.problems.is_empty(), report.is_empty());
    assert!(source.to_json(&parsed.problems).is_object());
    match parsed.config {
        Some(config) => {
            let text = to_toml(&config, true).expect("a good configuration can be written");
            let again = Source { name: "again".into(), text };
            assert!(parse(&again, &|_| None).config.is_some(), "{}", again.text);
        }
        None => assert!(!parsed.problems.is_empty()),
    }
});
