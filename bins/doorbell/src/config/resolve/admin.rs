//! `[admin]`, resolved.
//!
//! Does not know about: what can be asked there.

use super::super::model::Admin;
use super::super::written;
use super::or;
use crate::http::auth::{TokenWarning, Tokens};
use crate::http::router::host;
use doorbell_config::{At, Problem, Problems};

pub(super) fn resolve(written: &written::Admin, problems: &Problems) -> Admin {
    let default = Admin::default();
    let bind = or(&written.bind, default.bind);
    let open = or(&written.open, default.open);
    if let Some(token) = &written.token {
        let span = token.span.clone();
        match Tokens::new().add("admin", token.value.reveal().as_bytes()) {
            Ok(None) => {}
            Ok(Some(warning @ TokenWarning::Short)) => {
                let problem = Problem::warning("short-secret", span, "the token of `admin` is short");
                problems.add(problem.help(warning.to_string()));
            }
            Err(error) => {
                let problem = Problem::error("bad-secret", span, "the token of `admin` cannot be used");
                problems.add(problem.help(error.to_string()));
            }
        }
    } else if let Some(at) = written.bind.as_ref().filter(|at| !open && !at.value.ip().is_loopback()) {
        let message =
            "everybody who reaches this address sees all states and metrics, and nobody there can drain";
        problems.add(
            Problem::warning("open-admin", at.span.clone(), message)
                .help("set `token = \"${file:/run/secrets/doorbell-admin}\"`, say `open = true` where that is meant, or bind \"127.0.0.1:9130\""),
        );
    }
    let hosts = hosts_of(written, problems);
    Admin { bind, hosts, token: written.token.as_ref().map(|at| at.value.clone()), open, ..default }
}

fn hosts_of(written: &written::Admin, problems: &Problems) -> Vec<String> {
    let mut hosts = Vec::new();
    for At { value: text, span } in written.hosts.iter().flat_map(|hosts| &hosts.value) {
        match host::canonical_pattern(text).filter(|host| !host.contains('*')) {
            Some(host) => hosts.push(host),
            None => {
                let message = format!("{text:?} is not the name of a host");
                let help = "write a name without a port and without `*`, such as \"doorbell.example.com\"";
                problems.add(Problem::error("bad-host", span.clone(), message).help(help));
            }
        }
    }
    hosts
}

/// The same address as that of a listener.
pub(super) fn lint(file: &written::File, problems: &Problems) {
    // One that cannot be read was told already.
    let Some(admin) = file.admin.as_ref().filter(|admin| admin.has_bind == admin.bind.is_some()) else {
        return;
    };
    let bind = or(&admin.bind, Admin::default().bind);
    let binds = file.listeners.iter().flat_map(|listener| &listener.binds);
    let same = |bound: &super::super::bind::Bind| matches!(bound, super::super::bind::Bind::Tcp(addr) if *addr == bind && addr.port() != 0);
    if let Some(first) = binds.into_iter().find(|at| same(&at.value)) {
        let span = admin.bind.as_ref().map_or_else(|| admin.header.clone(), |at| at.span.clone());
        problems.add(
            Problem::error("bound-twice", span, format!("{bind} is bound twice"))
                .also(first.span.clone(), "by a listener here")
                .help("give one of them another address"),
        );
    }
}
