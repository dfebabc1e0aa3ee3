//! From what was written to what can be used: defaults filled in, listeners and runtime checked against each other.
//!
//! Does not know about: TOML, routes (see `resolve_route`).

use super::bind::Bind;
use super::defaults::default_routes;
use super::model::{
    Config, Health, HealthState, Http1, Lifecycle, Listener, Log, Protocol, Runtime, Tcp, Timeouts,
};
use super::problem::{Problem, Problems};
use super::resolve_route::Resolver;
use super::section::At;
use super::units::format_duration;
use super::written;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

/// What Kubernetes grants between SIGTERM and SIGKILL unless told otherwise.
const GRACE: Duration = Duration::from_secs(30);

/// A configuration, complete even after problems; it is of use only when none of them is an error.
pub(crate) fn resolve(file: &written::File, problems: &Problems) -> Config {
    let runtime = resolve_runtime(&file.runtime);
    let mut listeners: Vec<Listener> =
        file.listeners.iter().map(|listener| resolve_listener(listener, problems)).collect();
    if listeners.is_empty() {
        listeners.push(Listener::default());
    }
    unify(&file.listeners, &mut listeners, problems);
    let health = resolve_health(&file.health);
    let resolver = Resolver { listeners: &listeners, health: &health, file, problems };
    let routes = match file.routes.is_empty() {
        true => default_routes(&listeners, &health),
        false => resolver.routes(),
    };
    let config = Config {
        runtime,
        log: Log {
            format: or(&file.log.format, Log::default().format),
            level: or(&file.log.level, Log::default().level),
        },
        lifecycle: Lifecycle {
            drain_delay: or(&file.lifecycle.drain_delay, Lifecycle::default().drain_delay),
            drain_timeout: or(&file.lifecycle.drain_timeout, Lifecycle::default().drain_timeout),
        },
        tuning: file.tuning.clone(),
        listeners,
        health,
        routes,
    };
    find_twice_bound(&file.listeners, problems);
    lint(file, &config, problems);
    config
}

fn or<T: Clone>(written: &Option<At<T>>, default: T) -> T {
    written.as_ref().map_or(default, |at| at.value.clone())
}

fn resolve_runtime(written: &written::Runtime) -> Runtime {
    let default = Runtime::default();
    Runtime {
        engine: or(&written.engine, default.engine),
        workers: written.workers.as_ref().map(|at| at.value),
        pin_cpus: or(&written.pin_cpus, default.pin_cpus),
        max_connections: written.max_connections.as_ref().map(|at| at.value),
        on_worker_failure: or(&written.on_worker_failure, default.on_worker_failure),
    }
}

fn resolve_listener(written: &written::Listener, problems: &Problems) -> Listener {
    if !written.has_bind {
        let message = format!("listener `{}` does not say where it listens", written.name.value);
        problems.add(
            Problem::error("missing-key", written.header.clone(), message)
                .help("add `bind = \"127.0.0.1:8080\"`"),
        );
    }
    let raw = written.raw.as_ref().is_some_and(|raw| raw.value);
    let protocol = if raw { resolve_raw(written, problems) } else { resolve_http1(written, problems) };
    let default = Timeouts::default();
    let timeouts = Timeouts {
        header: or(&written.timeouts.header, default.header),
        body: or(&written.timeouts.body, default.body),
        write: or(&written.timeouts.write, default.write),
        linger: or(&written.timeouts.linger, default.linger),
    };
    let default = Tcp::default();
    let speaks_first = matches!(protocol, Protocol::Raw { speaks_first: true, .. });
    Listener {
        name: written.name.value.clone(),
        binds: written.binds.iter().map(|bind| bind.value.clone()).collect(),
        protocol,
        timeouts,
        connections_per_ip: or(&written.limits.connections_per_ip, Listener::default().connections_per_ip),
        tcp: Tcp {
            backlog: or(&written.tcp.backlog, default.backlog),
            defer_accept: or(&written.tcp.defer_accept, default.defer_accept && !speaks_first),
            nodelay: or(&written.tcp.nodelay, default.nodelay),
            quickack: or(&written.tcp.quickack, default.quickack),
        },
    }
}

