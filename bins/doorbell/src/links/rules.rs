//! Checks of type `link` and the decisions about them.
//!
//! Does not know about: the source of statements.

use crate::config::model::Config;
use doorbell_checks::Finding;
use doorbell_checks::options::CheckKind;
use doorbell_health::Outcome;
use doorbell_link::{Decision, Opinion, State, Subject, decide};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a reason. Each decision is stored with its reason, and there may be hundreds
/// of instances.
const REASON_LEN_MAX: usize = 512;

/// A check of type `link`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Its name.
    pub(super) check: String,
    /// Names of the links.
    pub(super) from: Vec<String>,
    /// The subject on which the instances decide.
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

    /// Returns the decision of the instances; `None` without a decision. `opinions` are in the
    /// order of `from`.
    pub(super) fn finding(&self, opinions: &[Opinion]) -> Option<Finding> {
        let states: Vec<State> = opinions.iter().map(|opinion| opinion.state).collect();
        let outcome = match decide(&states, self.quorum) {
            Decision::Degraded => Outcome::Degraded,
            Decision::Down => Outcome::Failure,
            Decision::Undecided => return None,
            Decision::Up => Outcome::Success,
        };
        Some(Finding { outcome, latency: Duration::ZERO, reason: self.reason(opinions) })
    }

    /// Lists the instances that do not report up, with their reasons.
    fn reason(&self, opinions: &[Opinion]) -> String {
        let others = self.from.iter().zip(opinions).filter(|(_, opinion)| opinion.state != State::Up);
        let texts = others.map(|(from, opinion)| match opinion.reason.as_str() {
            "" => format!("{from} {}", opinion.state),
            reason => format!("{from} {} ({reason})", opinion.state),
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
        let opinion = |state, reason: &str| Opinion { state, reason: reason.into() };
        let (up, unknown) = (opinion(State::Up, "fine"), opinion(State::Unknown, ""));
        let down = opinion(State::Down, "refused");
        for (opinions, expected) in [
            ([&up, &up, &up], Some((Outcome::Success, ""))),
            ([&up, &down, &up], Some((Outcome::Success, "us down (refused)"))),
            ([&down, &up, &down], Some((Outcome::Failure, "eu down (refused), ap down (refused)"))),
            ([&up, &down, &unknown], None),
            ([&up, &up, &unknown], Some((Outcome::Success, "ap unknown"))),
        ] {
            let opinions: Vec<Opinion> = opinions.into_iter().cloned().collect();
            let found = rule.finding(&opinions).map(|finding| (finding.outcome, finding.reason));
            assert_eq!(found, expected.map(|(outcome, reason)| (outcome, reason.to_owned())));
        }
        let long = opinion(State::Down, &"é".repeat(200));
        let found = rule.finding(&[long.clone(), up, long]).expect("two of three");
        assert!(found.reason.starts_with("eu down (éé") && found.reason.len() == REASON_LEN_MAX - 1);
    }
}
