//! Warnings about valid settings that are probably not intended.

use super::super::bind::Bind;
use super::super::model::{Action, Config, Details, Lifecycle, Listener, Route, Udp};
use super::alias::followed_subjects;
use super::health::PROBE_BODY_LEN_MAX;
use doorbell::http::router;
use doorbell_checks::options::{CheckKind, Followed};
use doorbell_config::{At, Link, Places, Problem, Problems, format_duration, format_size, parse_duration};
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

/// Default time between SIGTERM and SIGKILL in Kubernetes.
const GRACE: Duration = Duration::from_secs(30);

/// Reports valid settings that are probably not intended.
pub(super) fn lint(config: &Config, places: &Places, grace: Option<&str>, problems: &Problems) {
    drain(config, places, grace, problems);
    listeners(config, places, problems);
    connections(config, places, problems);
    unused_health(config, places, problems);
    unused(config, places, problems);
    unused_checks(config, places, problems);
    for route in &config.routes {
        let at = OfRoute { route, config, places, problems };
        at.probes();
        at.single_checks();
        at.hsts();
        at.push();
        at.long_body();
    }
}

/// Reports a drain that is longer than the time between SIGTERM and SIGKILL: the value of
/// `TERMINATION_GRACE_PERIOD`, or the default of Kubernetes.
fn drain(config: &Config, places: &Places, grace: Option<&str>, problems: &Problems) {
    let Lifecycle { drain_delay, drain_timeout, .. } = config.lifecycle;
    let places = ["lifecycle.drain_timeout", "lifecycle.drain_delay"].map(|key| places.get(key));
    // Defaults have no position in the file.
    let span = places.into_iter().flatten().next().unwrap_or(0..0);
    let value = grace.map(str::trim).filter(|grace| !grace.is_empty());
    let known =
        value.and_then(|grace| grace.parse().ok().map(Duration::from_secs).or_else(|| parse_duration(grace)));
    if let (Some(value), None) = (value, known) {
        let message = format!("TERMINATION_GRACE_PERIOD is {value:?}, which is not a duration");
        problems
            .add(Problem::warning("bad-grace", span.clone(), message).help("write seconds, as in a pod: 30"));
    }
    if drain_delay + drain_timeout > known.unwrap_or(GRACE) {
        let sum = format_duration(drain_delay + drain_timeout);
        let help = match known {
            Some(grace) => format!(
                "TERMINATION_GRACE_PERIOD is {}: raise terminationGracePeriodSeconds, or lower `drain_delay` and `drain_timeout`",
                format_duration(grace)
            ),
            None => "Kubernetes kills the container after 30s unless terminationGracePeriodSeconds is larger"
                .to_owned(),
        };
        problems.add(Problem::warning("drain-too-long", span, format!("draining may take {sum}")).help(help));
    }
}

fn listeners(config: &Config, places: &Places, problems: &Problems) {
    for (position, listener) in config.listeners.iter().enumerate() {
        let named = config.routes.iter().any(|route| {
            // After an error, the listeners of a route may be missing from the model.
            route.listeners.is_empty() || route.is_on(position)
        });
        let name = &listener.name;
        let place = |key: &str| places.get(&format!("listener.{name}{key}"));
        if listener.is_http() && places.get("route").is_some() && !named {
            let message = format!("listener `{name}` has no route and replies to every request with 404");
            problems.add(
                Problem::warning("no-route", place("").unwrap_or_default(), message)
                    .help(format!("add a [route.NAME] with `listener = \"{name}\"`")),
            );
        }
    }
}

fn connections(config: &Config, places: &Places, problems: &Problems) {
    if let (Some(cap), Some(place), Some(all)) =
        (config.connections.per_ip_max, places.get("connections.per_ip_max"), config.runtime.max_connections)
        && cap > all
    {
        let message = "the limit of one address exceeds the limit of all connections";
        problems.add(
            Problem::warning("limit-too-high", place, message).help(format!("`max_connections` is {all}")),
        );
    }
}