fn resolve_raw(written: &written::Listener, problems: &Problems) -> Protocol {
    let useless = |key: &str, span: Range<usize>| {
        problems.add(
            Problem::error("useless-key", span, format!("`{key}` has no meaning on a raw listener"))
                .help("remove it, or set `protocol = \"http1\"`"),
        );
    };
    if let Some(keep_alive) = &written.keep_alive {
        useless("keep_alive", keep_alive.span.clone());
    }
    let limits = &written.limits;
    if let Some(size) = &limits.header_bytes {
        useless("limits.header_bytes", size.span.clone());
    }
    if let Some(count) = &limits.headers {
        useless("limits.headers", count.span.clone());
    }
    if let Some(size) = &limits.body_bytes {
        useless("limits.body_bytes", size.span.clone());
    }
    let speaks_first = written.speaks_first.as_ref().is_some_and(|flag| flag.value);
    if let (true, Some(defer)) = (speaks_first, &written.tcp.defer_accept)
        && defer.value
    {
        let message = "a listener that speaks first cannot wait for the client's bytes";
        problems
            .add(Problem::error("contradiction", defer.span.clone(), message).help("remove `defer_accept`"));
    }
    if written.reply.is_none() {
        let message = format!("raw listener `{}` has no reply", written.name.value);
        problems.add(
            Problem::error("missing-key", written.header.clone(), message).help("add `reply = \"PONG\\n\"`"),
        );
    }
    Protocol::Raw { reply: or(&written.reply, String::new()), speaks_first }
}

fn resolve_http1(written: &written::Listener, problems: &Problems) -> Protocol {
    for (key, span) in [
        ("reply", written.reply.as_ref().map(|at| &at.span)),
        ("speaks_first", written.speaks_first.as_ref().map(|at| &at.span)),
    ] {
        if let Some(span) = span {
            let message = format!("`{key}` belongs to a raw listener");
            problems.add(
                Problem::error("useless-key", span.clone(), message)
                    .help("set `protocol = \"raw\"`, or answer HTTP with a [route.NAME]"),
            );
        }
    }
    let default = Http1::default();
    let keep_alive = written.keep_alive.as_ref();
    Protocol::Http1(Http1 {
        keep_alive: keep_alive.map_or(default.keep_alive, |at| or(&at.enabled, default.keep_alive)),
        idle: keep_alive.map_or(default.idle, |at| or(&at.idle, default.idle)),
        max_requests: keep_alive
            .map_or(default.max_requests, |at| or(&at.max_requests, default.max_requests)),
        header_bytes: or(&written.limits.header_bytes, default.header_bytes),
        headers: or(&written.limits.headers, default.headers),
        body_bytes: or(&written.limits.body_bytes, default.body_bytes),
    })
}

fn resolve_health(written: &[written::Health]) -> Vec<Health> {
    let mut health: Vec<Health> = written
        .iter()
        .map(|health| Health {
            name: health.name.value.clone(),
            initial: or(&health.initial, HealthState::Up),
        })
        .collect();
    for name in ["livez", "readyz"] {
        if !health.iter().any(|known| known.name == name) {
            health.push(Health { name: name.into(), initial: HealthState::Up });
        }
    }
    health
}

/// Three limits belong to the engine and not to a listener: written on one they hold on all, and may not differ.
fn unify(written: &[written::Listener], listeners: &mut [Listener], problems: &Problems) {
    let write =
        one_value("timeouts.write", written.iter().map(|listener| &listener.timeouts.write), problems);
    let linger =
        one_value("timeouts.linger", written.iter().map(|listener| &listener.timeouts.linger), problems);
    let per_ip = written.iter().map(|listener| &listener.limits.connections_per_ip);
    let per_ip = one_value("limits.connections_per_ip", per_ip, problems);
    for listener in listeners {
        listener.timeouts.write = write.unwrap_or(listener.timeouts.write);
        listener.timeouts.linger = linger.unwrap_or(listener.timeouts.linger);
        listener.connections_per_ip = per_ip.unwrap_or(listener.connections_per_ip);
    }
}

