//! Warnings: liveness or startup probes that fail during a drain or maintenance and would cause a
//! restart.

use super::super::model::{Config, Health, OnDrain, Role, Route};
use doorbell_config::{At, Link, Problem, Problems};
use doorbell_health::Audience;

pub(super) fn lint(config: &Config, problems: &Problems) {
    for route in &config.routes {
        drains(route, config, problems);
    }
    for name in config.maintenance.windows.iter().flat_map(|window| &window.endpoints) {
        window(name, config, problems);
    }
}

/// Role of a path, by its last segment that is not a parameter.
fn role_of(path: &str) -> Role {
    let mut parts = path.trim_end_matches('/').rsplit('/');
    let last = parts.find(|part| !part.starts_with('{')).unwrap_or_default();
    Role::of(last)
}

/// The first of these paths that is for liveness or startup probes.
fn restarting_path(paths: &[At<String>]) -> Option<&String> {
    paths.iter().map(|path| &path.value).find(|path| role_of(path) != Role::Readiness)
}

/// Whether a kubelet gets a failure status during a drain.
fn fails_in_drain(health: &Health) -> bool {
    let code = match health.on_drain()[Audience::Kubelet as usize] {
        OnDrain::Code(code) => code,
        OnDrain::Ignore => return false,
        OnDrain::Report => health.status.drain,
    };
    code >= 400
}

fn drains(route: &Route, config: &Config, problems: &Problems) {
    // A default route has no position in the file.
    let Some(at) = route.health.as_ref().filter(|link| !link.span.is_empty()) else { return };
    let (Some(health), Some(path)) = (config.health.get(at.position), restarting_path(&route.paths)) else {
        return;
    };
    if fails_in_drain(health) {
        let name = &health.name;
        let message = format!("`{path}` fails in a drain, as `{name}` does: the container is restarted");
        problems.add(Problem::warning("liveness-drains", at.span.clone(), message).help(format!(
            "reply with `health = \"livez\"`, or add `on_drain = {{ kubelet = \"ignore\" }}` to [health.{name}]"
        )));
    }
}

fn window(link: &At<Link>, config: &Config, problems: &Problems) {
    let Some(position) = config.health.iter().position(|health| health.name == link.name) else { return };
    let health = &config.health[position];
    let is_probed = |route: &&Route| route.health.as_ref().is_some_and(|link| link.position == position);
    let mut routes = config.routes.iter().filter(is_probed);
    let path = routes.find_map(|route| restarting_path(&route.paths));
    if (path.is_none() && Health::is_readiness(&health.name)) || health.status.maintenance < 400 {
        return;
    }
    let message = match path {
        Some(path) => {
            format!("`{path}` fails in this window, as `{}` does: the container is restarted", link.name)
        }
        None => format!("`{}` fails in this window: its prober restarts the container", link.name),
    };
    problems.add(
        Problem::warning("liveness-maintenance", link.span.clone(), message)
            .help("remove it from `endpoints`; maintenance is for readiness endpoints"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (path, expected) in [
            ("/livez", Role::Liveness),
            ("/livez/{check}", Role::Liveness),
            ("/health/live", Role::Liveness),
            ("/actuator/health/liveness/", Role::Liveness),
            ("/app-live", Role::Liveness),
            ("/q/health/started", Role::Startup),
            ("/startup", Role::Startup),
            ("/readyz", Role::Readiness),
            ("/live/videos", Role::Readiness),
            ("/{any}", Role::Readiness),
            ("/", Role::Readiness),
        ] {
            assert_eq!(role_of(path), expected, "{path}");
        }
    }
}
