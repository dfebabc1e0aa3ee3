//! Resolves the checks of `[health.NAME]`, with severity, weight and status code.

use super::super::model::{CheckUse, DegradedVia, Health, QuorumOf};
use doorbell_checks::options::Check;
use doorbell_config::{At, Link, Named, Names, Places, Problem, Problems, format_size};
use doorbell_health::Severity;
use doorbell_health::limits::ENDPOINTS_MAX;

/// Maximum size of a body that every prober reads in full; Google Cloud reads 1024 bytes.
pub(super) const PROBE_BODY_LEN_MAX: u32 = 1024;

/// Resolves all endpoints, and adds `livez` and `readyz` if they are missing.
pub(super) fn resolve(health: &mut Named<Health>, checks: &[Check], places: &Places, problems: &Problems) {
    let names = Names::new(["check", "unknown-check"], checks.iter().map(|check| &check.name), problems);
    for one in health.iter_mut() {
        find_checks(one, checks, &names);
        lint(one, places, problems);
    }
    let mut missing = vec!["livez", "readyz"];
    missing.retain(|name| !health.iter().any(|known| known.name == *name));
    if let Some(extra) = health.get(ENDPOINTS_MAX - missing.len()) {
        let message = format!("more than {ENDPOINTS_MAX} endpoints, with `livez` and `readyz`");
        let problem = Problem::error("out-of-range", places.name(["health", &extra.name]), message);
        problems.add(problem.help("distribute them over several instances"));
    }
    for name in missing {
        health.push(Health { uses: default_uses(name, checks), ..Health::named(name) });
    }
}

/// Checks of an endpoint without lists: for `readyz` every check with its severity, otherwise none.
fn default_uses(name: &str, checks: &[Check]) -> Vec<CheckUse> {
    let mut uses = Vec::new();
    if name == "readyz" {
        for severity in [Severity::Required, Severity::Degrading, Severity::Info] {
            let of_it = checks.iter().enumerate().filter(|(_, check)| check.severity == severity);
            uses.extend(of_it.map(|(position, _)| CheckUse::new(position, severity)));
        }
    }
    uses
}

fn find_checks(health: &mut Health, checks: &[Check], names: &Names<'_>) {
    let mut reader = Reader { checks, names, uses: Vec::new(), spans: Vec::new() };
    let mut is_listed = false;
    for (list, severity) in [
        (&mut health.require, Severity::Required),
        (&mut health.degrading, Severity::Degrading),
        (&mut health.info, Severity::Info),
    ] {
        is_listed |= list.is_some();
        list.iter_mut().flatten().for_each(|link| reader.list(link, severity));
    }
    match &mut health.quorum {
        Some(quorum) => reader.quorum(quorum),
        None if !is_listed => reader.uses = default_uses(&health.name, checks),
        None => {}
    }
    for (name, weight) in health.weight.iter() {
        if let Some(one) = reader.used(name) {
            one.weight = weight.value;
        }
    }
    for (name, code) in health.status.by_check.iter() {
        if let Some(one) = reader.used(name) {
            one.code = Some(code.value);
        }
    }
    health.uses = reader.uses;
}

