//! Resolves what checks of type `alias` follow, and refuses checks that follow themselves.

use super::super::model::Config;
use doorbell_checks::options::{Followed, cycles};
use doorbell_config::{At, Names, Places, Problem, Problems};

/// The checks and endpoints of this instance that alias checks follow.
pub(super) fn followed_subjects(config: &Config) -> impl Iterator<Item = Followed<'_>> {
    config.checks.iter().filter_map(|check| check.kind.followed())
}

/// Reports followed checks and endpoints that do not exist, and cycles. The checks of endpoints
/// must already be resolved.
pub(super) fn resolve(config: &Config, endpoints: &Names<'_>, places: &Places, problems: &Problems) {
    let checks = config.checks.iter().map(|check| &check.name);
    let checks = Names::new(["check", "unknown-check"], checks, problems);
    let count = config.checks.len();
    let mut followed = vec![None; count];
    for (check, node) in config.checks.iter().zip(&mut followed) {
        let (key, target, names) = match check.kind.followed() {
            Some(Followed::Check(name)) => ("check", name, &checks),
            Some(Followed::Endpoint(name)) => ("health", name, endpoints),
            None => continue,
        };
        // A key has no position only if another problem of the check is already reported.
        let Some(span) = places.key(["check", &check.name, key]) else { continue };
        let base = if key == "check" { 0 } else { count };
        *node = names.position(&At { value: target.to_owned(), span }).map(|at| base + at);
    }
    if followed.iter().all(Option::is_none) {
        return;
    }
    let next = |node: usize| match node.checked_sub(count) {
        None => followed[node].into_iter().collect(),
        Some(endpoint) => config.health[endpoint].uses.iter().map(|one| one.check).collect(),
    };
    for mut cycle in cycles(count + config.health.len(), next) {
        // Endpoints contain only checks, so every cycle contains a check.
        let first = cycle.iter().position(|node| *node < count).unwrap_or_default();
        cycle.rotate_left(first);
        report(config, &cycle, places, problems);
    }
}

fn report(config: &Config, cycle: &[usize], places: &Places, problems: &Problems) {
    let count = config.checks.len();
    let name = |node: &usize| match node.checked_sub(count) {
        None => Followed::Check(&config.checks[*node].name).to_string(),
        Some(endpoint) => Followed::Endpoint(&config.health[endpoint].name).to_string(),
    };
    let path: Vec<String> = cycle.iter().chain(cycle.first()).map(name).collect();
    let Some(check) = cycle.first().map(|first| &config.checks[*first].name) else { return };
    let place = ["check", "health"].into_iter().find_map(|key| places.key(["check", check, key]));
    let message = format!("check `{check}` follows itself: {}", path.join(" -> "));
    let help = match cycle.iter().find_map(|node| config.health.get(node.checked_sub(count)?)) {
        Some(endpoint) => format!("list the checks of [health.{}] without `{check}`", endpoint.name),
        None => "follow an endpoint, or a check that is not an alias".to_owned(),
    };
    problems.add(Problem::error("alias-cycle", place.unwrap_or_default(), message).help(help));
}
