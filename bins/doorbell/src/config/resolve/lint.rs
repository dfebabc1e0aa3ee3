//! Warnings: what is allowed and probably not meant.
//!
//! Does not know about: errors; what is in the files that are named.

use super::super::bind::Bind;
use super::super::model::{Action, Config, Details, Lifecycle};
use super::super::written;
use super::health::PROBE_BODY_LEN_MAX;
use crate::http::router;
use doorbell_config::{At, Problem, Problems, format_duration, format_size, parse_duration};
use std::ops::Range;
use std::time::Duration;

/// What Kubernetes grants between SIGTERM and SIGKILL unless told otherwise.
const GRACE: Duration = Duration::from_secs(30);

/// What is allowed and probably not meant.
pub(super) fn lint(file: &written::File, config: &Config, grace: Option<&str>, problems: &Problems) {
    drain(file, config, grace, problems);
    listeners(file, config, problems);
    unused(file, config, problems);
    unused_checks(file, config, problems);
    for written in &file.routes {
        probes(written, config, problems);
        single_checks(written, config, problems);
        hsts(written, config, problems);
        push(written, config, problems);
        long_body(written, config, problems);
    }
}

/// A path for single checks where they are for nobody to see.
fn single_checks(written: &written::Route, config: &Config, problems: &Problems) {
    let Some(route) = config.routes.iter().find(|route| route.name == written.name.value) else { return };
    if !matches!(&route.action, Action::Health(health) if health.details == Details::Never) {
        return;
    }
    let asks = |path: &&At<String>| {
        router::param_names(&path.value).is_ok_and(|names| names.iter().any(|name| name == "check"))
    };
    if let Some(path) = written.paths.iter().flat_map(|paths| &paths.value).find(asks) {
        let message =
            format!("{:?} always gets 404: single checks are details, and nobody sees those", path.value);
        let help =
            "add `details = \"always\"`, or `details_auth = \"NAME\"` for whoever has one of its tokens";
        problems.add(Problem::warning("no-effect", path.span.clone(), message).help(help));
    }
}

/// Whoever ends us should not kill before the drain is over: known where a variable says so, and otherwise as Kubernetes does unless told
/// otherwise.
fn drain(file: &written::File, config: &Config, grace: Option<&str>, problems: &Problems) {
    let Lifecycle { drain_delay, drain_timeout, .. } = config.lifecycle;
    let places = ["lifecycle.drain_timeout", "lifecycle.drain_delay"].map(|key| file.places.get(key));
    // The defaults have no place in the file.
    let span = places.into_iter().flatten().next().unwrap_or(0..0);
    let told = grace.map(str::trim).filter(|grace| !grace.is_empty());
    let known =
        told.and_then(|grace| grace.parse().ok().map(Duration::from_secs).or_else(|| parse_duration(grace)));
    if let (Some(told), None) = (told, known) {
        let message = format!("TERMINATION_GRACE_PERIOD is {told:?}, which is no time");
        problems.add(
            Problem::warning("bad-grace", span.clone(), message).help("it is in seconds, as in a pod: 30"),
        );
    }
    if drain_delay + drain_timeout > known.unwrap_or(GRACE) {
        let sum = format_duration(drain_delay + drain_timeout);
        let help = match known {
            Some(grace) => format!(
                "TERMINATION_GRACE_PERIOD says that the end comes after {}: raise terminationGracePeriodSeconds, or lower `drain_delay` and `drain_timeout`",
                format_duration(grace)
            ),
            None => "Kubernetes kills after 30s unless terminationGracePeriodSeconds says more".to_owned(),
        };
        problems.add(Problem::warning("drain-too-long", span, format!("draining may take {sum}")).help(help));
    }
}

fn listeners(file: &written::File, config: &Config, problems: &Problems) {
    for (position, written) in file.listeners.iter().enumerate() {
        let listener = &config.listeners[position];
        // After another error a route may be missing here though it is written.
        let named = file.routes.iter().any(|route| match &route.listeners {
            Some(names) => names.value.iter().any(|name| name.value == written.name),
            None => true,
        });
        let place = |key: &str| file.places.get(&format!("listener.{}{key}", written.name));
        if listener.is_http() && !file.routes.is_empty() && !named {
            let message = format!("listener `{}` has no route and answers everything with 404", written.name);
            problems.add(
                Problem::warning("no-route", place("").unwrap_or_default(), message)
                    .help(format!("add a [route.NAME] with `listener = \"{}\"`", written.name)),
            );
        }
        if let (Some(cap), Some(place), Some(all)) = (
            written.limits.connections_per_ip,
            place(".limits.connections_per_ip"),
            config.runtime.max_connections,
        ) && cap > all
        {
            let message = "more connections for one address than for all of them";
            problems.add(
                Problem::warning("limit-too-high", place, message)
                    .help(format!("`max_connections` is {all}")),
            );
        }
    }
}

