//! The committed knowledge base, and merging into a small one.
//!
//! Does not know about: guests, turns.

use super::*;
use crate::ablate::TECHNIQUES;

/// Levers of the catalogue that have no switch; why is what their entries say.
const WITHOUT_SWITCH: [&str; 3] = ["Minimum wait of the kernel", "Multishot receive", "Prefetch"];

const GUEST: &str = r#"[{"conditions": {"kernel": "6.1.0-56-cloud-amd64", "qemu": "QEMU emulator version 7.2 (Debian x)", "cpu": "max", "repeat": 3,
  "kernel_package": ""}, "repeatability": [{"load": "close/64", "server_percent": 3.87, "machine_percent": 0.6}], "effects": [
  {"technique": "prefix", "engine": "epoll", "set": "full", "is_default": true, "load": "close/64", "failure": null,
   "with": {"server": 9000.4, "server_spread_percent": 0, "machine": 50000, "machine_spread_percent": 0, "switches": 0, "idle_percent": 0, "failed": 0},
   "without": {"server": 10000, "server_spread_percent": 0, "machine": 40000, "machine_spread_percent": 0, "switches": 0, "idle_percent": 0, "failed": 0}}]}]"#;

const NATIVE: &str = r#"{"conditions": {"kernel": "6.18.1", "cpu": "A CPU", "cpus": 2, "server_core": 0, "client_core": 1, "pairs": 5},
  "effects": [{"technique": "prefix", "engine": "epoll", "is_default": true, "load": "close/64", "failure": null, "with": [], "without": [],
   "ratio": {"median": 0.881, "low": 0.852, "high": 0.914}}]}"#;

const BOOK: &str = "# Levers\n\nWords.\n\n## Deferred accept\n\nHypothesis: one.\nVerdict: **two.**\n\n## Prefetch\n\nHypothesis: a\n| b |\n";

/// Figures of deferred accept.
fn saved(text: &str) -> ablate::Saved {
    serde_json::from_str(&text.replace("prefix", "deferred accept")).unwrap()
}

fn merged() -> Book {
    let mut book = Book::parse(BOOK).unwrap();
    for text in [GUEST, NATIVE] {
        assert_eq!(merge::merge(&mut book, &saved(text)), Ok(1));
    }
    book
}

#[test]
fn the_committed_one_is_sound() {
    let (text, is_good) = check(&default_file()).unwrap();
    assert!(is_good, "{text}");
}

#[test]
fn the_committed_one_has_an_entry_for_each_lever_without_a_switch() {
    let book = parse(&default_file(), &read(&default_file()).unwrap()).unwrap();
    for title in WITHOUT_SWITCH {
        assert!(book.entries.iter().any(|entry| entry.title == title), "{title}");
    }
    let with_switch = book.entries.iter().filter(|entry| entry.technique().is_some()).count();
    assert_eq!(with_switch, TECHNIQUES.len());
}

#[test]
fn figures_are_put_where_they_belong_and_words_stay() {
    let shown = merged().show();
    let expected = "\
# Levers

Words.

## Deferred accept

On: `defer_accept=true`. Off: `defer_accept=false`.

| driver | load | set | 6.1 | CPU time |
|---|---|---|---|---|
| epoll | `close/64` | full | 9,000 / 10,000 (-10.0 %, +25.0 %) | -12 % (-15 % to -9 %) |

Hypothesis: one.
Verdict: **two.**

## Prefetch

Hypothesis: a
| b |

## Where the figures are from

| figures | from | the same server in several boots |
|---|---|---|
| 6.1 | Linux 6.1.0-56-cloud-amd64, QEMU 7.2 -cpu max, median of 3 | `close/64` 3.9 % / 0.6 % |
| CPU time | Linux 6.18.1, A CPU, 5 pairs of turns | |
";
    assert_eq!(shown, expected);
    let again = Book::parse(&shown).unwrap();
    assert_eq!(again, merged());
    assert_eq!(again.show(), shown);
}

