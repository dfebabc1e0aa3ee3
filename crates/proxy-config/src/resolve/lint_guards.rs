//! Warnings: guards that are weaker than intended, and limits that count a load balancer as one
//! client.

use super::super::model::{Config, Forwarded, LimitKey, ProxyProtocol, Route};
use doorbell_config::{Places, Problem, Problems};

pub(super) fn lint(config: &Config, places: &Places, problems: &Problems) {
    for route in &config.routes {
        lint_token_guesses(route, config, places, problems);
    }
    for position in 0..config.listeners.len() {
        balancer(position, config, places, problems);
    }
}

/// Reports a limit that does not slow down token guessing. The limit is checked before the token.
/// If the client chooses the key of the limit, each guess gets a new allowance; if probes are
/// exempt, any client can imitate a prober.
fn lint_token_guesses(route: &Route, config: &Config, places: &Places, problems: &Problems) {
    let Some(link) = &route.limit else { return };
    let Some(limit) = config.limits.get(link.position) else { return };
    let has_cert = route.positions().all(|listener| config.needs_client_cert(listener, route));
    let (why, help) = match limit.key {
        LimitKey::Header(_) | LimitKey::Token => {
            ("each guess counts as another client", "count by address on this route, `key = \"ip\"`")
        }
        LimitKey::Ip | LimitKey::Prefix { .. } if limit.exempt_probes => {
            ("any client can imitate a prober", "name a limit without `exempt_probes` on this route")
        }
        LimitKey::Ip | LimitKey::Prefix { .. } => return,
    };
    if route.auth.is_empty() || has_cert {
        return;
    }
    let message = format!("limit `{}` does not limit token guessing: {why}", limit.name);
    let problem = Problem::warning("limit-by-guess", link.span.clone(), message);
    let problem = match places.key(["route", &route.name, "auth"]) {
        Some(auth) => problem.also(auth, "checked after the limit"),
        None => problem,
    };
    problems.add(problem.help(help));
}

/// Reports default limits per address on listeners behind a load balancer that sends the client's
/// address in a header field: all connections come from the address of the balancer.
fn balancer(position: usize, config: &Config, places: &Places, problems: &Problems) {
    let Some(listener) = config.listeners.get(position) else { return };
    let Some(place) = places.key(["listener", &listener.name, "forwarded"]) else { return };
    if !listener.is_http()
        || listener.forwarded == Forwarded::Off
        || listener.proxy_protocol != ProxyProtocol::Off
    {
        return;
    }
    let warn = |what: String, help: String| {
        let message = format!("{what}, and behind a load balancer all connections come from its address");
        problems.add(Problem::warning("limits-the-balancer", place.clone(), message).help(help));
    };
    if let Some(cap) = config.connections.per_ip_max
        && places.get("connections.per_ip_max").is_none()
    {
        let what = format!("one address may hold {cap} connections");
        warn(
            what,
            "set `per_ip_max` in [connections] to the number of connections that the balancer opens"
                .to_owned(),
        );
    }
    let table = config.tls_of(position);
    if let Some(tls) = table
        && places.get(&format!("tls.{}.handshakes_per_ip", tls.name)).is_none()
        && let Some(rate) = tls.handshakes_per_ip
    {
        let what = format!("one address may begin {rate} handshakes");
        warn(what, format!("set `handshakes_per_ip = \"off\"` or a higher rate in [tls.{}]", tls.name));
    }
}
