//! `[health.NAME]` resolved: checks by position instead of by name, each with what it means here.
//!
//! Does not know about: routes.

use super::super::model::{CheckUse, Codes, DegradedVia, Health, HealthState, OnDrain, Quorum, StateFields};
use super::super::written;
use super::or;
use doorbell_checks::options::Check;
use doorbell_config::{At, Problem, Problems, did_you_mean, format_size, quoted};
use doorbell_health::Severity;
use std::time::Duration;

/// What every prober reads of a body (health checks of Google Cloud: 1024 bytes).
pub(super) const PROBE_BODY_LEN_MAX: u32 = 1024;

/// All endpoints; `livez` and `readyz` are always there.
pub(super) fn resolve(written: &[written::Health], checks: &[Check], problems: &Problems) -> Vec<Health> {
    let mut health: Vec<Health> = written.iter().map(|health| one(health, checks, problems)).collect();
    for name in ["livez", "readyz"] {
        if !health.iter().any(|known| known.name == name) {
            health.push(default_health(name, checks));
        }
    }
    health
}

/// An endpoint of which nothing is written: `readyz` has every check, by its severity.
pub(in crate::config) fn default_health(name: &str, checks: &[Check]) -> Health {
    let mut health = Health::named(name);
    if name == "readyz" {
        for severity in [Severity::Required, Severity::Degrading, Severity::Info] {
            let of_it = checks.iter().enumerate().filter(|(_, check)| check.severity == severity);
            health.uses.extend(of_it.map(|(position, _)| CheckUse::new(position, severity)));
        }
    }
    health
}

fn one(written: &written::Health, checks: &[Check], problems: &Problems) -> Health {
    let name = &written.name.value;
    let default = default_health(name, checks);
    let lists = [&written.require, &written.degrading, &written.info];
    let is_listed = lists.iter().any(|list| list.is_some()) || written.quorum.is_some();
    let mut reader = Reader { checks, problems, uses: Vec::new(), spans: Vec::new() };
    for (list, severity) in lists.into_iter().zip([Severity::Required, Severity::Degrading, Severity::Info]) {
        list.iter().flat_map(|names| &names.value).for_each(|name| reader.list(name, severity));
    }
    let quorum = written.quorum.as_ref().and_then(|quorum| reader.quorum(quorum));
    if !is_listed {
        reader.uses = default.uses.clone();
    }
    reader.weights(&written.weight);
    reader.codes(&written.status.by_check);
    let uses = reader.uses;
    lint(written, &uses, quorum, problems);
    lint_answers(written, &uses, problems);
    Health {
        initial: or(&written.initial, HealthState::Up),
        uses,
        quorum,
        fail_open: written.fail_open.as_ref().map(|at| at.value),
        latch: or(&written.latch, default.latch),
        on_stale: or(&written.on_stale, default.on_stale),
        codes: codes(&written.status),
        on_drain: on_drain(&written.on_drain, default.on_drain),
        degraded_via: or(&written.degraded_via, default.degraded_via),
        fields: fields(written),
        body_bytes: or(&written.body_bytes, default.body_bytes),
        ..default
    }
}

/// A header field has whole seconds.
fn fields(written: &written::Health) -> StateFields {
    let retry_after = written.retry_after.as_ref().map(|at| at.value);
    let secs = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
    StateFields {
        retry_after_secs: retry_after.and_then(|time| u32::try_from(secs(time)).ok()),
        envoy_degraded: or(&written.envoy_degraded, false),
        endpoint_weight: or(&written.endpoint_weight, false),
    }
}

/// Fields that are never sent, and bodies of which probers read only the start.
fn lint_answers(written: &written::Health, uses: &[CheckUse], problems: &Problems) {
    let name = &written.name.value;
    if let Some(at) = written.envoy_degraded.as_ref().filter(|at| at.value && uses.is_empty()) {
        let message = format!("`{name}` has no checks, so it is never degraded");
        let problem = Problem::warning("no-effect", at.span.clone(), message);
        problems.add(problem.help("remove `envoy_degraded`, or list checks in `require` or `degrading`"));
    }
    let has_weights = uses.iter().any(|one| one.weight > 0);
    if let Some(at) = written.endpoint_weight.as_ref().filter(|at| at.value && !has_weights) {
        let message = format!("no check of `{name}` has a weight, so none is sent");
        let problem = Problem::warning("no-effect", at.span.clone(), message);
        problems.add(problem.help("add `weight = { NAME = 100 }`, or remove `endpoint_weight`"));
    }
    if let Some(at) = written.body_bytes.as_ref().filter(|at| at.value > PROBE_BODY_LEN_MAX) {
        let message =
            format!("a body of `{name}` may be longer than {}", format_size(PROBE_BODY_LEN_MAX.into()));
        let problem = Problem::warning("long-body", at.span.clone(), message);
        problems.add(problem.help(
            "load balancers of Google Cloud read no more, Docker and the kubelet not much more: make `max_body` smaller",
        ));
    }
}

/// What is written and has no effect.
fn lint(written: &written::Health, uses: &[CheckUse], quorum: Option<Quorum>, problems: &Problems) {
    let name = &written.name.value;
    let required = uses.iter().any(|one| one.severity == Severity::Required);
    if let (Some(initial), false) = (&written.initial, uses.is_empty()) {
        let message = format!("the checks of `{name}` decide, not `initial`");
        let problem = Problem::warning("no-effect", initial.span.clone(), message);
        problems.add(problem.help("remove `initial`, or set it in the [check.NAME] tables"));
    }
    if let Some(via) = &written.degraded_via
        && via.value == DegradedVia::KubeWarning
        && uses.is_empty()
    {
        let message = format!("`{name}` has no checks, so it is never degraded");
        let problem = Problem::warning("no-effect", via.span.clone(), message);
        problems.add(problem.help("remove `degraded_via`, or list checks in `require` or `degrading`"));
    }
    if let Some(at) = &written.fail_open
        && quorum.is_none()
        && !required
    {
        let message = format!("`{name}` requires nothing, so it never has to stay open");
        problems.add(Problem::warning("no-effect", at.span.clone(), message).help("remove `fail_open`"));
    }
}

