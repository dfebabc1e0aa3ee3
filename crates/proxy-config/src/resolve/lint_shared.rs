//! Warnings about endpoints that depend on another machine: all replicas share that machine and
//! would go down at the same time.

use super::super::model::{Config, Health, Udp};
use doorbell_checks::options::{CheckKind, Followed, HostPort};
use doorbell_config::{Places, Problem, Problems};
use doorbell_health::Severity;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

pub(super) fn lint(config: &Config, places: &Places, problems: &Problems) {
    let by_name = config.checks.iter().enumerate().map(|(at, check)| (check.name.as_str(), at)).collect();
    for (position, health) in config.health.iter().enumerate() {
        let is_written = places.get(&format!("health.{}", health.name)).is_some();
        let is_liveness = !Health::is_readiness(&health.name);
        let is_meant = health.latch || (!is_liveness && health.fail_open.is_some());
        // `readyz` exists even if no table and no route names it.
        if is_meant || (!is_written && !is_probed(config, position)) {
            continue;
        }
        let shared = LintContext { places, config, by_name: &by_name, health, is_liveness, problems };
        shared.required();
        shared.quorum();
    }
}

/// Whether any route, agent, gate, UDP listener or gRPC service reports the endpoint at this
/// position.
fn is_probed(config: &Config, position: usize) -> bool {
    let grpc = &config.grpc;
    let has_service = grpc.overall.position == position
        || grpc.services.iter().any(|(_, service)| service.position == position);
    let routes = config.routes.iter().any(|route| match &route.health {
        Some(link) => link.position == position,
        None => has_service && route.is_grpc(),
    });
    routes
        || config.agents.iter().any(|agent| agent.select_by_send || agent.health.position == position)
        || config.tcp_gates.iter().any(|gate| gate.health.position == position)
        || config.udp.iter().filter_map(Udp::follows).any(|link| link.position == position)
}

struct LintContext<'a> {
    places: &'a Places,
    config: &'a Config,
    /// Positions of all checks, by name.
    by_name: &'a HashMap<&'a str, usize>,
    health: &'a Health,
    is_liveness: bool,
    problems: &'a Problems,
}

impl LintContext<'_> {
    /// Reports required checks that depend on another machine: one warning for each check listed in
    /// `require`, and one for all others that are required by their severity.
    fn required(&self) {
        let list = || self.health.require.iter().flatten();
        let mut unlisted = Vec::new();
        for one in self.health.uses.iter().filter(|one| one.severity == Severity::Required) {
            let check = &self.config.checks[one.check];
            let remotes = self.remotes_of(one.check);
            match list().find(|link| link.name == check.name) {
                Some(name) => {
                    let help = "list it as `degrading`, or add `fail_open = { max_age = \"2m\" }`";
                    self.warn(&name.span, &remotes, help);
                }
                None => unlisted
                    .extend(remotes.into_iter().map(|one| (self.places.name(["check", &check.name]), one))),
            }
        }
        let (spans, remotes): (Vec<_>, Vec<_>) = unlisted.into_iter().unzip();
        if let Some(first) = spans.first() {
            let name = &self.health.name;
            let help = format!(
                "add `severity = \"degrading\"`, or `fail_open = {{ max_age = \"2m\" }}` to [health.{name}]"
            );
            self.warn(first, &remotes, &help);
        }
    }

    /// Reports a quorum that the members on this machine alone cannot reach.
    fn quorum(&self) {
        let place = self.places.get(&format!("health.{}.quorum", self.health.name));
        let (Some(quorum), Some(place)) = (self.health.quorum(), place) else { return };
        let members = || self.health.uses.iter().filter(|one| one.in_quorum);
        let remotes: Vec<_> = members().flat_map(|one| self.remotes_of(one.check)).collect();
        let count = members().count();
        let own = members().filter(|one| self.remotes_of(one.check).is_empty()).count();
        let own = u32::try_from(own).unwrap_or(u32::MAX);
        if remotes.is_empty() || own >= quorum.min(u32::try_from(count).unwrap_or(u32::MAX)) {
            return;
        }
        self.warn(&place, &remotes, "add members on this machine, or `fail_open = { max_age = \"2m\" }`");
    }

    /// The other machines on which a check depends, directly or through the checks and endpoints
    /// that it follows.
    fn remotes_of(&self, check: usize) -> Vec<&HostPort> {
        let Config { checks, health, .. } = self.config;
        let (mut found, mut seen, mut left) = (Vec::new(), HashSet::new(), vec![check]);
        while let Some(at) = left.pop() {
            if !seen.insert(at) {
                continue;
            }
            let kind = &checks[at].kind;
            found.extend(kind.remote());
            let CheckKind::Alias(alias) = kind else { continue };
            match alias.followed() {
                Some(Followed::Check(name)) => left.extend(self.by_name.get(name)),
                Some(Followed::Endpoint(name)) => {
                    let uses = health.iter().filter(|one| one.name == name).flat_map(|one| &one.uses);
                    let required = uses.filter(|one| one.severity == Severity::Required);
                    left.extend(required.map(|one| one.check));
                }
                None => {}
            }
        }
        found
    }

    fn warn(&self, span: &Range<usize>, remotes: &[&HostPort], help: &str) {
        let [first, others @ ..] = remotes else { return };
        let named = match others.len() {
            0 => first.to_string(),
            more => format!("{first} and {more} more"),
        };
        let name = &self.health.name;
        let (message, help) = match self.is_liveness {
            true => (
                format!("`{name}` goes down with {named}, and restarts do not repair that"),
                "list it in `readyz`, or as `info`",
            ),
            false => (format!("`{name}` goes down with {named}, on every replica at once"), help),
        };
        self.problems.add(Problem::warning("shared-dependency", span.clone(), message).help(help));
    }
}
