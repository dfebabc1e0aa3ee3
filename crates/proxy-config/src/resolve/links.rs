//! Resolves `[links]`, `[link.NAME]` and checks of type link.

use super::super::model::{Config, Peer};
use doorbell_checks::options::CheckKind;
use doorbell_config::{Names, Places, Problem, Problems};
use rustls::pki_types::ServerName;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Maximum number of links.
const LINKS_MAX: usize = 256;

pub(super) fn resolve(config: &mut Config, places: &Places, problems: &Problems) {
    let checks =
        Names::new(["check", "unknown-check"], config.checks.iter().map(|check| &check.name), problems);
    let names = config.health.iter().map(|health| &health.name);
    let endpoints = Names::new(["health", "unknown-health"], names, problems);
    for peer in config.peers.iter_mut() {
        peer.checks.iter_mut().for_each(|list| list.retain_mut(|link| checks.find(link)));
        peer.endpoints.iter_mut().for_each(|list| list.retain_mut(|link| endpoints.find(link)));
    }
    drop(checks);
    let peers = Names::new(["link", "unknown-link"], config.peers.iter().map(|peer| &peer.name), problems);
    for check in config.checks.iter_mut() {
        if let CheckKind::Link(link) = &mut check.kind {
            link.from.retain_mut(|from| peers.find(from));
        }
    }
    lint(config, places, problems);
}

/// Reports links that cannot be opened, and tables and keys without effect.
fn lint(config: &Config, places: &Places, problems: &Problems) {
    if let Some(extra) = config.peers.get(LINKS_MAX) {
        let message = format!("more than {LINKS_MAX} links");
        let problem = Problem::error("out-of-range", places.name(["link", &extra.name]), message);
        problems.add(problem.help("link fewer instances"));
    }
    lint_names(config, places, problems);
    for peer in &config.peers {
        lint_stated(config, peer, problems);
        let place = || places.name(["link", &peer.name]);
        match &config.links {
            None => {
                let problem =
                    Problem::error("missing-table", place(), "a link needs the certificates in [links]");
                problems.add(problem.help("add [links] with `cert`, `key` and `ca`"));
            }
            // The given `peer` is valid, or its error is already reported.
            Some(_) if places.key(["link", &peer.name, "peer"]).is_some() => {}
            Some(links) if links.binds.is_empty() => {
                let message = format!("neither side can open link `{}`", peer.name);
                let problem = Problem::error("no-address", place(), message);
                problems.add(problem.help("add `peer = \"HOST:PORT\"`, or `bind` in [links]"));
            }
            Some(_) => {}
        }
    }
    if let (Some(links), true) = (&config.links, config.peers.is_empty()) {
        let problem = Problem::warning("no-effect", links.cert.span.clone(), "[links] without a link");
        problems.add(problem.help("add a [link.NAME], or remove [links]"));
    }
}

/// Reports names that no certificate can have, and links without `peer` that are never opened
/// because an earlier link has the same certificate name.
fn lint_names(config: &Config, places: &Places, problems: &Problems) {
    let mut accepted: HashMap<String, Range<usize>> = HashMap::new();
    for peer in &config.peers {
        let path = ["link", &peer.name];
        let key = places.key(["link", &peer.name, "certificate_name"]);
        let place = key.unwrap_or_else(|| places.name(path));
        let name = peer.certificate_name();
        if ServerName::try_from(name).is_err() {
            let message = format!("{name:?} is not a valid certificate name");
            let help = "write `certificate_name`, a host name or an IP address";
            problems.add(Problem::error("bad-value", place, message).help(help));
        } else if peer.peer.is_none() && places.key(["link", &peer.name, "peer"]).is_none() {
            match accepted.entry(name.to_ascii_lowercase()) {
                Entry::Occupied(first) => problems.add(never_opened(peer, place, first.get().clone())),
                Entry::Vacant(vacant) => _ = vacant.insert(place),
            }
        }
    }
}

/// The error for a link that is never opened. `first` is the place of the link opened instead.
fn never_opened(peer: &Peer, place: Range<usize>, first: Range<usize>) -> Problem {
    let message = format!("link `{}` is never opened: another one has its certificate", peer.name);
    let problem = Problem::error("repeated", place, message).also(first, "this link is opened");
    problem.help("give each instance a certificate of its own")
}

/// Reports checks that a link lists but never states, because of their type.
fn lint_stated(config: &Config, peer: &Peer, problems: &Problems) {
    for listed in peer.checks.iter().flatten() {
        let check = &config.checks[listed.value.position];
        if matches!(check.kind, CheckKind::Alias(_) | CheckKind::Link(_)) {
            let message = format!("check `{}` follows other states, so no link states it", check.name);
            let problem = Problem::warning("no-effect", listed.span.clone(), message);
            problems.add(problem.help("list the check that it follows"));
        }
    }
}
