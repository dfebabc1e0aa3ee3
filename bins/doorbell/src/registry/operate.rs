//! What operators and the life cycle want of a board: drain, maintenance.
//!
//! Does not know about: who may want it, how long they want it.

use super::{Changed, HealthRegistry, Inside};
use doorbell_checks::ResultSink as _;
use doorbell_health::{CheckIndex, Command, EndpointIndex, Maintenance, Note, Target, Time};
use std::sync::PoisonError;
use std::time::Duration;

/// What can be in maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The endpoints that are about taking traffic. One that says whether the process lives would have it killed.
    All,
    Check(CheckIndex),
    Endpoint(EndpointIndex),
}

impl HealthRegistry {
    /// Every endpoint drains or does not, and answers so before this returns.
    pub(crate) fn drain(&self, draining: bool) {
        // Why is said by the program as a whole.
        self.command(Command::Drain { target: Target::All, reason: draining.then(Note::default) });
    }

    /// The same for one alone, with its reason. Nothing happens where there is no such endpoint.
    pub(crate) fn drain_one(&self, endpoint: &str, reason: Option<&str>) {
        let Some(Subject::Endpoint(endpoint)) = self.subject(endpoint) else { return };
        let reason = reason.map(|reason| Note::new(reason.as_bytes()));
        self.command(Command::Drain { target: Target::One(endpoint), reason });
    }

    /// What a name means: `all`, an endpoint, a check, or one of these with `endpoint:` or `check:` before it where two have one name.
    pub(crate) fn subject(&self, name: &str) -> Option<Subject> {
        let inside = self.lock();
        let board = &inside.board;
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

    /// The name by which a subject is always found: `all`, `readyz`, `check:db`.
    pub(crate) fn name_of(&self, subject: Subject) -> Option<String> {
        let inside = self.lock();
        Some(match subject {
            Subject::All => "all".to_owned(),
            Subject::Check(check) => format!("check:{}", inside.board.check_name(check)?),
            Subject::Endpoint(endpoint) => match &*inside.board.endpoint(endpoint)?.config().name {
                name if name == "all" => format!("endpoint:{name}"),
                name => name.to_owned(),
            },
        })
    }

    /// Every endpoint that `all` means.
    pub(crate) fn readiness(&self) -> impl Iterator<Item = Subject> {
        self.readiness.iter().map(|&endpoint| Subject::Endpoint(endpoint))
    }

    /// The position of a check in the configuration, if it is run here; `None` for one that is told.
    pub(crate) fn runs(&self, check: CheckIndex) -> Option<usize> {
        self.position(check, false)
    }

    /// The position of a check in the configuration, if it is told its results.
    pub(crate) fn is_told(&self, check: CheckIndex) -> Option<usize> {
        self.position(check, true)
    }

    fn position(&self, check: CheckIndex, is_passive: bool) -> Option<usize> {
        let inside = self.lock();
        let passive = inside.board.check(check)?.config().passive;
        drop(inside);
        self.places.checks.iter().position(|place| *place == check).filter(|_| passive == is_passive)
    }

    /// Waits for a result of a check that is newer than `since`; false when none comes in time.
    pub(crate) fn wait_for_result(&self, check: CheckIndex, since: Time, timeout: Duration) -> bool {
        let is_old = |inside: &mut Inside| {
            let last = inside.board.check(check).and_then(|check| check.last());
            last.is_none_or(|(at, _)| at <= since)
        };
        let waited = self.found.wait_timeout_while(self.lock(), timeout, is_old);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Begins maintenance of subjects, with its reason and for how long, or ends it: all of it at once, and answered so before this returns.
    /// Nothing happens for [`Subject::All`].
    pub(crate) fn maintain<'a>(
        &self,
        wanted: impl IntoIterator<Item = (Subject, Option<(&'a str, Option<Duration>)>)>,
    ) {
        let now = self.now();
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