fn unused(file: &written::File, config: &Config, problems: &Problems) {
    for written in &file.health {
        let used = file
            .routes
            .iter()
            .any(|route| route.health.as_ref().is_some_and(|health| health.value == written.name));
        let grpc = file.grpc.iter();
        let endpoints =
            grpc.flat_map(|grpc| grpc.services.iter().map(|(_, link)| link).chain([&grpc.overall]));
        let agents = file.agents.iter().map(|agent| &agent.health);
        let gates = file.tcp_gates.iter().map(|gate| &gate.health);
        let used = used
            || endpoints.chain(agents).chain(gates).any(|link| link.name == written.name)
            // HAProxy may ask one such agent for any endpoint.
            || config.agents.iter().any(|agent| agent.select_by_send);
        let built_in = ["livez", "readyz"].contains(&&*written.name);
        if !used && !built_in {
            let message = format!("no route answers with health endpoint `{}`", written.name);
            problems.add(
                Problem::warning("unused-health", written.span.clone(), message)
                    .help(format!("add a [route.NAME] with `health = \"{}\"`", written.name)),
            );
        }
    }
    let report = |code, kind: &str, name: &str, span: &Range<usize>, help: String| {
        let message = format!("nothing uses [{kind}.{name}]");
        problems.add(Problem::warning(code, span.clone(), message).help(help));
    };
    for (position, written) in file.tls.iter().enumerate() {
        if !config
            .listeners
            .iter()
            .any(|listener| listener.tls.as_ref().is_some_and(|link| link.position == position))
        {
            let help = format!("add `tls = \"{}\"` to a [listener.NAME]", written.name);
            report("unused-tls", "tls", &written.name, &written.span, help);
        }
    }
    // After another error a route may be missing though it is written.
    for written in &file.auth {
        let name = &written.name;
        let names = |route: &written::Route| {
            let lists = route.auth.iter().chain(&route.details_auth);
            lists.flat_map(|names| &names.value).any(|given| given.value == *name)
        };
        if !file.routes.iter().any(names) {
            report(
                "unused-auth",
                "auth",
                name,
                &written.span,
                format!("add `auth = \"{name}\"` to a [route.NAME]"),
            );
        }
    }
    for written in &file.limits {
        let name = &written.value.name;
        let names = |route: &written::Route| route.limit.as_ref().is_some_and(|given| given.value == *name);
        if !file.routes.iter().any(names) {
            report(
                "unused-limit",
                "limit",
                name,
                &written.span,
                format!("add `limit = \"{name}\"` to a [route.NAME]"),
            );
        }
    }
}

/// Checks that say nothing to any endpoint, and those that nobody can tell anything.
fn unused_checks(file: &written::File, config: &Config, problems: &Problems) {
    let mut used = vec![false; config.checks.len()];
    for one in config.health.iter().flat_map(|health| &health.uses) {
        used[one.check] = true;
    }
    let takes_pushes = config.admin.is_some() || file.routes.iter().any(|route| route.push.is_some());
    for ((written, check), used) in file.checks.iter().zip(&config.checks).zip(used) {
        if !used {
            let message = format!("no health endpoint uses check `{}`", check.name);
            problems.add(
                Problem::warning("unused-check", written.name.span.clone(), message)
                    .help("list it in a [health.NAME], in `require`, `degrading` or `info`"),
            );
        }
        if matches!(written.kind, Some(written::Kind::Ttl { .. })) && !takes_pushes {
            let message = format!("nobody can tell how check `{}` is", check.name);
            problems.add(
                Problem::warning("no-push", written.name.span.clone(), message).help(
                    "add [admin], which takes POST /-/checks/NAME/pass, or a [route.NAME] with `path = \"/-/checks/{check}/{result}\"` and `push = true`",
                ),
            );
        }
    }
}