struct Reader<'a> {
    checks: &'a [Check],
    problems: &'a Problems,
    uses: Vec<CheckUse>,
    /// Where each of the uses is written.
    spans: Vec<std::ops::Range<usize>>,
}

impl Reader<'_> {
    fn list(&mut self, name: &At<String>, severity: Severity) {
        let Some(check) = self.position(name) else { return };
        if let Some(first) = self.uses.iter().position(|one| one.check == check) {
            let message = format!("check `{}` is listed twice", name.value);
            let problem = Problem::error("contradiction", name.span.clone(), message);
            let first = self.spans.get(first).cloned().unwrap_or(0..0);
            self.problems.add(problem.also(first, "first here").help("remove one of them"));
            return;
        }
        self.uses.push(CheckUse::new(check, severity));
        self.spans.push(name.span.clone());
    }

    /// A member that no list names makes the endpoint degraded when it is down, and is only shown if that is all it is good for.
    fn quorum(&mut self, written: &written::QuorumOf) -> Option<Quorum> {
        let mut members = 0;
        for name in written.of.iter().flat_map(|names| &names.value) {
            let Some(check) = self.position(name) else { continue };
            let at = match self.uses.iter().position(|one| one.check == check) {
                Some(at) => at,
                None => {
                    let severity = match self.checks.get(check).map(|check| check.severity) {
                        Some(Severity::Info) => Severity::Info,
                        _ => Severity::Degrading,
                    };
                    self.list(name, severity);
                    self.uses.len() - 1
                }
            };
            if std::mem::replace(&mut self.uses[at].in_quorum, true) {
                let message = format!("check `{}` is in the quorum twice", name.value);
                let problem = Problem::error("contradiction", name.span.clone(), message);
                self.problems.add(problem.help("remove one of them"));
            } else {
                members += 1;
            }
        }
        if members == 0 && !written.has_of {
            let problem = Problem::error("missing-key", written.span.clone(), "a quorum of which checks?");
            self.problems.add(problem.help("add `of = [\"NAME\", ..]`"));
        }
        let is_known = members > 0 || !written.has_of;
        if !written.has_min {
            let problem = Problem::error("missing-key", written.span.clone(), "how many of them must be up?");
            self.problems.add(problem.help("add `min = 1`, or a part such as `min = \"60%\"`"));
        }
        let min = written.min.as_ref().filter(|_| is_known)?;
        if min.value.min(members) > members && members > 0 {
            let message = format!("the quorum has {members} checks and wants more of them");
            self.problems.add(
                Problem::error("out-of-range", min.span.clone(), message).help(format!("at most {members}")),
            );
        }
        Some(min.value)
    }

    fn weights(&mut self, written: &[(At<String>, At<u32>)]) {
        for (name, weight) in written {
            if let Some(one) = self.used(name) {
                one.weight = weight.value;
            }
        }
    }

    fn codes(&mut self, written: &[(At<String>, At<u32>)]) {
        for (name, code) in written {
            if let Some(one) = self.used(name) {
                one.code = u16::try_from(code.value).ok();
            }
        }
    }

    /// The use of a check that the endpoint has.
    fn used(&mut self, name: &At<String>) -> Option<&mut CheckUse> {
        let check = self.position(name)?;
        if !self.uses.iter().any(|one| one.check == check) {
            let message = format!("the endpoint does not use check `{}`", name.value);
            let problem = Problem::error("unknown-check", name.span.clone(), message);
            self.problems.add(problem.help("list it in `require`, `degrading`, `info` or `quorum`"));
        }
        self.uses.iter_mut().find(|one| one.check == check)
    }

    fn position(&self, name: &At<String>) -> Option<usize> {
        let position = self.checks.iter().position(|check| check.name == name.value);
        if position.is_none() {
            let names: Vec<&str> = self.checks.iter().map(|check| &*check.name).collect();
            let message = format!("there is no check `{}`", name.value);
            let help = did_you_mean(&name.value, &names).unwrap_or_else(|| match names.as_slice() {
                [] => format!("add a table [check.{}]", name.value),
                // A file may have thousands.
                [..] if names.len() > 20 => format!("add a table [check.{}]", name.value),
                names => format!("add a table [check.{}], or name one of {}", name.value, quoted(names)),
            });
            self.problems.add(Problem::error("unknown-check", name.span.clone(), message).help(help));
        }
        position
    }
}

fn codes(written: &written::Statuses) -> Codes {
    let default = Codes::default();
    let code = |at: &Option<At<u32>>, default: u16| {
        at.as_ref().and_then(|at| u16::try_from(at.value).ok()).unwrap_or(default)
    };
    Codes {
        degraded: code(&written.degraded, default.degraded),
        down: code(&written.down, default.down),
        drain: code(&written.drain, default.drain),
        maintenance: code(&written.maintenance, default.maintenance),
        up: code(&written.up, default.up),
    }
}

/// In the order of `doorbell_health::Audience`.
fn on_drain(written: &written::DrainAnswers, default: [OnDrain; 3]) -> [OnDrain; 3] {
    let all = written.default.as_ref().map(|at| at.value);
    let [kubelet, load_balancer, other] = default.map(|default| all.unwrap_or(default));
    [or(&written.kubelet, kubelet), or(&written.load_balancer, load_balancer), other]
}