/// Reports endpoints that no client can request and no check follows. A configuration without
/// routes has built-in routes for `livez` and `readyz`; any route in the file removes these routes.
fn unused_health(config: &Config, places: &Places, problems: &Problems) {
    let has_overall = places.get("grpc.overall").is_some()
        || config.grpc.enabled && config.listeners.iter().any(Listener::has_http2);
    for endpoint in &config.health {
        let name = &*endpoint.name;
        let names = |link: &At<Link>| link.name == name;
        let overall = has_overall.then_some(&config.grpc.overall);
        let services = config.grpc.services.iter().map(|(_, link)| link).chain(overall);
        let agents = config.agents.iter().map(|agent| &agent.health);
        let gates = config.tcp_gates.iter().map(|gate| &gate.health);
        let routes = config.routes.iter().filter_map(|route| route.health.as_ref());
        let datagrams = config.udp.iter().filter_map(Udp::follows);
        let used = services.chain(agents).chain(gates).chain(datagrams).chain(routes).any(names)
            // With `select_by_send`, HAProxy can select any endpoint by name.
            || config.agents.iter().any(|agent| agent.select_by_send)
            || followed_subjects(config).any(|followed| followed == Followed::Endpoint(name));
        // An endpoint without a table is not reported: its checks may exist for metrics only.
        let is_written = places.get(&format!("health.{name}")).is_some();
        if is_written && !used {
            let message = format!("no route reports health endpoint `{name}`");
            let mut help = format!("add a [route.NAME] with `health = \"{name}\"`");
            if ["livez", "readyz"].contains(&name) {
                help.push_str("; its built-in route exists only in a configuration without routes");
            }
            let place = places.name(["health", name]);
            problems.add(Problem::warning("unused-health", place, message).help(help));
        }
    }
}

fn unused(config: &Config, places: &Places, problems: &Problems) {
    let report = |code, kind: &str, name: &str, help: String| {
        let message = format!("nothing uses [{kind}.{name}]");
        problems.add(Problem::warning(code, places.name([kind, name]), message).help(help));
    };
    for (position, written) in config.tls.iter().enumerate() {
        if !config
            .listeners
            .iter()
            .any(|listener| listener.tls.as_ref().is_some_and(|link| link.position == position))
        {
            let help = format!("add `tls = \"{}\"` to a [listener.NAME]", written.name);
            report("unused-tls", "tls", &written.name, help);
        }
    }
    for written in &config.auth {
        let name = &written.name;
        let names =
            |route: &Route| route.auth.iter().chain(&route.details_auth).any(|link| link.name == *name);
        if !config.routes.iter().any(names) {
            report("unused-auth", "auth", name, format!("add `auth = \"{name}\"` to a [route.NAME]"));
        }
    }
    for written in &config.limits {
        let name = &written.name;
        let names = |route: &Route| route.limit.as_ref().is_some_and(|link| link.name == *name);
        if !config.routes.iter().any(names) {
            report("unused-limit", "limit", name, format!("add `limit = \"{name}\"` to a [route.NAME]"));
        }
    }
}

/// Reports checks that no endpoint uses and no check follows, and checks of type ttl without a
/// source of results.
fn unused_checks(config: &Config, places: &Places, problems: &Problems) {
    let mut used = vec![false; config.checks.len()];
    for one in config.health.iter().flat_map(|health| &health.uses) {
        used[one.check] = true;
    }
    let followed = followed_subjects(config).filter_map(|followed| match followed {
        Followed::Check(name) => Some(name),
        Followed::Endpoint(_) => None,
    });
    let followed: HashSet<&str> = followed.collect();
    let takes_pushes = config.admin.is_some() || config.routes.iter().any(|route| route.push.is_some());
    for (check, used) in config.checks.iter().zip(used) {
        let place = || places.name(["check", &check.name]);
        if !used && !followed.contains(&*check.name) {
            let message = format!("no health endpoint uses check `{}`", check.name);
            problems.add(
                Problem::warning("unused-check", place(), message)
                    .help("list it in a [health.NAME], in `require`, `degrading` or `info`"),
            );
        }
        let is_pushed =
            matches!(check.kind, CheckKind::Ttl(_)) && places.key(["check", &check.name, "ttl"]).is_some();
        if is_pushed && !takes_pushes {
            let message = format!("check `{}` has no source of results", check.name);
            problems.add(
                Problem::warning("no-push", place(), message).help(
                    "add [admin], which takes POST /-/checks/NAME/pass, or a [route.NAME] with `path = \"/-/checks/{check}/{result}\"` and `push = true`",
                ),
            );
        }
    }
}

/// Last segments of health paths, in lower case.
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

/// The context of warnings about one route.
struct OfRoute<'a> {
    route: &'a Route,
    config: &'a Config,
    places: &'a Places,
    problems: &'a Problems,
}

