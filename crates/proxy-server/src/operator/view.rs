//! Builds the views for operators on request, runs checks, and accepts their results.

use super::clock::{millis, unix_ms};
use super::{Follower, Operator, Running, Subject, probers};
use doorbell_checks::{Finding, PushRefused};
use doorbell_control::{
    CheckView, EndpointView, EndpointWord, Event, LinkView, ProberView, Refusal, RefusalKind,
    RefusedReloadView, Status,
};
use doorbell_health::CheckIndex;
use doorbell_history::{Counter, Counts, Stats};
use doorbell_link::State;
use doorbell_shared::{Announcement, EndpointState};
use std::sync::Arc;
use std::time::Duration;

/// Maximum time to wait for a requested run of a check.
const RUN_TIMEOUT: Duration = Duration::from_secs(12);

/// The state of an endpoint as other instances receive it.
pub(crate) const fn shared_state(state: EndpointWord) -> State {
    match state {
        EndpointWord::Degraded => State::Degraded,
        EndpointWord::Down => State::Down,
        EndpointWord::Drain | EndpointWord::Maintenance => State::Maintenance,
        EndpointWord::Up => State::Up,
    }
}

/// The state of an endpoint in the description of this instance. An endpoint whose replies ignore
/// drains, such as livez, has the state that it reports.
fn announced_state(endpoint: &EndpointView) -> State {
    let reported = || endpoint.answers.iter().map(|answer| answer.state);
    let is_drained = reported().any(|state| state == EndpointWord::Drain);
    shared_state(reported().next().filter(|_| !is_drained).unwrap_or(endpoint.state))
}

fn history_counters(stats: &Stats) -> [(String, u64); 5] {
    let counters = [
        ("history_batches_failed", stats.batches_failed),
        ("history_failing_live", u64::from(stats.failure.is_some())),
        ("history_rows_dropped", stats.sum(Counts::dropped)),
        ("history_rows_live", stats.sum(|counts| counts.live)),
        ("history_rows_written", stats.sum(|counts| counts.written)),
    ];
    counters.map(|(name, count)| (name.to_owned(), count))
}

impl Operator {
    /// Time since the start of the program.
    pub(crate) fn uptime(&self) -> Duration {
        self.0.clock.now()
    }

