//! Arbitrary text as a configuration file: parsing and reporting never panic. Also replays the
//! corpus of the fuzzer.

mod check;

use check::check;
use proptest::prelude::*;
use std::path::Path;

/// One of this many edits is tried: all of them take minutes. A prime, so that every kind of edit is
/// among them.
const STEP: usize = 211;

#[test]
fn the_corpus_is_harmless() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for folder in ["../../bins/doorbell/fuzz/corpus/config", "tests/config"] {
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
            check(&String::from_utf8_lossy(&std::fs::read(entry.unwrap().path()).unwrap()));
            seen += 1;
        }
    }
    assert!(seen >= 18, "{}", folder.display());
}

#[test]
fn odd_places_can_be_shown() {
    for text in [
        "",
        "\n",
        "\r\n",
        "é = 1",
        "version = 1\r\n\r\n[é]\r\n",
        "version = 1\n[listener.\"日本\"]\nbind = \"é\"",
        "a = \"\"\"\nlong\nstring\"\"\"",
        "version = 1\n[route.a]\npath = \"\"\"\n/a\n/b\"\"\"\nhealth = \"x\"",
        "version = 1 # \u{202e}\n\u{feff}",
        "\u{feff}version = 1",
        "version = 99999999999999999999999999",
        "version = 1\n[runtime]\nworkers = 0x7fffffffffffffff\nmax_connections = -5",
        "version = 1\n[listener]\nweb = []\n[[route]]\n[health.a.b.c]",
        "version = 1\nlistener = 5\nroute = \"x\"\nhealth = 2026-01-01",
    ] {
        check(text);
    }
}

/// Every secret in the file begins with `S3C`.
#[test]
fn no_edit_of_a_byte_shows_a_secret() {
    let base = include_str!("secrets.toml");
    let inserted =
        ["\"", "'", "\n", "=", "[", "]", "{", "}", ",", "\\", "#", "é", ".", "x", " ", "\r", "\"\"\"", ":"];
    // A parameter with another name need not be a secret.
    let names: Vec<_> = base.match_indices("password=").map(|(at, name)| at..at + name.len()).collect();
    let edited = base.char_indices().filter(|(at, _)| !names.iter().any(|name| name.contains(at)));
    let edits = edited.flat_map(|(at, char)| {
        let (before, after) = base.split_at(at);
        let removed = format!("{before}{}", &after[char.len_utf8()..]);
        let more = inserted.map(|text| format!("{before}{text}{after}"));
        [removed, before.to_owned()].into_iter().chain(more)
    });
    for text in edits.step_by(STEP) {
        let shown = check(&text);
        assert!(!shown.contains("S3C"), "{shown}\n--- the report on:\n{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn a_good_file_with_a_few_bytes_changed(
        service: bool,
        changes in prop::collection::vec((0..6000_usize, 0..4_u8, any::<char>()), 1..6),
    ) {
        let (full, secure) = (include_str!("../config/good_full.toml"), include_str!("../config/good_service.toml"));
        let mut text: Vec<char> = if service { secure } else { full }.chars().collect();
        for (at, kind, char) in changes {
            let at = at % text.len();
            match kind {
                0 => text[at] = char,
                1 => text.insert(at, char),
                2 => drop(text.remove(at)),
                _ => {
                    let end = (at + 40).min(text.len());
                    let part = text[at..end].to_vec();
                    text.extend(part);
                }
            }
        }
        check(&text.into_iter().collect::<String>());
    }
}