fn one_value<'a, T: Copy + PartialEq + 'a>(
    key: &str,
    values: impl Iterator<Item = &'a Option<At<T>>>,
    problems: &Problems,
) -> Option<T> {
    let mut values = values.flatten();
    let first = values.next()?;
    for other in values.filter(|other| other.value != first.value) {
        let message = format!("`{key}` must be the same on every listener");
        problems.add(
            Problem::error("contradiction", other.span.clone(), message)
                .also(first.span.clone(), "first here")
                .help("write it on one listener; it then holds on all of them"),
        );
    }
    Some(first.value)
}

/// The same address twice. Port 0 is another port each time.
fn find_twice_bound(listeners: &[written::Listener], problems: &Problems) {
    let mut known: HashMap<&Bind, &Range<usize>> = HashMap::new();
    for At { value: bind, span } in listeners.iter().flat_map(|listener| &listener.binds) {
        if matches!(bind, Bind::Tcp(addr) if addr.port() == 0) {
            continue;
        }
        if let Some(first) = known.insert(bind, span) {
            problems.add(
                Problem::error("bound-twice", span.clone(), format!("{bind} is bound twice"))
                    .also(first.clone(), "first here")
                    .help("give one of them another address"),
            );
        }
    }
}

fn lint(file: &written::File, config: &Config, problems: &Problems) {
    let Lifecycle { drain_delay, drain_timeout } = config.lifecycle;
    let longest = [&file.lifecycle.drain_timeout, &file.lifecycle.drain_delay];
    if let (Some(at), true) = (longest.into_iter().flatten().next(), drain_delay + drain_timeout > GRACE) {
        let sum = format_duration(drain_delay + drain_timeout);
        problems.add(
            Problem::warning("drain-too-long", at.span.clone(), format!("draining may take {sum}"))
                .help("Kubernetes kills after 30s unless terminationGracePeriodSeconds says more"),
        );
    }
    for (position, written) in file.listeners.iter().enumerate() {
        let is_http1 = matches!(config.listeners[position].protocol, Protocol::Http1(_));
        // After another error a route may be missing here though it is written.
        let named = file.routes.iter().any(|route| match &route.listeners {
            Some(names) => names.value.iter().any(|name| name.value == written.name.value),
            None => true,
        });
        if is_http1 && !file.routes.is_empty() && !named {
            let message =
                format!("listener `{}` has no route and answers everything with 404", written.name.value);
            problems.add(
                Problem::warning("no-route", written.header.clone(), message)
                    .help(format!("add a [route.NAME] with `listener = \"{}\"`", written.name.value)),
            );
        }
        if let Some(cap) = &written.limits.connections_per_ip
            && let Some(all) = config.runtime.max_connections
            && cap.value > all
        {
            let message = "more connections for one address than for all of them";
            problems.add(
                Problem::warning("limit-too-high", cap.span.clone(), message)
                    .help(format!("`max_connections` is {all}")),
            );
        }
    }
    for written in &file.health {
        let used = file
            .routes
            .iter()
            .any(|route| route.health.as_ref().is_some_and(|health| health.value == written.name.value));
        let built_in = ["livez", "readyz"].contains(&&*written.name.value);
        if !used && !built_in {
            let message = format!("no route answers with health endpoint `{}`", written.name.value);
            problems.add(
                Problem::warning("unused-health", written.name.span.clone(), message)
                    .help(format!("add a [route.NAME] with `health = \"{}\"`", written.name.value)),
            );
        }
    }
}
