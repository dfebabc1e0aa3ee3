//! Validates `[shared]`, and the checks and limits that instances share.

use super::super::model::Config;
use doorbell_checks::options::Check;
use doorbell_config::{Places, Problem, Problems};

pub(super) fn lint(config: &Config, places: &Places, problems: &Problems) {
    for check in config.checks.iter().filter(|check| check.share) {
        let place = || {
            let key = places.key(["check", &check.name, "share"]);
            key.unwrap_or_else(|| places.name(["check", &check.name]))
        };
        if let Some((message, help)) = refused(check) {
            problems.add(Problem::error("not-shareable", place(), message).help(help));
        } else if config.shared.is_none() {
            let problem =
                Problem::error("missing-table", place(), "a shared check needs the store in [shared]");
            problems.add(problem.help("add [shared] with `redis`"));
        }
    }
    for limit in config.limits.iter().filter(|limit| limit.shared.is_some() && config.shared.is_none()) {
        let place = places.name(["limit", &limit.name]);
        let problem = Problem::error("missing-table", place, "a shared limit needs the store in [shared]");
        problems.add(problem.help("add [shared] with `redis`"));
    }
    let has_limits = config.limits.iter().any(|limit| limit.shared.is_some());
    let is_used = |announce: bool| announce || has_limits || config.checks.iter().any(|check| check.share);
    if let Some(shared) = config.shared.as_ref().filter(|shared| !is_used(shared.announce)) {
        let message = format!("nothing uses the store at {}", shared.redis.value);
        let problem = Problem::warning("no-effect", shared.redis.span.clone(), message);
        problems.add(
            problem.help("set `share` in a check, `shared` in a limit, or `announce`, or remove [shared]"),
        );
    }
}

/// Why a check cannot be shared, and what to do.
fn refused(check: &Check) -> Option<(&'static str, &'static str)> {
    if check.kind.is_local_alias() {
        return Some((
            "a check that follows a state of this instance cannot be shared",
            "share what it follows",
        ));
    }
    let is_on_demand = check.pace.cache.is_some();
    is_on_demand.then_some(("a check that probes trigger cannot be shared", "remove `cache`, or `share`"))
}