    /// The status of the program.
    pub(crate) fn status(&self) -> Status {
        let running = self.running();
        let delay = running.as_ref().map_or_else(Default::default, |running| running.lifecycle.drain_delay);
        let now = self.0.clock.now();
        let inner = self.lock();
        let life = &inner.life;
        let left = |until: Duration| millis(until.saturating_sub(now));
        let stop = life.stop().filter(|_| !life.is_closing());
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            now_unix_ms: unix_ms(),
            uptime_ms: millis(now),
            lifecycle: life.state(),
            lifecycle_age_ms: millis(now.saturating_sub(life.since())),
            reason: life.reason().to_owned(),
            stops_in_ms: stop.map(|stop| left(stop.closes_at)),
            observed_in_ms: inner.drain_since().map(|begun| left(begun.saturating_add(delay))),
            drain_ends_in_ms: life.drains().until().map(left),
            generation: inner.generation,
            refused_reload: inner.refused_reload.as_ref().map(|(reason, at)| RefusedReloadView {
                reason: reason.clone(),
                age_ms: millis(now.saturating_sub(*at)),
            }),
            unsaved: self.unsaved(&inner),
            ports: self
                .0
                .admin
                .get()
                .into_iter()
                .map(|addr| ("admin".to_owned(), vec![addr.clone()]))
                .collect(),
            drains: inner.drains.views(delay, now),
            maintenance: inner.maintenance.views(now),
            event: self.0.event_log.last(),
            ..Status::default()
        };
        drop(inner);
        if let Some(running) = running {
            status.config.clone_from(&running.origin);
            status.addresses.clone_from(&running.addresses);
            status.waiting = running.awaited.views();
            status.ports.extend(running.ports.get().cloned().unwrap_or_default());
            status.workers = running.workers();
            status.endpoints = running.registry.endpoints();
            status.checks = running.registry.check_counts();
            status.counters = running.counters();
            status.counters.extend(running.sharing_counters());
            if let Some(history) = self.0.event_log.history() {
                let stats = history.stats();
                status.counters.extend(history_counters(&stats));
                status.history_failure = stats.failure;
            }
        }
        status
    }

    /// The announcement of this instance in the shared store.
    pub(crate) fn announcement(&self) -> Announcement {
        let status = self.status();
        let running = self.running();
        let shared = running.as_ref().and_then(|running| running.shared_checks.as_ref());
        let endpoint = |one: &EndpointView| EndpointState {
            name: one.name.clone(),
            state: announced_state(one),
            note: one.note.clone(),
        };
        Announcement {
            version: status.version,
            zone: shared.map(|shared| shared.zone().to_owned()).unwrap_or_default(),
            lifecycle: status.lifecycle.as_str().to_owned(),
            started_unix_ms: status.now_unix_ms.saturating_sub(status.uptime_ms),
            config_hash: running.as_ref().map(|running| running.config_hash.clone()).unwrap_or_default(),
            endpoints_total: status.endpoints.len() as u64,
            endpoints: status.endpoints.iter().map(endpoint).collect(),
        }
    }

    /// Returns all checks in the order of the configuration, or the check with this name.
    pub(crate) fn checks(&self, name: Option<&str>, history: bool) -> Result<Vec<CheckView>, Refusal> {
        let views = self.running().map(|running| running.checks(name, history)).unwrap_or_default();
        match name {
            Some(name) if views.is_empty() => unknown_check(name),
            _ => Ok(views),
        }
    }

    /// Runs a check now and waits for its result.
    pub(crate) fn run_check(&self, name: &str) -> Result<CheckView, Refusal> {
        let refused = |kind, text: String| Err(Refusal::new(kind, text));
        let Some((running, check)) = self.check_named(name) else { return unknown_check(name) };
        let (Some(position), Some(run_now_handle)) =
            (running.registry.position_of_run(check), &running.run_now_handle)
        else {
            let text = format!("check {name} cannot be run: its results are pushed");
            return refused(RefusalKind::NotSupported, text);
        };
        let Some(_permit) = self.0.reply_permits.run() else {
            return refused(RefusalKind::Busy, "too many commands wait for a check: try again".to_owned());
        };
        let requested_at = running.registry.now();
        if !run_now_handle.run_now(position) {
            return refused(RefusalKind::Busy, "too many requested runs: try again".to_owned());
        }
        if !running.registry.wait_for_result(check, requested_at, RUN_TIMEOUT) {
            let text = format!("check {name} has no result yet: see `doorbell checks {name}`");
            return refused(RefusalKind::Busy, text);
        }
        running.checks(Some(name), true).pop().map_or_else(|| unknown_check(name), Ok)
    }

    /// Accepts a pushed result of a check of type ttl.
    pub(crate) fn push(&self, name: &str, finding: Finding) -> Result<String, Refusal> {
        self.push_to("ttl", name, finding)
    }

    /// Accepts a result of a check of type link, decided from the states at other instances.
    pub(crate) fn decide(&self, name: &str, finding: Finding) -> Result<String, Refusal> {
        self.push_to("link", name, finding)
    }

    fn push_to(&self, kind: &str, name: &str, finding: Finding) -> Result<String, Refusal> {
        let Some((running, check)) = self.check_named(name) else { return unknown_check(name) };
        let position = running.registry.position_of_pushed(check);
        let position = position.filter(|position| running.has_kind(*position, kind));
        let (Some(position), Some(push)) = (position, &running.push) else {
            let text = format!("check {name} does not accept results: only checks of `type = \"{kind}\"` do");
            return Err(Refusal::new(RefusalKind::NotSupported, text));
        };
        match push.leave(position, finding) {
            Ok(()) => Ok(format!("check {name}: result accepted")),
            Err(PushRefused::Full) => {
                Err(Refusal::new(RefusalKind::Busy, "too many results: try again".to_owned()))
            }
            Err(PushRefused::NoCheck) => unknown_check(name),
        }
    }

    fn check_named(&self, name: &str) -> Option<(Arc<Running>, CheckIndex)> {
        let running = self.running()?;
        match running.registry.subject(&format!("check:{name}"))? {
            Subject::Check(check) => Some((running, check)),
            Subject::All | Subject::Endpoint(_) => None,
        }
    }

    /// The links.
    pub(crate) fn links(&self) -> Vec<LinkView> {
        self.0.hooks.links.get().map(|links| links()).unwrap_or_default()
    }

    /// Counters of the probers seen so far, for the history.
    pub(crate) fn prober_counters(&self) -> Vec<Counter> {
        self.running().map(|running| probers::counters(running.registry.prober_stats())).unwrap_or_default()
    }

    /// The probers seen so far.
    pub(crate) fn probers(&self) -> Vec<ProberView> {
        self.running().map(|running| probers::views(running.registry.prober_stats())).unwrap_or_default()
    }

    /// Returns the stored events after number `since`, oldest first, and the count of events after
    /// `since` that are no longer stored.
    pub(crate) fn events_since(&self, since: u64) -> (Vec<Event>, u64) {
        let (events, missed) = self.0.event_log.since(since);
        (events.iter().map(|event| Event::clone(event)).collect(), missed)
    }

    /// Follows the event log: first the stored events after number `since`, then new events.
    pub(crate) fn follow(&self, since: u64) -> Follower {
        self.0.event_log.follow(since).hold(self.0.reply_permits.follow())
    }
}

fn unknown_check<T>(name: &str) -> Result<T, Refusal> {
    let text = format!("unknown check {name:?}: `doorbell checks` lists the checks");
    Err(Refusal::new(RefusalKind::NotFound, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_control::{AnswerView, AudienceWord, CauseWord};

    #[test]
    fn a_drain_changes_the_announced_state_only_of_endpoints_that_report_it() {
        use EndpointWord::{Degraded, Down, Drain, Maintenance, Up};
        for (state, reported, announced) in [
            (Up, [Up, Up], State::Up),
            (Drain, [Up, Up], State::Up),
            (Drain, [Down, Down], State::Down),
            (Drain, [Degraded, Degraded], State::Degraded),
            (Drain, [Drain, Drain], State::Maintenance),
            (Drain, [Up, Drain], State::Maintenance),
            (Maintenance, [Maintenance, Maintenance], State::Maintenance),
        ] {
            let answer = |state| AnswerView { audience: AudienceWord::Other, state, code: 200 };
            let endpoint = EndpointView {
                name: "livez".into(),
                state,
                cause: CauseWord::Drain,
                note: String::new(),
                age_ms: 0,
                answers: reported.map(answer).into(),
                weight: None,
                uses: Vec::new(),
            };
            assert_eq!(announced_state(&endpoint), announced, "{state:?} {reported:?}");
        }
    }
}
