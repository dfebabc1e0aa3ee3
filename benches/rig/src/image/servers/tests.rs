//! Consistency of the catalogue: names, configurations, arguments.

use clap::ValueEnum;

use super::*;
use crate::plan::AUTHORIZATION;

fn setup(name: &str) -> Setup {
    Entry::named(name).unwrap().at("p", &ServerEnvironment::GUEST)
}

fn text(name: &str) -> String {
    setup(name).files[0].1.clone()
}

#[test]
fn names_are_unique_and_found() {
    for (at, entry) in CATALOGUE.iter().enumerate() {
        assert!(CATALOGUE[..at].iter().all(|other| other.name != entry.name), "{}", entry.name);
        assert_eq!(setup(entry.name), entry.at("p", &ServerEnvironment::GUEST));
        assert!(!entry.about.is_empty(), "{}", entry.name);
    }
    assert!(Entry::named("doorbell").is_none());
}

#[test]
fn deferred_accept_is_the_only_difference_to_plain() {
    for (name, word) in [("doorbell-uring", "true"), ("nginx", " deferred"), ("haproxy", " defer-accept")] {
        let with = text(name);
        let without = text(&format!("{name}-plain"));
        assert_ne!(with, without);
        assert_eq!(with.replace(word, ""), without.replace("false", ""), "{name}");
    }
}

#[test]
fn the_token_that_is_sent_is_the_one_that_is_wanted() {
    let (_, token) = AUTHORIZATION.split_once("Bearer ").unwrap();
    for name in ["doorbell-uring", "doorbell-epoll"] {
        let guarded = text(&format!("{name}-guard"));
        let guards = guarded.strip_prefix(&text(name)).expect("the guards are the only difference");
        assert!(guards.contains(&format!("\"{token}\"")), "{guards}");
    }
}

#[test]
fn two_workers_are_the_only_difference_to_one() {
    for name in ["doorbell-uring", "doorbell-epoll"] {
        let two = text(&format!("{name}-2w"));
        assert_ne!(text(name), two);
        assert_eq!(text(name).replace("workers = 1", "workers = 2"), two);
    }
}

#[test]
fn a_variation_is_one_of_a_server_of_the_catalogue() {
    let variations: Vec<&Entry> = CATALOGUE.iter().filter(|entry| entry.is_variation()).collect();
    assert_eq!(variations.len(), 12);
    for entry in variations {
        let (base, _) = entry.name.rsplit_once('-').unwrap();
        assert!(!Entry::named(base).unwrap().is_variation(), "{}", entry.name);
    }
}

#[test]
fn a_server_is_started_with_its_own_configuration_or_an_address() {
    assert_eq!(setup("haproxy-plain").server.argv, ["p", "-db", "-f", "/rig/haproxy-plain.conf"]);
    assert_eq!(setup("bare").server.argv, ["p", "127.0.0.1:8080"]);
}

#[test]
fn elsewhere_folder_and_port_are_others() {
    let place =
        ServerEnvironment { folder: "/else", port: 4711, is_root: false, conns_max: None, has_tls: false };
    for entry in CATALOGUE {
        let Setup { server, files } = entry.at("p", &place);
        let all = format!("{files:?} {:?}", server.argv);
        assert!(all.contains("4711") && !all.contains("8080") && !all.contains("/rig"), "{all}");
        assert!(files.iter().all(|(path, _)| path.starts_with("/else/")), "{all}");
        assert!(!all.contains("root"), "{all}");
    }
    let doorbell = Entry::named("doorbell-uring").unwrap();
    assert!(!format!("{:?}", doorbell.at("p", &place).files).contains("max_connections"));
    let few = ServerEnvironment { conns_max: Some(77), ..place };
    let files = doorbell.at("p", &few).files;
    assert!(format!("{files:?}").contains("workers = 1\\nmax_connections = 77\\n"));
}

#[test]
fn the_floor_answers_only_what_it_can() {
    for &mode in Mode::value_variants() {
        let is_idle = mode.idle_conns() > 0;
        assert!(Entry::named("doorbell-uring-2w").unwrap().serves(mode));
        assert_eq!(Entry::named("nginx").unwrap().serves(mode), !is_idle);
        if is_idle {
            assert!(!["bare", "bare-keep"].iter().any(|name| Entry::named(name).unwrap().serves(mode)));
            continue;
        }
        assert_ne!(
            Entry::named("bare").unwrap().serves(mode),
            Entry::named("bare-keep").unwrap().serves(mode)
        );
    }
}
