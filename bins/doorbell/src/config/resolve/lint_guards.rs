//! Warnings: guards that stop less than was meant, or somebody else.
//!
//! Does not know about: errors; how requests are counted.

use super::super::model::{Config, Forwarded, LimitKey, Listener, ProxyProtocol};
use super::super::written;
use doorbell_config::{Problem, Problems};

pub(super) fn lint(file: &written::File, config: &Config, problems: &Problems) {
    for written in &file.routes {
        guesses(written, config, problems);
    }
    for (position, written) in file.listeners.iter().enumerate() {
        balancer(position, written, file, config, problems);
    }
}

/// The limit is asked before the token. By what a client writes itself it has a fresh allowance with each guess.
fn guesses(written: &written::Route, config: &Config, problems: &Problems) {
    let Some(route) = config.routes.iter().find(|route| route.name == written.name.value) else { return };
    let (Some(at), Some(limit)) = (&written.limit, route.guard.limit.and_then(|at| config.limits.get(at)))
    else {
        return;
    };
    let has_cert = route.listeners.iter().all(|&listener| config.needs_client_cert(listener, route));
    let (why, help) = match limit.key {
        LimitKey::Header(_) | LimitKey::Token => {
            ("each guess counts as another client", "count by address on this route, `key = \"ip\"`")
        }
        LimitKey::Ip | LimitKey::Prefix { .. } if limit.exempt_probes => {
            ("anybody can look like a prober", "name a limit without `exempt_probes` on this route")
        }
        LimitKey::Ip | LimitKey::Prefix { .. } => return,
    };
    if route.guard.auth.is_empty() || has_cert {
        return;
    }
    let message = format!("limit `{}` does not slow down who guesses tokens: {why}", limit.name);
    let problem = Problem::warning("limit-by-guess", at.span.clone(), message);
    let problem = match &written.auth {
        Some(auth) => problem.also(auth.span.clone(), "asked after the limit"),
        None => problem,
    };
    problems.add(problem.help(help));
}

/// Behind a load balancer that tells the client in a header field, every connection is the balancer's.
fn balancer(position: usize, written: &Listener, file: &written::File, config: &Config, problems: &Problems) {
    let Some(listener) = config.listeners.get(position) else { return };
    let Some(place) = file.places.get(&format!("listener.{}.forwarded", written.name)) else { return };
    if !listener.is_http()
        || listener.forwarded == Forwarded::Off
        || listener.proxy_protocol != ProxyProtocol::Off
    {
        return;
    }
    let warn = |what: String, help: String| {
        let message = format!("{what}, and behind a load balancer all of them are its own");
        problems.add(Problem::warning("limits-the-balancer", place.clone(), message).help(help));
    };
    let cap_of = |name: &str| file.places.get(&format!("listener.{name}.limits.connections_per_ip"));
    if let Some(cap) = listener.limits.connections_per_ip
        && file.listeners.iter().all(|written| cap_of(&written.name).is_none())
    {
        let what = format!("one address may hold {cap} connections");
        warn(what, "set `limits = { connections_per_ip = .. }` to as many as the balancer opens".to_owned());
    }
    let table = config.tls_of(position);
    if let Some(tls) = table
        && file.places.get(&format!("tls.{}.handshakes_per_ip", tls.name)).is_none()
        && let Some(rate) = tls.handshakes_per_ip
    {
        let what = format!("one address may begin {rate} handshakes");
        warn(what, format!("set `handshakes_per_ip = \"off\"` or a higher rate in [tls.{}]", tls.name));
    }
}
