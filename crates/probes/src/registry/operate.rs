//! Commands of operators and of the program itself: drains and maintenance.

use super::{Changed, Registry, RegistryInner};
use crate::replies::part;
use doorbell_health::{
    CheckIndex, CheckState, Class, Command, EndpointIndex, Maintenance, OnDrain, OnStale, Reason, Target,
    Time,
};
use std::sync::PoisonError;
use std::time::Duration;

/// A target of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// All readiness endpoints. Liveness endpoints are excluded, because their probers would
    /// restart the process.
    All,
    /// One check.
    Check(CheckIndex),
    /// One endpoint.
    Endpoint(EndpointIndex),
}

/// The unambiguous name of an endpoint, as [`Registry::name_of`] returns it.
#[must_use]
pub fn endpoint_target(endpoint: &str) -> String {
    match endpoint {
        "all" => format!("endpoint:{endpoint}"),
        _ => endpoint.to_owned(),
    }
}

impl Registry {
    /// Starts a drain of all endpoints with `reason`, or ends it if `reason` is `None`. An empty
    /// reason is not shown.
    pub fn drain(&self, reason: Option<&str>, now: Time) {
        let reason = reason.map(|reason| Reason::new(reason.as_bytes()));
        self.command(Command::Drain { target: Target::All, reason }, now);
    }

    /// Starts a drain of one endpoint with `reason`, or ends it if `reason` is `None`. An unknown
    /// name has no effect.
    pub fn drain_one(&self, endpoint: &str, reason: Option<&str>, now: Time) {
        let Some(Subject::Endpoint(endpoint)) = self.subject(endpoint) else { return };
        let reason = reason.map(|reason| Reason::new(reason.as_bytes()));
        self.command(Command::Drain { target: Target::One(endpoint), reason }, now);
    }

    /// Resolves `all`, the name of an endpoint or the name of a check. `endpoint:NAME` and
    /// `check:NAME` distinguish an endpoint and a check of the same name.
    #[must_use]
    pub fn subject(&self, name: &str) -> Option<Subject> {
        let inner = self.lock();
        let board = &inner.board;
        if let Some(check) = name.strip_prefix("check:") {
            return board.check_named(check).map(Subject::Check);
        }
        if let Some(endpoint) = name.strip_prefix("endpoint:") {
            return board.endpoint_named(endpoint).map(Subject::Endpoint);
        }
        if name == "all" {
            return Some(Subject::All);
        }
        let endpoint = board.endpoint_named(name).map(Subject::Endpoint);
        endpoint.or_else(|| board.check_named(name).map(Subject::Check))
    }

    /// The unambiguous name of a subject: `all`, `readyz`, `check:db`.
    #[must_use]
    pub fn name_of(&self, subject: Subject) -> Option<String> {
        let inner = self.lock();
        Some(match subject {
            Subject::All => "all".to_owned(),
            Subject::Check(check) => format!("check:{}", inner.board.check_name(check)?),
            Subject::Endpoint(endpoint) => endpoint_target(&inner.board.endpoint(endpoint)?.config().name),
        })
    }

    /// The state of a check or an endpoint, and its reason. A stale check is reported as unknown, a
    /// draining endpoint as in maintenance, unless it ignores drains: a liveness endpoint that
    /// follows it must not fail during a drain. `None` for [`Subject::All`].
    #[must_use]
    pub fn state_of(&self, subject: Subject) -> Option<(Class, String)> {
        let inner = self.lock();
        let board = &inner.board;
        match subject {
            Subject::All => None,
            Subject::Check(check) => {
                let check = board.check(check)?;
                let class = Class::of(check, OnStale::Unknown);
                let reason = match check.state() {
                    CheckState::Stale => "the last result is too old",
                    CheckState::Unknown if check.reason().is_empty() => "no result yet",
                    _ => check.reason(),
                };
                Some((class, reason.to_owned()))
            }
            Subject::Endpoint(index) => {
                let endpoint = board.endpoint(index)?;
                let ignores = endpoint.config().on_drain.iter().all(|on| matches!(on, OnDrain::Ignore));
                let verdict = if ignores { endpoint.verdict_without_drain() } else { endpoint.verdict() };
                let reason = match endpoint.note(verdict) {
                    "" => endpoint.deciding(verdict).next().map(|one| part(board, one.check)),
                    note => Some(note.to_owned()),
                };
                let rule = || format!("{} by {}", verdict.state.as_str(), verdict.cause.as_str());
                Some((verdict.state.class(), reason.unwrap_or_else(rule)))
            }
        }
    }

    /// The endpoints that [`Subject::All`] stands for.
    pub fn readiness(&self) -> impl Iterator<Item = Subject> {
        self.readiness_endpoints().map(Subject::Endpoint)
    }

    /// The position of a check that a scheduler runs; `None` if its results are pushed.
    #[must_use]
    pub fn position_of_run(&self, check: CheckIndex) -> Option<usize> {
        self.position(check, false)
    }

    /// The position of a check whose results are pushed; `None` if a scheduler runs it.
    #[must_use]
    pub fn position_of_pushed(&self, check: CheckIndex) -> Option<usize> {
        self.position(check, true)
    }

    fn position(&self, check: CheckIndex, is_passive: bool) -> Option<usize> {
        let inner = self.lock();
        let passive = inner.board.check(check)?.config().passive;
        drop(inner);
        self.checks.iter().position(|index| *index == check).filter(|_| passive == is_passive)
    }

    /// Blocks until a check has a result newer than `since`; returns `false` after `timeout`.
    pub fn wait_for_result(&self, check: CheckIndex, since: Time, timeout: Duration) -> bool {
        let is_old = |inner: &mut RegistryInner| {
            let last = inner.board.check(check).and_then(|check| check.last());
            last.is_none_or(|(at, _)| at <= since)
        };
        let waited = self.found.wait_timeout_while(self.lock(), timeout, is_old);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Starts maintenance of each subject with a reason and an optional duration, or ends it if
    /// there is no reason. All changes are published as one set. [`Subject::All`] has no effect;
    /// use [`Self::readiness`] instead.
    pub fn maintain<'a>(
        &self,
        wanted: impl IntoIterator<Item = (Subject, Option<(&'a str, Option<Duration>)>)>,
        now: Time,
    ) {
        let command = |(subject, wanted): (Subject, Option<(&str, Option<Duration>)>)| {
            let maintenance =
                wanted.map(|(reason, left)| Maintenance::new(reason, now, left.map(|left| now.after(left))));
            match subject {
                Subject::All => None,
                Subject::Check(check) => Some(Command::MaintainCheck { check, maintenance }),
                Subject::Endpoint(endpoint) => {
                    Some(Command::Maintain { target: Target::One(endpoint), maintenance })
                }
            }
        };
        let commands: Vec<Command> = wanted.into_iter().filter_map(command).collect();
        self.change(|board| {
            let mut changed = Changed::default();
            commands.into_iter().for_each(|command| changed.add(Changed::of(&board.command(command, now))));
            changed
        });
    }
}