/// A route on which anybody in the network can say how a check is.
fn push(written: &written::Route, config: &Config, problems: &Problems) {
    let Some(route) = config.routes.iter().find(|route| route.name == written.name.value) else { return };
    let (Some(at), Action::Push, true) = (&written.push, &route.action, route.guard.auth.is_empty()) else {
        return;
    };
    let is_open = |listener: &usize| {
        let binds = config.listeners.get(*listener).map(|listener| &listener.binds);
        binds
            .into_iter()
            .flatten()
            .any(|bind| matches!(&bind.value, Bind::Tcp(addr) if !addr.ip().is_loopback()))
            && !config.needs_client_cert(*listener, route)
    };
    if route.listeners.iter().any(is_open) {
        let message = format!("route `{}` believes everybody who can connect", route.name);
        problems.add(
            Problem::warning("open-push", at.span.clone(), message)
                .help("add `auth = \"NAME\"`, or put it on a listener of 127.0.0.1"),
        );
    }
}

/// The last part of a path that is about health, in whatever capital letters.
const HEALTH_PATHS: [&str; 16] = [
    "alive",
    "health",
    "health-check",
    "healthcheck",
    "healthy",
    "healthz",
    "live",
    "liveness",
    "livez",
    "ping",
    "ready",
    "readyz",
    "started",
    "startup",
    "startupz",
    "status",
];

/// A fixed reply to probers of which they read only the start.
fn long_body(written: &written::Route, config: &Config, problems: &Problems) {
    let Some(body) = written.reply.as_ref().and_then(|reply| reply.body.as_ref()) else { return };
    let len_max = u64::from(PROBE_BODY_LEN_MAX);
    let Some(route) = config.routes.iter().find(|route| route.name == written.name.value) else { return };
    let is_probed = |path: &String| {
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        HEALTH_PATHS.iter().any(|known| last.eq_ignore_ascii_case(known))
    };
    let Some(path) = route.paths.iter().find(|path| is_probed(path)) else { return };
    if body.value.len() as u64 > len_max {
        let message = format!("`{path}` is answered with more than {}", format_size(len_max));
        problems.add(
            Problem::warning("long-body", body.span.clone(), message)
                .help("probers read no more: make it shorter, or answer with `health = \"livez\"`"),
        );
    }
}

/// The kubelet sends no credentials by itself, and can present no certificate at all.
fn probes(written: &written::Route, config: &Config, problems: &Problems) {
    let (Some(health), name) = (&written.health, &written.name.value) else { return };
    if let Some(auth) = written.auth.as_ref().filter(|auth| !auth.value.is_empty()) {
        let message = format!("health route `{name}` wants a token, which the kubelet does not send");
        problems.add(
            Problem::warning("auth-on-probe", auth.span.clone(), message)
                .also(health.span.clone(), "a probe")
                .help("set `httpHeaders` with `Authorization` in the probe, or make another route for whoever has a token"),
        );
    }
    let Some(route) = config.routes.iter().find(|route| route.name == *name) else { return };
    if route.listeners.iter().any(|&listener| config.needs_client_cert(listener, route)) {
        let wanted = written.client_cert.as_ref().map(|at| &at.span);
        let wanted = wanted.or_else(|| written.client_names.as_ref().map(|at| &at.span));
        let message = format!("health route `{name}` wants a certificate, which the kubelet cannot present");
        problems.add(
            Problem::warning("client-cert-on-probe", wanted.unwrap_or(&health.span).clone(), message)
                .help("set `client_cert = \"exempt\"` on this route"),
        );
    }
}

/// RFC 6797 7.2: the field must not be sent over plain HTTP, and clients ignore it there.
fn hsts(written: &written::Route, config: &Config, problems: &Problems) {
    let fields = written.headers.iter().chain(written.reply.iter().flat_map(|reply| &reply.headers));
    let mut fields = fields.filter(|(name, _)| name.value.eq_ignore_ascii_case("strict-transport-security"));
    let Some((field, _)) = fields.next() else { return };
    let Some(route) = config.routes.iter().find(|route| route.name == written.name.value) else { return };
    let plain = route.listeners.iter().filter(|&&position| config.tls_of(position).is_none()).min();
    if let Some(listener) = plain.and_then(|&position| config.listeners.get(position)) {
        let message = format!("listener `{}` is plain HTTP, where clients ignore this field", listener.name);
        problems.add(
            Problem::warning("hsts-on-plain", field.span.clone(), message)
                .help("set `hsts = \"max-age=63072000\"` in the [tls.NAME] of your TLS listeners instead"),
        );
    }
}
