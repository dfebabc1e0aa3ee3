//! Selection of comparisons, the order of turns, and the report.

use std::cell::RefCell;

use super::report::Summary;
use super::*;
use crate::report::{Form, json, show};

const RULES: Rules = Rules { pairs: 3, server_core: 0, client_core: 1 };

fn ids(patterns: &[&str], is_usual_peer: fn(&Entry) -> bool) -> Vec<String> {
    let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    contests(&patterns, is_usual_peer).unwrap().iter().map(Contest::id).collect()
}

fn contest(at_most: Option<f64>) -> Contest<&'static str> {
    let names = ["doorbell-uring", "nginx", "close/64"].map(str::to_owned);
    Contest { names, ours: "doorbell-uring", peer: "nginx", at_most }
}

fn report(shape: Shape, at_most: Option<f64>, turns: &Result<Vec<Pair>, String>) -> Report {
    RULES.hold(&[contest(at_most)], shape, |_| turns.clone()).unwrap()
}

fn markdown(report: &Report) -> String {
    show(Form::Markdown, report, || report.page())
}

fn cpu_pairs(pairs: &[(f64, f64)]) -> Vec<Pair> {
    pairs.iter().map(|&(ours, peer)| [ours, peer].map(|cpu_ns| Turn::of([("cpu_ns", cpu_ns)]))).collect()
}

#[test]
fn contests_are_both_drivers_with_each_tuned_peer() {
    let all = ids(&[], |_| true);
    for id in
        ["doorbell-uring/nginx/close/64", "doorbell-epoll/go-nethttp/keep/64", "doorbell-uring/bare/close/64"]
    {
        assert!(all.iter().any(|other| other == id), "{id} in {all:?}");
    }
    assert!(!all.iter().any(|id| id.contains("-plain") || id.contains("/bare/keep/")), "{all:?}");
    assert_eq!(ids(&[], |peer| peer.name == LATENCY_PEER).len(), 4);
    assert_eq!(ids(&["doorbell-uring-plain/nginx-plain/close"], |_| true).len(), 1);
    assert_eq!(ids(&["bare/nginx"], |_| true), ["bare/nginx/close/64"]);
    assert!(!all.iter().any(|id| id.starts_with("bare")), "{all:?}");
    assert!(contests(&["nothing".to_owned()], |_| true).is_err());
}

#[test]
fn turns_alternate_and_the_first_changes() {
    let order = RefCell::new(Vec::new());
    let pairs = RULES.alternate(&contest(None), |name| {
        order.borrow_mut().push(name);
        Ok(Turn { note: name.to_owned(), ..Turn::of([]) })
    });
    let expected = ["doorbell-uring", "nginx", "nginx", "doorbell-uring", "doorbell-uring", "nginx"];
    assert_eq!(order.into_inner(), expected);
    assert!(
        pairs
            .unwrap()
            .iter()
            .all(|[ours, peer]| (ours.note.as_str(), peer.note.as_str()) == ("doorbell-uring", "nginx"))
    );
    assert_eq!(RULES.alternate(&contest(None), |_| Err("gone".to_owned())).unwrap_err(), "gone");
}

#[test]
fn the_ratio_is_that_of_pairs_and_not_of_medians() {
    // The machine becomes twice as slow after the second pair, which does not change the ratios.
    let pairs = cpu_pairs(&[(1e3, 2e3), (1.1e3, 2e3), (2e3, 4e3), (1.8e3, 4e3), (2e3, 4e3)]);
    let table = markdown(&report(CPU_SHAPE, None, &Ok(pairs)));
    assert!(table.contains("| 1.80 | 4.00 | 0.50 (0.45 to 0.55) |"), "{table}");
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[0.5, 1.0 / 0.0]), None);
}

#[test]
fn cpu_time_has_a_ratio_for_people_and_turns_for_machines() {
    let pairs = cpu_pairs(&[(4000.0, 10_000.0), (5000.0, 10_000.0), (4400.0, 11_000.0)]);
    let report = report(CPU_SHAPE, None, &Ok(pairs));
    let table = markdown(&report);
    assert!(table.contains("| server | peer | load | ours, CPU us | peer, CPU us | ratio |\n"), "{table}");
    assert!(
        table.contains("| doorbell-uring | nginx | close/64 | 4.40 | 10.00 | 0.40 (0.40 to 0.50) |"),
        "{table}"
    );
    let json: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    let contest = &json["contests"][0];
    assert!(contest["failure"].is_null(), "{contest}");
    assert_eq!(contest["ratios"]["cpu_ns"]["high"], 0.5);
    assert_eq!(contest["peer"][2]["cpu_ns"], 11_000.0);
    assert_eq!(json["conditions"]["pairs"], 3);
    assert!(report.is_complete());
}

#[test]
fn latencies_have_both_quantiles_and_their_rate() {
    let turn = |p50, p99| Turn { note: "1500".into(), ..Turn::of([("p50_us", p50), ("p99_us", p99)]) };
    let report = report(LATENCY_SHAPE, None, &Ok(vec![[turn(30.0, 90.0), turn(40.0, 60.0)]]));
    let cells = "| 30.00 | 40.00 | 0.75 (0.75 to 0.75) | 90.00 | 60.00 | 1.50 (1.50 to 1.50) | 1500 |";
    assert!(markdown(&report).contains(cells), "{}", markdown(&report));
    let json: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    assert_eq!(json["contests"][0]["ratios"]["p99_us"]["median"], 1.5);
}

#[test]
fn less_than_promised_does_not_hold() {
    for (ours, holds) in [(86.9, "| yes |"), (87.0, "| yes |"), (87.1, "| no |"), (120.0, "| no |")] {
        let table = markdown(&report(CPU_SHAPE, Some(0.87), &Ok(cpu_pairs(&[(ours, 100.0)]))));
        assert!(table.contains(holds), "{ours}: {table}");
    }
}

#[test]
fn what_was_skipped_is_said() {
    let report = report(CPU_SHAPE, None, &Err("nginx: not there".to_owned()));
    assert!(markdown(&report).contains("doorbell-uring/nginx/close/64: skipped: nginx: not there"));
    assert!(json(&report).contains("nginx: not there"));
    assert!(!report.is_complete());
}

#[test]
fn a_server_that_ends_is_named_with_how() {
    let entry = Entry::named("bare").unwrap();
    let program = std::path::Path::new("/bin/false");
    let error = Running::start(program, 0, |program, place| entry.at(program, place)).unwrap_err();
    assert!(error.contains("bare") && error.contains("exit status: 1"), "{error}");
}
