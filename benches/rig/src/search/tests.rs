//! A whole search without guests: the log, going on from it, and the summary.
//!
//! Does not know about: QEMU.

use super::*;
use crate::variant::Settings;

fn conditions(space: &Space) -> Conditions {
    Conditions {
        seed: 3,
        score: "server".into(),
        loads: vec![("close/64".parse().unwrap(), 1.0)],
        engine: Engine::Epoll,
        repeat: 1,
        cpu: "max".into(),
        qemu: "QEMU".into(),
        kernel: "6.12".into(),
        doorbell_fnv1a: String::new(),
        load_fnv1a: String::new(),
        space: space.clone(),
    }
}

fn space() -> Space {
    let defaults = ["tcp.defer_accept", "tcp.quickack", "tuning.send_more"].map(|key| (key, "true"));
    Space::new(Engine::Epoll, &Settings::of(&defaults))
}

/// `quickack = false` is better; `defer_accept = false` loses bytes.
fn attempt(point: &Point) -> Attempt {
    let score = match point[..] {
        [1, ..] => Err("close/64: requests failed, or had a wrong byte".to_owned()),
        [_, 1, ..] => Ok(60_000.0),
        _ => Ok(50_000.0),
    };
    Attempt { score, rows: Vec::new() }
}

fn search(path: &Path, resume: bool, seconds: f64, measured: &mut usize) -> walk::Walked {
    let space = space();
    let (known, log) = open(path, resume, &conditions(&space)).unwrap();
    let mut recorder = Recorder {
        measure: |points: &[Point]| {
            *measured += points.len();
            Ok(points.iter().map(attempt).collect())
        },
        config: |point: &Point| format!("{point:?}"),
        space: &space,
        known,
        asked: 0,
        log,
        ends_s: now_s() + seconds,
    };
    walk::walk(&space.counts(), &space.start(), 3, 1_000, &mut recorder).unwrap()
}

#[test]
fn a_search_ends_with_what_it_learnt_and_goes_on_from_every_line() {
    let path = std::env::temp_dir().join(format!("doorbell-rig-search-{}.jsonl", std::process::id()));
    let mut measured = 0;
    let whole = search(&path, false, 60.0, &mut measured);
    assert_eq!((whole.best.clone(), measured), (vec![0, 1, 0], whole.tries.len()));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for kept in 1..=lines.len() {
        std::fs::write(&path, lines[..kept].join("\n") + "\n").unwrap();
        measured = 0;
        assert_eq!(search(&path, true, 60.0, &mut measured), whole, "from line {kept}");
        assert_eq!(measured, lines.len() - kept);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    measured = 0;
    let stopped = search(&path, true, -1.0, &mut measured);
    assert_eq!((stopped.ended, measured), (walk::Ended::Found, 0), "a log that is whole needs no time");
    std::fs::remove_file(&path).unwrap();
    let space = space();
    let markdown = summary::show(&whole, &space, &conditions(&space), Form::Markdown);
    assert!(markdown.contains("| quickack=false | 60000 | +20.00 % |"), "{markdown}");
    assert!(markdown.contains("| tcp.quickack=true | -16.67 % |"), "{markdown}");
    assert!(
        markdown.contains("| tcp.defer_accept=false | rejected: close/64: requests failed"),
        "{markdown}"
    );
    let value: serde_json::Value =
        serde_json::from_str(&summary::show(&whole, &space, &conditions(&space), Form::Json)).unwrap();
    assert_eq!(value["best"]["tcp.quickack"], "false");
}

#[test]
fn a_log_that_this_search_would_not_have_made_is_refused() {
    let path = std::env::temp_dir().join(format!("doorbell-rig-search-odd-{}.jsonl", std::process::id()));
    search(&path, false, 60.0, &mut 0);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"number\":1,", "\"number\":7,", 1)).unwrap();
    let space = space();
    let (known, log) = open(&path, true, &conditions(&space)).unwrap();
    let mut recorder = Recorder {
        measure: |points: &[Point]| Ok(points.iter().map(attempt).collect()),
        config: |_: &Point| String::new(),
        space: &space,
        known,
        asked: 0,
        log,
        ends_s: f64::INFINITY,
    };
    let error = walk::walk(&space.counts(), &space.start(), 3, 1_000, &mut recorder).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains("try 7 is not what this search would have tried"), "{error}");
}

#[test]
fn time_that_is_over_ends_a_search_before_it_measures() {
    let path = std::env::temp_dir().join(format!("doorbell-rig-search-time-{}.jsonl", std::process::id()));
    let mut measured = 0;
    let walked = search(&path, false, -1.0, &mut measured);
    std::fs::remove_file(&path).unwrap();
    assert_eq!((&walked.ended, measured), (&walk::Ended::OutOfTime, 0));
    let markdown = summary::show(&walked, &space(), &conditions(&space()), Form::Markdown);
    assert!(
        markdown.contains("0 tries, 0 rejected; stopped by --time-max.\n") && !markdown.contains("NaN"),
        "{markdown}"
    );
}

#[test]
fn a_committed_log_gives_the_summary_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("search");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let logs: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl")).collect();
    assert!(!logs.is_empty());
    for committed in logs {
        let text = std::fs::read_to_string(&committed).unwrap();
        let conditions: Conditions = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let name = format!("doorbell-rig-committed-{}.jsonl", std::process::id());
        let copy = std::env::temp_dir().join(name);
        std::fs::write(&copy, &text).unwrap();
        let (known, log) = open(&copy, true, &conditions).unwrap();
        let lines = known.len();
        let space = conditions.space.clone();
        let mut recorder = Recorder {
            measure: |_: &[Point]| -> Result<Vec<Attempt>, RigError> { panic!("the log has it all") },
            config: |_: &Point| String::new(),
            space: &space,
            known,
            asked: 0,
            log,
            ends_s: -1.0,
        };
        let walked =
            walk::walk(&space.counts(), &space.start(), conditions.seed, 1_000, &mut recorder).unwrap();
        std::fs::remove_file(&copy).unwrap();
        assert_eq!(walked.tries.len(), lines, "{}", committed.display());
        let summary = std::fs::read_to_string(committed.with_extension("md")).unwrap();
        assert_eq!(
            summary::show(&walked, &space, &conditions, Form::Markdown),
            summary,
            "{}",
            committed.display()
        );
    }
}
