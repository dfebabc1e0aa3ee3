//! Resolves a configuration: fills in defaults, replaces names by positions, validates tables
//! against each other.

mod alias;
mod compute;
mod conflict;
mod health;
mod http2;
mod links;
mod lint;
mod lint_guards;
mod lint_liveness;
mod lint_shared;
mod loops;
mod route;
mod sharing;
mod tls;

use super::addresses::{self, Overlaps};
use super::bind::Bind;
use super::defaults::default_routes;
use super::model::{CHECKS_MAX, Config, Listener};
use doorbell_checks::options::CheckKind;
use doorbell_config::{Names, Places, Problem, Problems};
pub(crate) use http2::default_route as default_grpc_route;
use route::Resolver;
use std::ops::Range;

/// Resolves names and reports problems between tables. Continues after problems. `grace` is the
/// unparsed value of `TERMINATION_GRACE_PERIOD`.
pub(crate) fn resolve(config: &mut Config, places: &Places, grace: Option<&str>, problems: &Problems) {
    listeners(config, problems);
    if let Some(extra) = config.checks.get(CHECKS_MAX) {
        let message = format!("more than {CHECKS_MAX} checks");
        let problem = Problem::error("out-of-range", places.name(["check", &extra.name]), message);
        problems.add(problem.help("distribute them over several instances"));
    }
    health::resolve(&mut config.health, &config.checks, places, problems);
    links::resolve(config, places, problems);
    let names = config.health.iter().map(|health| &health.name);
    let endpoints = Names::new(["health", "unknown-health"], names, problems);
    alias::resolve(config, &endpoints, places, problems);
    let links = config.agents.iter_mut().map(|agent| &mut agent.health);
    let links = links.chain(config.tcp_gates.iter_mut().map(|gate| &mut gate.health));
    for link in links.chain(config.udp.iter_mut().map(|udp| &mut udp.health)) {
        endpoints.find(link);
    }
    for window in &mut config.maintenance.windows {
        window.endpoints.retain_mut(|link| endpoints.find(link));
    }
    http2::resolve_grpc(&mut config.grpc, &endpoints);
    let resolver = Resolver {
        listeners: &config.listeners,
        listener_names: Names::new(
            ["listener", "unknown-listener"],
            config.listeners.iter().map(|listener| &listener.name),
            problems,
        ),
        tls: &config.tls,
        auth: Names::new(["auth", "unknown-auth"], config.auth.iter().map(|auth| &auth.name), problems),
        limits: Names::new(
            ["limit", "unknown-limit"],
            config.limits.iter().map(|limit| &limit.name),
            problems,
        ),
        endpoints: &endpoints,
        places,
        problems,
    };
    config.routes.iter_mut().for_each(|route| resolver.route(route));
    conflict::find(&config.routes, config.listeners.len(), places, problems);
    if config.routes.is_empty() {
        config.routes.extend(default_routes(&config.listeners, &config.health));
    }
    if config.grpc.enabled {
        let own = default_grpc_route(&config.listeners, &config.routes);
        config.routes.extend(own);
    }
    check_across_tables(config, places, grace, problems);
}

/// Reports errors and warnings that involve several tables.
fn check_across_tables(config: &Config, places: &Places, grace: Option<&str>, problems: &Problems) {
    find_twice_bound(config, places, problems);
    tls::check_waits(config, places, problems);
    compute::lint(config, places, problems);
    http2::lint(config, places, problems);
    lint::lint(config, places, grace, problems);
    lint_guards::lint(config, places, problems);
    lint_liveness::lint(config, problems);
    loops::refuse(config, places, problems);
    lint_shared::lint(config, places, problems);
    sharing::lint(config, places, problems);
}

/// Reports checks that run programs, which only a start with `--allow-exec` permits.
pub(super) fn report_exec(config: &Config, places: &Places, problems: &Problems) {
    for check in config.checks.iter().filter(|check| matches!(check.kind, CheckKind::Exec(_))) {
        let name = &check.name;
        let place = places.key(["check", name, "type"]).unwrap_or_else(|| places.name(["check", name]));
        let message = format!(
            "check `{name}` runs a program: without `--allow-exec`, `doorbell serve` exits with code 78"
        );
        problems.add(
            Problem::warning("exec-not-allowed", place, message)
                .help("start with `doorbell serve --allow-exec`, and validate with `--allow-exec`"),
        );
    }
}

/// Resolves the TLS tables of listeners, and adds the default listener if the engine would serve no
/// address, because it cannot start without one. Other tables open their addresses without the
/// engine.
fn listeners(config: &mut Config, problems: &Problems) {
    let names = Names::new(["tls", "unknown-tls"], config.tls.iter().map(|tls| &tls.name), problems);
    for listener in config.listeners.iter_mut() {
        listener.tls.take_if(|link| !names.find(link));
    }
    if config.listeners.is_empty() && config.agents.is_empty() && config.udp.is_empty() {
        config.listeners.push(Listener::local());
    }
}

/// Reports addresses that overlap, except with port 0, which selects a free port.
fn find_twice_bound(config: &Config, places: &Places, problems: &Problems) {
    let place = places.get("admin.bind").or_else(|| places.get("admin"));
    // An invalid address is already reported.
    let place = place.filter(|place| !problems.has_error_at(place));
    let admin = config.admin.iter().zip(place).map(|(admin, place)| (Bind::Tcp(admin.bind), place));
    find_overlapping(addresses::streams(config).chain(admin), problems);
    // UDP has ports of its own.
    let datagrams = addresses::datagrams(config);
    find_overlapping(datagrams.map(|at| (Bind::Tcp(at.value), at.span.clone())), problems);
}

fn find_overlapping(binds: impl Iterator<Item = (Bind, Range<usize>)>, problems: &Problems) {
    let mut known = Overlaps::default();
    for (bind, span) in binds {
        if let Some((first, at)) = known.add(&bind, &span) {
            problems.add(bound_twice(&bind, span, first, at.clone()));
        }
    }
}

/// The error for an address that overlaps `first`. `at` is empty if `first` is the address of the
/// default listener, which has no position in the file.
fn bound_twice(bind: &Bind, span: Range<usize>, first: &Bind, at: Range<usize>) -> Problem {
    let problem = |message| Problem::error("bound-twice", span, message);
    // Paths only overlap if they are the same file.
    let is_same = bind == first || matches!(bind, Bind::Unix(_));
    let what = if is_same { "is" } else { "overlaps" };
    match (at.is_empty(), is_same) {
        (true, _) => problem(format!("{bind} {what} the address of the built-in listener"))
            .help("give it another address, or add a [listener.NAME]"),
        (false, true) => problem(format!("{bind} is bound twice"))
            .also(at, "first here")
            .help("give one of them another address"),
        (false, false) => problem(format!("{bind} overlaps {first}"))
            .also(at, "first here")
            .help("give one of them another port, or remove the address that the other one includes"),
    }
}
