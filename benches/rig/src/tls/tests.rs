//! Which contests are held, how servers are set up, and how figures are shown.
//!
//! Does not know about: real servers.

use super::server::Set;
use super::*;
use crate::image::servers::Place;
use crate::native::Measure;

const RULES: Rules =
    Rules { pairs: 2, server_core: 0, client_core: 1, measure: Measure::Cpu { requests: 100 } };

fn ids(patterns: &[&str]) -> Vec<String> {
    let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    contests(&patterns).unwrap().iter().map(Contest::id).collect()
}

fn report(id: &str, result: Result<Vec<Pair<Turn>>, String>) -> Report {
    let contest = contests(&[id.to_owned()]).unwrap()[0];
    Report { conditions: Conditions::read(&RULES).unwrap(), outcomes: vec![Outcome { contest, result }] }
}

fn turn(cpu_ns: f64, suite: &str) -> Turn {
    Turn { cpu_ns, suite: suite.to_owned() }
}

#[test]
fn contests_are_both_drivers_with_both_peers_and_the_hybrid_exchange_alone() {
    let all = ids(&[]);
    assert_eq!(all.len(), 2 * (2 * 2 * 4 + 1), "{all:?}");
    assert_eq!(ids(&["doorbell-uring/nginx/full"]).len(), 2);
    assert_eq!(ids(&["keep-16/aes128"]).len(), 4);
    assert_eq!(
        ids(&["x25519mlkem768"]),
        [
            "doorbell-uring/doorbell-uring/full/usual/x25519mlkem768",
            "doorbell-epoll/doorbell-epoll/full/usual/x25519mlkem768"
        ]
    );
    assert!(contests(&["nothing".to_owned()]).is_err());
}

#[test]
fn every_server_has_the_same_certificate() {
    let identity = Identity::generate().unwrap();
    let place = Place { folder: "/f", port: 7, is_root: true, conns_max: None };
    for server in server::OURS.iter().chain(server::PEERS) {
        let set = Set { server, identity: &identity };
        let files = set.files_at(&place);
        let named = |name: &str| files.iter().find(|(path, _)| path == name).unwrap().1.clone();
        assert_eq!(named("/f/cert.pem"), identity.certificate);
        assert_eq!(named("/f/both.pem"), identity.certificate.clone() + &identity.key);
        let config = named("/f/server.conf");
        assert!(config.contains(":7") && config.contains("/f/"), "{config}");
        assert!(config.contains("ok\\n"), "{config}");
        assert_eq!(set.argv("p", &place).last().unwrap(), "/f/server.conf");
    }
}

#[test]
fn the_table_has_ratio_suites_and_verdict() {
    let pairs = vec![
        Pair { ours: turn(80_000.0, "TLS13_AES_128"), peer: turn(100_000.0, "TLS13_AES_256") },
        Pair { ours: turn(90_000.0, "TLS13_AES_128"), peer: turn(100_000.0, "TLS13_AES_256") },
    ];
    let report = report("doorbell-uring/nginx/full/usual", Ok(pairs));
    let table = report.table();
    let row = "| doorbell-uring | nginx | full, usual, x25519 | AES_128; AES_256 | 85.00 | 100.00 | 11,765 | 10,000 | 0.85 (0.80 to 0.90) | yes |";
    assert!(table.contains(row), "{table}");
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let contest = &json["contests"][0];
    assert_eq!(contest["ratio"]["high"], 0.9);
    assert_eq!(contest["holds"], true);
    assert_eq!(contest["ours_load"]["kind"], "full");
    assert_eq!(contest["ours_turns"][1]["cpu_ns"], 90_000.0);
}

#[test]
fn less_than_promised_does_not_hold() {
    let pairs = |ours| vec![Pair { ours: turn(ours, "a"), peer: turn(100.0, "a") }];
    for (ours, holds) in [(86.9, "| yes |"), (87.0, "| no |"), (120.0, "| no |")] {
        let table = report("doorbell-epoll/haproxy/keep-16/aes128", Ok(pairs(ours))).table();
        assert!(table.contains(holds), "{ours}: {table}");
    }
    let table = report("x25519mlkem768", Ok(pairs(200.0))).table();
    assert!(
        table.contains("| doorbell-uring, x25519 |") && table.contains("2.00 (2.00 to 2.00) |  |"),
        "{table}"
    );
}

#[test]
fn what_was_skipped_is_said() {
    let report = report("doorbell-uring/nginx/full/usual", Err("nginx: not there".to_owned()));
    assert!(report.table().contains("doorbell-uring/nginx/full/usual/x25519: skipped: nginx: not there"));
    assert!(report.json().contains("nginx: not there"));
    assert!(!report.is_complete());
}
