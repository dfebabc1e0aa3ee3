//! Which contests are held, in which order turns are taken, and how their figures are shown.
//!
//! Does not know about: real servers.

use std::cell::RefCell;

use super::report::Conditions;
use super::*;

const CPU: Measure = Measure::Cpu { requests: 100 };
const RULES: Rules = Rules { pairs: 3, server_core: 0, client_core: 1, measure: CPU };

fn ids(measure: Measure, patterns: &[&str]) -> Vec<String> {
    let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    contests(measure, &patterns).unwrap().iter().map(Contest::id).collect()
}

fn contest() -> Contest {
    contests(CPU, &["doorbell-uring/nginx/close".to_owned()]).unwrap()[0]
}

fn report(result: Result<Findings, String>) -> Report {
    let conditions = Conditions::read(&RULES).unwrap();
    Report { conditions, outcomes: vec![Outcome { contest: contest(), result }] }
}

fn cpu_turn(cpu_ns: f64) -> cpu::Turn {
    cpu::Turn { cpu_ns, requests_per_s: 1.0 }
}

#[test]
fn contests_are_both_drivers_with_each_tuned_peer() {
    let all = ids(CPU, &[]);
    for id in
        ["doorbell-uring/nginx/close/64", "doorbell-epoll/go-nethttp/keep/64", "doorbell-uring/bare/close/64"]
    {
        assert!(all.iter().any(|other| other == id), "{id} in {all:?}");
    }
    assert!(!all.iter().any(|id| id.contains("-plain") || id.contains("/bare/keep/")), "{all:?}");
    assert_eq!(ids(Measure::Latency { seconds: 1 }, &[]).len(), 4);
    assert_eq!(ids(CPU, &["doorbell-uring-plain/nginx-plain/close"]).len(), 1);
    assert_eq!(ids(CPU, &["bare/nginx"]), ["bare/nginx/close/64"]);
    assert!(!all.iter().any(|id| id.starts_with("bare")), "{all:?}");
    assert!(contests(CPU, &["nothing".to_owned()]).is_err());
}

#[test]
fn turns_alternate_and_the_first_changes() {
    let order = RefCell::new(Vec::new());
    let Contest { ours, peer, .. } = contest();
    let pairs = alternate(ours, peer, 3, |entry| {
        order.borrow_mut().push(entry.name);
        Ok(entry.name)
    });
    let expected = ["doorbell-uring", "nginx", "nginx", "doorbell-uring", "doorbell-uring", "nginx"];
    assert_eq!(order.into_inner(), expected);
    assert!(pairs.unwrap().iter().all(|pair| (pair.ours, pair.peer) == ("doorbell-uring", "nginx")));
    assert_eq!(alternate(ours, peer, 2, |_| Err::<(), _>("gone".to_owned())).unwrap_err(), "gone");
}

#[test]
fn cpu_time_has_a_ratio_for_people_and_turns_for_machines() {
    let pairs = [(4000.0, 10_000.0), (5000.0, 10_000.0), (4400.0, 11_000.0)];
    let pairs = pairs.map(|(ours, peer)| Pair { ours: cpu_turn(ours), peer: cpu_turn(peer) });
    let report = report(Ok(Findings::Cpu(pairs.into())));
    let table = report.table();
    assert!(
        table.contains("| doorbell-uring | nginx | close | 4.40 | 10.00 | 0.40 (0.40 to 0.50) |"),
        "{table}"
    );
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let contest = &json["contests"][0];
    assert_eq!((contest["measure"].as_str(), contest["failure"].is_null()), (Some("cpu"), true));
    assert_eq!(contest["ratio"]["high"], 0.5);
    assert_eq!(contest["peer"][2]["cpu_ns"], 11_000.0);
    assert_eq!(json["conditions"]["pairs"], 3);
    assert!(report.is_complete());
}

#[test]
fn latencies_have_both_quantiles() {
    let turn = |p50_us, p99_us| latency::Turn { p50_us, p99_us };
    let pairs = vec![Pair { ours: turn(30.0, 90.0), peer: turn(40.0, 60.0) }];
    let report = report(Ok(Findings::Latency { rate: 1500.0, pairs }));
    let table = report.table();
    let cells = "| 1,500 | 30.00 | 40.00 | 0.75 (0.75 to 0.75) | 90.00 | 60.00 | 1.50 (1.50 to 1.50) |";
    assert!(table.contains(cells), "{table}");
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(json["contests"][0]["p99_ratio"]["median"], 1.5);
}

#[test]
fn what_was_skipped_is_said() {
    let report = report(Err("nginx: not there".to_owned()));
    assert!(report.table().contains("doorbell-uring/nginx/close/64: skipped: nginx: not there"));
    assert!(report.json().contains("nginx: not there"));
    assert!(!report.is_complete());
}

#[test]
fn a_server_that_ends_is_named_with_how() {
    let entry = Entry::named("bare").unwrap();
    let mut ours = programs::build(Some("/none".into()), Some("/none".into())).unwrap();
    ours.peers.insert("bare", "/bin/false".into());
    let error = Running::start(Subject::Entry(entry), 0, &ours).unwrap_err();
    assert!(error.contains("bare") && error.contains("exit status: 1"), "{error}");
}
