//! Warnings of containers that are restarted on purpose: a liveness or startup probe that fails in a drain or in maintenance.
//!
//! Does not know about: errors; what else a probe is told.

use super::super::model::{Action, Config, Health, OnDrain, Role};
use super::super::written;
use doorbell_config::{At, Link, Problem, Problems};
use doorbell_health::Audience;

pub(super) fn lint(file: &written::File, config: &Config, problems: &Problems) {
    for written in &file.routes {
        drains(written, config, problems);
    }
    for name in config.maintenance.windows.iter().flat_map(|window| &window.endpoints) {
        window(name, config, problems);
    }
}

/// What a path is probed for: its last part that is no parameter says so.
fn role_of(path: &str) -> Role {
    let mut parts = path.trim_end_matches('/').rsplit('/');
    let last = parts.find(|part| !part.starts_with('{')).unwrap_or_default();
    Role::of(last)
}

/// The path by which a route is probed for something that is restarted when it fails.
fn restarting_path(paths: &[String]) -> Option<&String> {
    paths.iter().find(|path| role_of(path) != Role::Readiness)
}

/// Whether a kubelet is told of a drain by a status that is a failure.
fn fails_in_drain(health: &Health) -> bool {
    let code = match health.on_drain()[Audience::Kubelet as usize] {
        OnDrain::Code(code) => code,
        OnDrain::Ignore => return false,
        OnDrain::Report => health.status.drain,
    };
    code >= 400
}

fn drains(written: &written::Route, config: &Config, problems: &Problems) {
    let Some(at) = &written.health else { return };
    let Some(route) = config.routes.iter().find(|route| route.name == written.name.value) else { return };
    let Action::Health(answer) = &route.action else { return };
    let (Some(health), Some(path)) = (config.health.get(answer.endpoint), restarting_path(&route.paths))
    else {
        return;
    };
    if fails_in_drain(health) {
        let name = &health.name;
        let message = format!("`{path}` fails in a drain, as `{name}` does: the container is restarted");
        problems.add(Problem::warning("liveness-drains", at.span.clone(), message).help(format!(
            "answer with `health = \"livez\"`, or add `on_drain = {{ kubelet = \"ignore\" }}` to [health.{name}]"
        )));
    }
}

fn window(link: &At<Link>, config: &Config, problems: &Problems) {
    let Some(position) = config.health.iter().position(|health| health.name == link.name) else { return };
    let health = &config.health[position];
    let is_asked = |action: &Action| matches!(action, Action::Health(answer) if answer.endpoint == position);
    let mut routes = config.routes.iter().filter(|route| is_asked(&route.action));
    let path = routes.find_map(|route| restarting_path(&route.paths));
    if (path.is_none() && Health::is_readiness(&health.name)) || health.status.maintenance < 400 {
        return;
    }
    let message = match path {
        Some(path) => {
            format!("`{path}` fails in this window, as `{}` does: the container is restarted", link.name)
        }
        None => format!("`{}` fails in this window: what probes it restarts the container", link.name),
    };
    problems.add(
        Problem::warning("liveness-maintenance", link.span.clone(), message)
            .help("remove it from `endpoints`; maintenance is for endpoints that are about taking traffic"),
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
