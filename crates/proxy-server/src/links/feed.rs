//! Sends the states of this instance's checks and endpoints on all links.
//!
//! Transitions are sent at once. Every second, all states are compared with those sent last, so
//! that a missed event or a reload leaves no difference.

use super::peers::{KnownPeer, LinkPeers};
use crate::operator::{Followed, Operator, shared_state};
use doorbell_control::{CheckView, CheckWord, EndpointView, Event, EventKind, OutcomeWord, ResultView};
use doorbell_link::{Link, Measured, Outcome, State, Subject, SubjectKind, Time};
use doorbell_proxy_config::model::Peer;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Time between two comparisons.
const COMPARE_EVERY: Duration = Duration::from_secs(1);

/// Number of comparisons after which a state without a new result is sent again.
const REPEAT_EVERY: u32 = 5;

/// A link, and the subjects (checks and endpoints) that are sent on it.
struct Fed {
    peer: Peer,
    known: Arc<KnownPeer>,
    /// Subjects of the last comparison.
    subjects: HashSet<Subject>,
}

impl Fed {
    fn sends(&self, subject: &Subject) -> bool {
        let list = match subject.kind {
            SubjectKind::Check => &self.peer.checks,
            SubjectKind::Endpoint => &self.peer.endpoints,
        };
        list.as_ref().is_none_or(|list| list.iter().any(|link| link.name == subject.name))
    }
}

/// A check or an endpoint of this instance, with its state.
struct Own {
    subject: Subject,
    state: State,
    reason: String,
    result: Option<(Measured, Duration)>,
}

pub(super) async fn run(wanted: Vec<Peer>, peers: Arc<LinkPeers>, operator: Operator) {
    let fed = wanted.into_iter().filter_map(|peer| {
        let known = peers.get(&peer.name)?;
        Some(Fed { peer, known, subjects: HashSet::new() })
    });
    let mut fed: Vec<Fed> = fed.collect();
    let mut follower = operator.follow(operator.events().last());
    let (mut round, mut next) = (0_u32, Instant::now());
    loop {
        tokio::select! {
            followed = follower.next() => match followed {
                Some(Followed::Event(event)) => fed.iter().for_each(|fed| report(fed, &event)),
                Some(Followed::Missed(_)) => {}
                // The program is shutting down.
                None => return,
            },
            () = sleep_until(next) => {
                let own = own_states(&operator);
                round = round.wrapping_add(1);
                fed.iter_mut().for_each(|fed| compare(fed, &own, round.is_multiple_of(REPEAT_EVERY)));
                next = Instant::now() + COMPARE_EVERY;
            }
        }
    }
}

/// Sends a transition. A subject that was not part of the last comparison waits for the next
/// comparison.
fn report(fed: &Fed, event: &Event) {
    let (subject, state, reason) = match &event.what {
        EventKind::Check { name, to, reason, .. } => (Subject::check(name), of_check(*to), reason),
        EventKind::Endpoint { name, to, note, .. } => (Subject::endpoint(name), shared_state(*to), note),
        _ => return,
    };
    if fed.subjects.contains(&subject) {
        fed.known.handle.with(|now, link| link.restate(now, subject, state, reason));
    }
}

/// Sends all differences. On an open connection, also sends new results or, with `repeats`, all
/// states.
fn compare(fed: &mut Fed, own: &[Own], repeats: bool) {
    let sent: Vec<&Own> = own.iter().filter(|own| fed.sends(&own.subject)).collect();
    fed.subjects = sent.iter().map(|own| own.subject.clone()).collect();
    fed.known.handle.with(|now, link| {
        link.retain(now, |subject| fed.subjects.contains(subject));
        let is_open = link.is_open();
        for own in sent {
            link.restate(now, own.subject.clone(), own.state, &own.reason);
            if is_open {
                result(now, link, own, repeats);
            }
        }
    });
}

fn result(now: Time, link: &mut Link, own: &Own, repeats: bool) {
    let new = own.result.filter(|(_, age)| *age < COMPARE_EVERY).map(|(measured, _)| measured);
    if new.is_some() || repeats {
        link.result(now, own.subject.clone(), own.state, &own.reason, new);
    }
}

/// Returns all endpoints, and all checks except those of type `link` or `alias`. Such checks may
/// repeat the states of peers, so two instances could keep confirming each other's old state.
fn own_states(operator: &Operator) -> Vec<Own> {
    let Some(running) = operator.running() else { return Vec::new() };
    let checks = running
        .checks(None, false)
        .into_iter()
        .filter(|check| !matches!(check.kind.as_str(), "alias" | "link"));
    let check = |CheckView { name, state, reason, last, .. }: CheckView| Own {
        subject: Subject::check(&name),
        state: of_check(state),
        reason,
        result: last.and_then(|last| Some((measured(last)?, Duration::from_millis(last.age_ms)))),
    };
    let endpoint = |EndpointView { name, state, note, .. }: EndpointView| Own {
        subject: Subject::endpoint(&name),
        state: shared_state(state),
        reason: note,
        result: None,
    };
    checks.map(check).chain(running.registry.endpoints().into_iter().map(endpoint)).collect()
}

/// The measured part of a result; `None` if the outcome is unknown.
fn measured(result: ResultView) -> Option<Measured> {
    let outcome = match result.outcome {
        OutcomeWord::Degraded => Outcome::Degraded,
        OutcomeWord::Error => Outcome::Error,
        OutcomeWord::Failure => Outcome::Failure,
        OutcomeWord::Maintenance => Outcome::Maintenance,
        OutcomeWord::Success => Outcome::Success,
        OutcomeWord::Timeout => Outcome::Timeout,
        OutcomeWord::Unknown => return None,
    };
    Some(Measured { outcome, latency_us: u64::from(result.latency_us) })
}

/// The state that is sent for a check: the old state while the check is going up or down.
const fn of_check(state: CheckWord) -> State {
    match state {
        CheckWord::Degraded => State::Degraded,
        CheckWord::Down | CheckWord::Flapping | CheckWord::GoingUp => State::Down,
        CheckWord::GoingDown | CheckWord::Up => State::Up,
        CheckWord::Maintenance => State::Maintenance,
        CheckWord::Stale | CheckWord::Unknown => State::Unknown,
    }
}