#[test]
fn newer_figures_take_the_place_of_the_same_and_of_no_others() {
    let mut book = merged();
    let other = GUEST.replace("close/64", "free/64").replace("\"full\"", "\"alone\"");
    let newer = GUEST.replace("9000.4", "8000");
    for text in [&other, &newer] {
        assert_eq!(merge::merge(&mut book, &saved(text)), Ok(1));
    }
    let shown = book.show();
    for line in [
        "| epoll | `close/64` | full | 8,000 / 10,000 (-20.0 %, +25.0 %) | -12 % (-15 % to -9 %) |",
        "| epoll | `free/64` | alone | 9,000 / 10,000 (-10.0 %, +25.0 %) | |",
        "| `close/64` 3.9 % / 0.6 %, `free/64` 3.9 % / 0.6 % |",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert!(!shown.contains("9,000 / 10,000 (-10.0 %, +25.0 %) | -12 %"), "{shown}");
}

#[test]
fn a_failed_comparison_leaves_what_was_there() {
    let mut book = merged();
    let failed =
        GUEST.replace("\"failure\": null", "\"failure\": \"gone\"").replace("\"without\"", "\"else\"");
    assert_eq!(merge::merge(&mut book, &saved(&failed)), Ok(0));
    assert_eq!(book, merged());
}

#[test]
fn an_unknown_technique_is_named() {
    let mut book = Book::parse(BOOK).unwrap();
    let error = merge::merge(&mut book, &serde_json::from_str(GUEST).unwrap()).unwrap_err();
    assert!(error.contains("Prefix"), "{error}");
}

#[test]
fn what_is_missing_or_disagrees_is_found() {
    let problems = merged().problems();
    let has = |book: &Book, words: &str| book.problems().iter().any(|problem| problem.contains(words));
    assert!(
        problems.iter().any(|problem| problem.starts_with("its techniques are [\"deferred accept\"]")),
        "{problems:?}"
    );
    assert!(has(&merged(), "Prefetch: no line begins with \"Verdict: **\""), "{problems:?}");
    assert!(has(&merged(), "Deferred accept: no figures of 6.12"), "{problems:?}");
    assert!(!has(&merged(), "agree"), "{problems:?}");
    let shown = merged().show();
    for (sound, broken) in [
        ("(-10.0 %,", "(-11.0 %,"),
        ("-12 % (", "-8 % ("),
        ("9,000 /", "9,0a0 /"),
        ("| 6.1 | Linux", "| 6.2 | Linux"),
    ] {
        let changed = shown.replacen(sound, broken, 1);
        assert_ne!(changed, shown);
        let book = Book::parse(&changed).unwrap();
        assert!(has(&book, "agree") || has(&book, "where 6.1 is from"), "{broken}: {:?}", book.problems());
    }
    for (sound, broken) in [
        ("| epoll | `close/64`", "| io_urging | `close/64`"),
        ("| epoll | `close/64`", "| epoll | `close`"),
        ("| full |", "| half |"),
        ("| 6.1 |", "| 6.x |"),
    ] {
        assert!(Book::parse(&shown.replacen(sound, broken, 1)).is_err(), "{broken}");
    }
}

#[test]
fn a_book_is_merged_into_and_checked_as_a_file() {
    let folder = std::env::temp_dir().join(format!("doorbell-rig-levers-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let [book, answer, other] = ["levers.md", "answer.json", "other.json"].map(|name| folder.join(name));
    fs::write(&book, BOOK).unwrap();
    fs::write(&answer, GUEST.replace("prefix", "deferred accept")).unwrap();
    fs::write(&other, "{}").unwrap();
    let merged = merge(&book, &[answer]);
    let refused = merge(&book, &[other]);
    let text = fs::read_to_string(&book).unwrap();
    fs::write(&book, text.replace("\n\n## Prefetch", "\n\n\n## Prefetch")).unwrap();
    let (problems, is_good) = check(&book).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let (said, _) = merged.unwrap();
    assert!(said.contains("answer.json: 1 figures\n"), "{said}");
    assert!(text.contains("9,000 / 10,000 (-10.0 %, +25.0 %)"), "{text}");
    assert!(refused.unwrap_err().to_string().contains("other.json"));
    assert!(!is_good && problems.contains("laid out"), "{problems}");
}