impl OfRoute<'_> {
    fn place(&self, key: &str) -> Option<Range<usize>> {
        self.places.key(["route", &self.route.name, key])
    }

    fn warn(&self, code: &'static str, place: Range<usize>, message: String, help: &str) {
        self.problems.add(Problem::warning(code, place, message).help(help));
    }

    /// Reports a path for single checks on a route where no client sees details.
    fn single_checks(&self) {
        if !matches!(self.route.action(), Action::Health(health) if health.details == Details::Never) {
            return;
        }
        let names_check = |path: &&At<String>| {
            router::param_names(path).is_ok_and(|names| names.iter().any(|name| name == "check"))
        };
        if let Some(path) = self.route.paths.iter().find(names_check).filter(|path| !path.span.is_empty()) {
            let message = format!("{:?} always gets 404: no client sees details", path.value);
            let help =
                "add `details = \"always\"`, or `details_auth = \"NAME\"` for clients with one of its tokens";
            self.warn("no-effect", path.span.clone(), message, help);
        }
    }

    /// Reports a push route without authentication on an address that other machines can reach.
    fn push(&self) {
        let Self { route, config, .. } = self;
        let Some(place) = self.place("push").filter(|_| matches!(route.action(), Action::Push)) else {
            return;
        };
        let is_open = |listener: usize| {
            let binds = config.listeners.get(listener).map(|listener| &listener.binds);
            let mut binds = binds.into_iter().flatten();
            binds.any(|bind| matches!(&bind.value, Bind::Tcp(addr) if !addr.ip().is_loopback()))
                && !config.needs_client_cert(listener, route)
        };
        if route.auth.is_empty() && route.positions().any(is_open) {
            let message =
                format!("route `{}` accepts results from every client that can connect", route.name);
            let help = "add `auth = \"NAME\"`, or serve the route on a listener of 127.0.0.1 only";
            self.warn("open-push", place, message, help);
        }
    }

    /// Reports a fixed reply of a health path that is longer than what probers read.
    fn long_body(&self) {
        let Some(place) = self.place("reply.body") else { return };
        let len_max = u64::from(PROBE_BODY_LEN_MAX);
        let is_probed = |path: &&At<String>| {
            let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            HEALTH_PATHS.iter().any(|known| last.eq_ignore_ascii_case(known))
        };
        let Some(path) = self.route.paths.iter().find(is_probed) else { return };
        if self.route.reply.as_ref().is_some_and(|reply| reply.body.len() as u64 > len_max) {
            let message = format!("the reply to `{}` is longer than {}", path.value, format_size(len_max));
            let help = "probers read only the start: shorten it, or reply with `health = \"livez\"`";
            self.warn("long-body", place, message, help);
        }
    }

    /// Reports health routes that require a token, which a kubelet sends only if configured, or a
    /// client certificate, which a kubelet cannot present.
    fn probes(&self) {
        let Self { route, config, .. } = self;
        let (Some(health), name) = (&route.health, &route.name) else { return };
        let Some(health_place) = self.place("health") else { return };
        if let Some(place) = self.place("auth").filter(|_| !route.auth.is_empty()) {
            let message = format!("health route `{name}` requires a token, which the kubelet does not send");
            self.problems.add(
                Problem::warning("auth-on-probe", place, message)
                    .also(health.span.clone(), "a probe")
                    .help("set `httpHeaders` with `Authorization` in the probe, or add another route for clients with a token"),
            );
        }
        if route.positions().any(|listener| config.needs_client_cert(listener, route)) {
            let cert_key = self.place("client_cert").or_else(|| self.place("client_names"));
            let message =
                format!("health route `{name}` requires a certificate, which the kubelet cannot present");
            let help = "set `client_cert = \"exempt\"` on this route";
            self.warn("client-cert-on-probe", cert_key.unwrap_or(health_place), message, help);
        }
    }

    /// Reports `Strict-Transport-Security` on plain HTTP, where servers must not send it and
    /// clients ignore it (RFC 6797 7.2, 8.1).
    fn hsts(&self) {
        let Self { route, config, .. } = self;
        let mut fields = route.written_fields();
        let field = fields.find(|(name, _)| name.eq_ignore_ascii_case("strict-transport-security"));
        let Some((field, _)) = field else { return };
        let plain = route.positions().filter(|&position| config.tls_of(position).is_none()).min();
        if let Some(listener) = plain.and_then(|position| config.listeners.get(position)) {
            let message =
                format!("listener `{}` is plain HTTP, where clients ignore this field", listener.name);
            let help = "set `hsts = \"max-age=63072000\"` in the [tls.NAME] of your TLS listeners instead";
            self.warn("hsts-on-plain", field.span.clone(), message, help);
        }
    }
}
