//! What is gathered of a made-up moment, word for word.
//!
//! Does not know about: a running server.

use super::process::Process;
use super::*;
use crate::http::Time;
use crate::http::log::Prober as Kind;
use crate::serve::census::LbState;
use crate::wire::{
    CauseWord, CheckWord, EndpointView, EndpointWord, HoldSource, HoldView, Lifecycle, OutcomeWord,
    ResultView, WorkerView,
};
use doorbell_health::EndpointState;
use std::time::Duration;

fn endpoint(name: &str, state: EndpointWord, cause: CauseWord) -> EndpointView {
    EndpointView {
        name: name.to_owned(),
        state,
        cause,
        note: String::new(),
        age_ms: 0,
        answers: Vec::new(),
        weight: None,
        uses: Vec::new(),
    }
}

fn check(name: &str, state: CheckWord, last: Option<ResultView>) -> CheckView {
    CheckView {
        name: name.to_owned(),
        kind: "tcp".to_owned(),
        state,
        age_ms: 0,
        last,
        reason: "<not a label>".to_owned(),
        last_success_age_ms: last.map(|_| 5_000),
        successes: 0,
        failures: 3,
        interval_ms: 1_000,
        next_in_ms: None,
        history: Vec::new(),
    }
}

fn scrape() -> Scrape {
    let worker = |failed| WorkerView {
        driver: "epoll".to_owned(),
        why: "seccomp".to_owned(),
        is_fallback: true,
        has_failed: failed,
        conns_live: 0,
        requests: 0,
    };
    let mut weighted = endpoint("readyz", EndpointWord::Down, CauseWord::Checks);
    weighted.weight = Some(40);
    let last = ResultView { age_ms: 1_500, outcome: OutcomeWord::Failure, latency_us: 2_500 };
    let mut snapshot = Snapshot::default();
    (snapshot.requests, snapshot.conns_live, snapshot.proxy_v2) = (42, 3, 7);
    let row = |prober, told, interval| Row {
        endpoint: "readyz".into(),
        prober,
        told,
        told_last: EndpointState::Up,
        last: Time::ZERO,
        interval,
    };
    let view = LbView { lb: "b/s1@vm".into(), state: LbState::Nolb, steps: None, at: Time::ZERO };
    let half = Some(Duration::from_millis(500));
    Scrape {
        status: Status {
            version: "1.2.3".to_owned(),
            pid: 1,
            now_unix_ms: 1_800_000_010_000,
            uptime_ms: 10_000,
            lifecycle: Lifecycle::Draining,
            lifecycle_age_ms: 0,
            reason: String::new(),
            stops_in_ms: None,
            config: "doorbell.toml".to_owned(),
            generation: 2,
            addresses: Vec::new(),
            ports: BTreeMap::new(),
            workers: vec![worker(false), worker(true)],
            endpoints: vec![weighted, endpoint("a\"b\\c\n", EndpointWord::Up, CauseWord::Forced)],
            checks: BTreeMap::new(),
            maintenance: vec![HoldView {
                target: "db".to_owned(),
                source: HoldSource::Operator,
                reason: "why".to_owned(),
                left_ms: None,
            }],
            counters: BTreeMap::new(),
            event: 0,
        },
        checks: vec![check("db", CheckWord::Down, Some(last)), check("new", CheckWord::Unknown, None)],
        probers: vec![
            Prober { row: row(Some(Kind::Kubelet), [0, 1, 0, 0, 20], half), age_secs: 2.5 },
            Prober { row: row(None, [0, 0, 5, 0, 0], None), age_secs: 0.0 },
        ],
        views: vec![("readyz".to_owned(), view)],
        views_refused: 9,
        workers: vec![snapshot, Snapshot::default()],
        refused: BTreeMap::from([("rate_limited", 4)]),
        handshakes: BTreeMap::from([("handshakes_tls13", 6)]),
        http2: Some((1, 8)),
        check_runs: BTreeMap::from([("runs".to_owned(), 30), ("lag_us".to_owned(), 1_500)]),
        reloads: Reloads { done: 3, failed: 1, hurried: 0, has_last_failed: true },
        process: Process { cpu_secs: Some(1.25), open_fds: Some(12), ..Process::default() },
    }
}

/// `DOORBELL_BLESS=1` writes the files anew.
#[test]
fn what_a_scraper_reads() {
    for (accept, name) in [
        (&b"text/plain"[..], "metrics.txt"),
        (b"application/openmetrics-text; version=1.0.0", "metrics.openmetrics.txt"),
    ] {
        let text = Exposition::accepted(accept).render(gather(&scrape()));
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/metrics/golden").join(name);
        if std::env::var_os("DOORBELL_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let expect = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, expect, "{name}");
    }
}

#[test]
fn names_are_unique_and_every_family_is_explained() {
    let text = Exposition::Text.render(gather(&scrape()));
    let mut families = std::collections::BTreeSet::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split(' ').next().unwrap();
            assert!(families.insert(name.to_owned()), "{name} twice");
            assert!(help.ends_with('.') && !help.ends_with(".."), "{help}");
            assert!(lines.peek().is_some_and(|next| next.starts_with(&format!("# TYPE {name} "))), "{name}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(families.contains(name), "{line} before its family");
        }
    }
    assert!(families.len() > 40, "{}", families.len());
}

#[test]
fn which_text() {
    for (accept, expect) in [
        ("", Exposition::Text),
        ("*/*", Exposition::Text),
        ("text/plain;version=0.0.4", Exposition::Text),
        ("application/openmetrics-text", Exposition::OpenMetrics),
        ("Application/OpenMetrics-Text; version=1.0.0; q=0.5, text/plain;q=0.4", Exposition::OpenMetrics),
        ("application/openmetrics-text;q=0, text/plain", Exposition::Text),
        ("application/openmetrics-text2", Exposition::Text),
    ] {
        assert_eq!(Exposition::accepted(accept.as_bytes()), expect, "{accept}");
    }
}

#[test]
fn the_process_is_read() {
    let process = Process::read();
    assert!(
        process.threads >= Some(1) && process.open_fds > Some(2) && process.max_fds > Some(2),
        "{process:?}"
    );
    assert!(process.resident_bytes > Some(1 << 20) && process.cpu_secs.is_some(), "{process:?}");
}
