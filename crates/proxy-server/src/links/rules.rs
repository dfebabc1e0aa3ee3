//! Checks of type `link` and the decisions about them.

use doorbell_checks::Finding;
use doorbell_checks::options::CheckKind;
use doorbell_health::Outcome;
use doorbell_link::{Decision, RemoteState, State, Subject, decide};
use doorbell_proxy_config::model::Config;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a reason in bytes. A reason lists instances, of which there may be hundreds,
/// and is stored with each decision.
const REASON_LEN_MAX: usize = 512;

/// A check of type `link`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Name of the check.
    pub(super) check: String,
    /// Names of the links.
    pub(super) from: Vec<String>,
    /// The check or endpoint whose states at the peers determine the result.
    pub(super) subject: Subject,
    pub(super) quorum: usize,
    pub(super) max_age: Duration,
}

impl Rule {
    /// The rules of a configuration.
    pub(super) fn all(config: &Config) -> Arc<[Self]> {
        let rules = config.checks.iter().filter_map(|check| {
            let CheckKind::Link(link) = &check.kind else { return None };
            Some(Self {
                check: check.name.clone(),
                from: link.from.iter().map(|from| from.name.clone()).collect(),
                subject: match &link.endpoint {
                    Some(endpoint) => Subject::endpoint(endpoint),
                    None => Subject::check(link.check.as_ref().unwrap_or(&check.name)),
                },
                quorum: link.quorum(),
                max_age: check.pace.max_age,
            })
        });
        rules.collect()
    }

    /// Combines the states at the peers into a result; `None` if the states decide nothing.
    /// `remote_states` are in the order of `from`.
    pub(super) fn finding(&self, remote_states: &[RemoteState]) -> Option<Finding> {
        let states: Vec<State> = remote_states.iter().map(|remote_state| remote_state.state).collect();
        let outcome = match decide(&states, self.quorum) {
            Decision::Degraded => Outcome::Degraded,
            Decision::Down => Outcome::Failure,
            Decision::Undecided => return None,
            Decision::Up => Outcome::Success,
        };
        Some(Finding { outcome, latency: Duration::ZERO, reason: self.reason(remote_states) })
    }

    /// Lists the instances that do not report up, with their reasons.
    fn reason(&self, remote_states: &[RemoteState]) -> String {
        let others =
            self.from.iter().zip(remote_states).filter(|(_, remote_state)| remote_state.state != State::Up);
        let texts = others.map(|(from, remote_state)| match remote_state.reason.as_str() {
            "" => format!("{from} {}", remote_state.state),
            reason => format!("{from} {} ({reason})", remote_state.state),
        });
        let mut reason = texts.collect::<Vec<_>>().join(", ");
        reason.truncate(reason.floor_char_boundary(REASON_LEN_MAX));
        reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_lists_the_instances_that_are_not_up() {
        let rule = Rule {
            check: "db".into(),
            from: ["eu", "us", "ap"].map(str::to_owned).into(),
            subject: Subject::check("db"),
            quorum: 2,
            max_age: Duration::from_secs(15),
        };
        let remote_state = |state, reason: &str| RemoteState { state, reason: reason.into() };
        let (up, unknown) = (remote_state(State::Up, "fine"), remote_state(State::Unknown, ""));
        let down = remote_state(State::Down, "refused");
        for (remote_states, expected) in [
            ([&up, &up, &up], Some((Outcome::Success, ""))),
            ([&up, &down, &up], Some((Outcome::Success, "us down (refused)"))),
            ([&down, &up, &down], Some((Outcome::Failure, "eu down (refused), ap down (refused)"))),
            ([&up, &down, &unknown], None),
            ([&up, &up, &unknown], Some((Outcome::Success, "ap unknown"))),
        ] {
            let remote_states: Vec<RemoteState> = remote_states.into_iter().cloned().collect();
            let found = rule.finding(&remote_states).map(|finding| (finding.outcome, finding.reason));
            assert_eq!(found, expected.map(|(outcome, reason)| (outcome, reason.to_owned())));
        }
        let long = remote_state(State::Down, &"é".repeat(200));
        let found = rule.finding(&[long.clone(), up, long]).expect("two of three");
        assert!(found.reason.starts_with("eu down (éé") && found.reason.len() == REASON_LEN_MAX - 1);
    }
}
