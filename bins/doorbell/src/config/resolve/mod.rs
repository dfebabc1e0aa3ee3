//! From what was written to what can be used: defaults filled in, names replaced by positions, tables checked against each other.
//!
//! Does not know about: TOML, what is in the files that are named.

mod action;
mod admin;
mod check;
mod compute;
mod conflict;
mod guard;
mod health;
mod http2;
mod lint;
mod lint_guards;
mod lint_liveness;
mod lint_shared;
mod loops;
mod redirect;
mod route;
mod template;
mod tls;

pub(crate) use action::default_methods;
pub(crate) use redirect::build_redirect;

use super::bind::Bind;
use super::defaults::default_routes;
use super::model::{Config, Listener, Route, Tls};
use super::written;
use doorbell_config::{At, Names, Problem, Problems};
use route::Resolver;
use std::collections::HashMap;
use std::ops::Range;

/// A configuration, complete even after problems; it is of use only when none of them is an error. `grace` says in words how long whoever ends us
/// waits.
pub(crate) fn resolve(file: &written::File, grace: Option<&str>, problems: &Problems) -> Config {
    let tls = values(&file.tls);
    let auth = values(&file.auth);
    let limits = values(&file.limits);
    let listeners = listeners(file, &tls, problems);
    let checks = check::resolve(file, problems);
    let health = health::resolve(file, &checks, problems);
    let names = health.iter().map(|health| &health.name);
    let endpoints = Names::new(["health", "unknown-health"], names, problems);
    let (mut agents, mut tcp_gates) = (values(&file.agents), values(&file.tcp_gates));
    let links = agents.iter_mut().map(|agent| &mut agent.health);
    for link in links.chain(tcp_gates.iter_mut().map(|gate| &mut gate.health)) {
        endpoints.find(link);
    }
    let mut maintenance = file.maintenance.clone();
    for window in &mut maintenance.windows {
        window.endpoints.retain_mut(|link| endpoints.find(link));
    }
    let resolver = Resolver {
        listeners: &listeners,
        tls: &tls,
        auth: Names::new(["auth", "unknown-auth"], auth.iter().map(|auth| &auth.name), problems),
        limits: Names::new(["limit", "unknown-limit"], limits.iter().map(|limit| &limit.name), problems),
        endpoints: &endpoints,
        health: &health,
        file,
        problems,
    };
    let grpc = http2::resolve_grpc(file.grpc.as_ref(), &endpoints);
    let routes = all_routes(&resolver, grpc.enabled);
    let config = Config {
        runtime: file.runtime.clone(),
        log: file.log.clone(),
        lifecycle: file.lifecycle.clone(),
        systemd: file.systemd,
        control: file.control.clone(),
        maintenance,
        admin: file.admin.clone(),
        tuning: file.tuning.clone(),
        tls,
        auth,
        limits,
        http2: file.http2.clone(),
        compute: file.compute.clone(),
        grpc,
        listeners,
        agents,
        tcp_gates,
        blackbox: file.blackbox.clone(),
        allow_exec: false,
        egress: check::resolve_egress(&file.check_defaults),
        checks,
        health,
        routes,
    };
    check_together(file, &config, grace, problems);
    config
}

/// What is wrong, or probably not meant, between tables.
fn check_together(file: &written::File, config: &Config, grace: Option<&str>, problems: &Problems) {
    find_twice_bound(file, problems);
    tls::check_waits(file, config, problems);
    admin::lint(file, problems);
    compute::lint(file, config, problems);
    http2::lint(file, config, problems);
    lint::lint(file, config, grace, problems);
    lint_guards::lint(file, config, problems);
    lint_liveness::lint(file, config, problems);
    loops::refuse(file, config, problems);
    lint_shared::lint(file, config, problems);
}

/// Those that are written, or the default one.
fn listeners(file: &written::File, tls: &[Tls], problems: &Problems) -> Vec<Listener> {
    let names = Names::new(["tls", "unknown-tls"], tls.iter().map(|tls| &tls.name), problems);
    let mut listeners: Vec<Listener> = values(&file.listeners);
    for listener in &mut listeners {
        listener.tls.take_if(|link| !names.find(link));
    }
    if listeners.is_empty() {
        listeners.push(Listener::local());
    }
    unify(file, &mut listeners, problems);
    listeners
}

/// Those that are written, or the default ones, and those of gRPC health where it is `enabled`.
fn all_routes(resolver: &Resolver<'_>, enabled: bool) -> Vec<Route> {
    let mut routes = match resolver.file.routes.is_empty() {
        true => default_routes(resolver.listeners, resolver.health),
        false => resolver.routes(),
    };
    if enabled {
        routes.extend(http2::own_route(resolver.listeners, &routes));
    }
    routes
}

fn or<T: Clone>(written: &Option<At<T>>, default: T) -> T {
    written.as_ref().map_or(default, |at| at.value.clone())
}

/// The tables of one kind without their places.
fn values<T: Clone>(written: &[At<T>]) -> Vec<T> {
    written.iter().map(|table| table.value.clone()).collect()
}

/// Three limits belong to the engine and not to a listener: written on one they hold on all, and may not differ.
fn unify(file: &written::File, listeners: &mut [Listener], problems: &Problems) {
    one_value("timeouts.write", |listener| &mut listener.timeouts.write, file, listeners, problems);
    one_value("timeouts.linger", |listener| &mut listener.timeouts.linger, file, listeners, problems);
    let key = "limits.connections_per_ip";
    one_value(key, |listener| &mut listener.limits.connections_per_ip, file, listeners, problems);
}

fn one_value<T: Copy + PartialEq>(
    key: &str,
    field: fn(&mut Listener) -> &mut T,
    file: &written::File,
    listeners: &mut [Listener],
    problems: &Problems,
) {
    let written = listeners.iter_mut().filter_map(|listener| {
        let place = file.places.get(&format!("listener.{}.{key}", listener.name))?;
        (!problems.has_error_at(&place)).then(|| (*field(listener), place))
    });
    let written: Vec<_> = written.collect();
    let Some((value, first)) = written.first() else { return };
    for (_, place) in written.iter().filter(|(other, _)| other != value) {
        let message = format!("`{key}` must be the same on every listener");
        problems.add(
            Problem::error("contradiction", place.clone(), message)
                .also(first.clone(), "first here")
                .help("write it on one listener; it then holds on all of them"),
        );
    }
    listeners.iter_mut().for_each(|listener| *field(listener) = *value);
}

/// The same address twice. Port 0 is another port each time.
fn find_twice_bound(file: &written::File, problems: &Problems) {
    let mut known: HashMap<Bind, &Range<usize>> = HashMap::new();
    let listeners = file.listeners.iter().flat_map(|listener| &listener.binds);
    let agents = file.agents.iter().flat_map(|agent| &agent.binds);
    let gates = file.tcp_gates.iter().flat_map(|gate| &gate.binds);
    let probes = file.blackbox.iter().flat_map(|blackbox| &blackbox.binds);
    let addresses = gates.chain(probes).map(|at| (Bind::Tcp(at.value), &at.span));
    for (bind, span) in listeners.chain(agents).map(|at| (at.value.clone(), &at.span)).chain(addresses) {
        if matches!(&bind, Bind::Tcp(addr) if addr.port() == 0) {
            continue;
        }
        if let Some(first) = known.insert(bind.clone(), span) {
            problems.add(
                Problem::error("bound-twice", span.clone(), format!("{bind} is bound twice"))
                    .also(first.clone(), "first here")
                    .help("give one of them another address"),
            );
        }
    }
}
