//! Selection of comparisons, and setup of servers.

use super::*;
use crate::image::servers::{ServerEnvironment, Setup};

fn ids(patterns: &[&str]) -> Vec<String> {
    let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    contests(&patterns).unwrap().iter().map(Contest::id).collect()
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
fn a_promise_is_made_for_peers_only() {
    for contest in contests(&[]).unwrap() {
        assert_eq!(contest.at_most.is_some(), contest.names[0] != contest.names[1], "{}", contest.id());
    }
}

#[test]
fn every_server_has_the_same_certificate() {
    let identity = Identity::generate().unwrap();
    let place = ServerEnvironment { folder: "/f", port: 7, is_root: true, conns_max: None, has_tls: false };
    for name in OURS.iter().chain(&PEERS) {
        let entry = Entry::named(name).unwrap();
        let Setup { server, files } = identity.setup(entry, "p", &place);
        let named = |name: &str| files.iter().find(|(path, _)| path == name).unwrap().1.clone();
        assert_eq!(named("/f/cert.pem"), identity.certificate);
        assert_eq!(named("/f/both.pem"), identity.certificate.clone() + &identity.key);
        let config = named(server.argv.last().unwrap());
        assert!(config.contains(":7") && config.contains("/f/") && config.contains(".pem"), "{config}");
        assert!(config.contains("ok\\n"), "{config}");
        assert!(!entry.at("p", &place).files[0].1.contains(".pem"), "{name}");
    }
}