/// Reports keys without effect, and a `max_body` beyond the bytes that probers read.
fn lint(health: &Health, places: &Places, problems: &Problems) {
    let Health { name, uses, .. } = health;
    let warn = |key: &str, code: &'static str, message: String, help: &str| {
        let place = places.get(&format!("health.{name}.{key}"));
        if let Some(place) = place.filter(|place| !problems.has_error_at(place)) {
            problems.add(Problem::warning(code, place, message).help(help));
        }
    };
    let no_effect = |key: &str, message: String, help: &str| warn(key, "no-effect", message, help);
    if !uses.is_empty() {
        let message = format!("`initial` has no effect: `{name}` has checks");
        no_effect("initial", message, "remove `initial`, or set it in the [check.NAME] tables");
    }
    let shows_degraded = [
        ("envoy_degraded", health.envoy_degraded),
        ("degraded_via", health.degraded_via == DegradedVia::KubeWarning),
    ];
    for (key, _) in
        shows_degraded.into_iter().filter(|(_, shows_degraded)| *shows_degraded && uses.is_empty())
    {
        let help = format!("remove `{key}`, or list checks in `require` or `degrading`");
        no_effect(key, format!("`{name}` has no checks, so it is never degraded"), &help);
    }
    if health.fail_open.is_some()
        && health.quorum().is_none()
        && !uses.iter().any(|one| one.severity == Severity::Required)
    {
        let message = format!("`{name}` requires no checks, so it never fails open");
        no_effect("fail_open.max_age", message, "remove `fail_open`");
    }
    if health.endpoint_weight && !uses.iter().any(|one| one.weight > 0) {
        let message = format!("no check of `{name}` has a weight, so no weight is sent");
        no_effect("endpoint_weight", message, "add `weight = { NAME = 100 }`, or remove `endpoint_weight`");
    }
    if health.max_body > PROBE_BODY_LEN_MAX {
        let max = format_size(PROBE_BODY_LEN_MAX.into());
        let help = "load balancers of Google Cloud read at most 1KiB, Docker and the kubelet little more: lower `max_body`";
        warn("max_body", "long-body", format!("a body of `{name}` may be longer than {max}"), help);
    }
}

struct Reader<'a> {
    checks: &'a [Check],
    names: &'a Names<'a>,
    uses: Vec<CheckUse>,
    /// Position of each use in the file.
    spans: Vec<std::ops::Range<usize>>,
}

impl Reader<'_> {
    fn list(&mut self, link: &mut At<Link>, severity: Severity) {
        if !self.names.find(link) {
            return;
        }
        if let Some(first) = self.uses.iter().position(|one| one.check == link.position) {
            let message = format!("check `{}` is listed twice", link.name);
            let problem = Problem::error("contradiction", link.span.clone(), message);
            let first = self.spans.get(first).cloned().unwrap_or(0..0);
            self.names.problems.add(problem.also(first, "first here").help("remove one of them"));
            return;
        }
        self.uses.push(CheckUse::new(link.position, severity));
        self.spans.push(link.span.clone());
    }

    /// Adds the members of the quorum. A member that is in no other list counts as degrading, or as
    /// informational if its severity is `info`.
    fn quorum(&mut self, quorum: &mut QuorumOf) {
        let mut members = 0;
        for link in &mut quorum.of {
            if !self.names.find(link) {
                continue;
            }
            let check = link.position;
            let at = match self.uses.iter().position(|one| one.check == check) {
                Some(at) => at,
                None => {
                    let severity = match self.checks.get(check).map(|check| check.severity) {
                        Some(Severity::Info) => Severity::Info,
                        _ => Severity::Degrading,
                    };
                    self.list(link, severity);
                    self.uses.len() - 1
                }
            };
            if std::mem::replace(&mut self.uses[at].in_quorum, true) {
                let message = format!("check `{}` is in the quorum twice", link.name);
                let problem = Problem::error("contradiction", link.span.clone(), message);
                self.names.problems.add(problem.help("remove one of them"));
            } else {
                members += 1;
            }
        }
        let Some(min) = &quorum.min else { return };
        if min.min(members) > members && members > 0 {
            let message = format!("`min` is larger than the quorum, which has {members} checks");
            let problem = Problem::error("out-of-range", min.span.clone(), message);
            self.names.problems.add(problem.help(format!("at most {members}")));
        }
    }

    /// Returns the endpoint's use of a check, or reports that the endpoint does not use the check.
    fn used(&mut self, name: &At<String>) -> Option<&mut CheckUse> {
        let check = self.names.position(name)?;
        if !self.uses.iter().any(|one| one.check == check) {
            let message = format!("the endpoint does not use check `{}`", name.value);
            let problem = Problem::error("unknown-check", name.span.clone(), message);
            self.names.problems.add(problem.help("list it in `require`, `degrading`, `info` or `quorum`"));
        }
        self.uses.iter_mut().find(|one| one.check == check)
    }
}
