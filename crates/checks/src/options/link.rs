//! Options of checks of type `link`.

use super::target::Target;
use doorbell_config::{At, Link, Problem, Section, Table, format_duration};
use std::time::Duration;

/// Time after which the decision on the state of a `link` check is stale if it is not repeated.
pub const DECISION_TTL: Duration = Duration::from_secs(5);

/// Time after which instances repeat a state that did not change.
const REPEATED_AFTER: Duration = Duration::from_secs(5);

/// Default maximum age of a state received on a link.
const MAX_AGE: Duration = Duration::from_secs(30);

/// The state of a check or an endpoint at other instances, as received from them on links.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct LinkCheck {
    /// Links to the instances, `[link.NAME]`; one or a list. Required.
    #[key(required = "[\"eu\", \"us\", \"ap\"]", filled)]
    pub from: Vec<At<Link>>,
    /// Check of these instances. Default: the check with the same name, unless `endpoint` is set.
    pub check: Option<String>,
    /// Endpoint of these instances.
    pub endpoint: Option<String>,
    /// Number of instances that must report "down" for the check to be down. The check is up only if
    /// the number of instances that report "down" or are unknown is lower. Default: more than half
    /// of `from`.
    #[key(range = 1..=1000)]
    pub quorum: Option<u32>,
}

impl LinkCheck {
    /// Number of instances that must state down for the check to be down.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.quorum.map_or(self.from.len() / 2 + 1, |quorum| quorum as usize)
    }

    /// The maximum age of a state received on a link. The default does not depend on `interval`.
    pub(super) fn max_age(max_age: Duration, at: &Section<'_>) -> Duration {
        let Some(place) = at.right_place("max_age") else { return MAX_AGE };
        if max_age <= REPEATED_AFTER {
            let message = format!(
                "a statement is too old after {}, and is repeated after {}",
                format_duration(max_age),
                format_duration(REPEATED_AFTER)
            );
            let problem = Problem::warning("max-age-under-interval", place, message);
            at.problem_once(problem.help("the instances would often be unknown; make `max_age` longer"));
        }
        max_age
    }

    fn check(&self, at: &Section<'_>) {
        if let (Some(place), true) = (at.place("endpoint"), self.check.is_some()) {
            let message = "`check` and `endpoint` contradict each other";
            at.problem(Problem::error("contradiction", place, message).help("remove one of them"));
        }
        if let (Some(place), true) = (at.right_place("quorum"), self.quorum() > self.from.len()) {
            let message = format!("`quorum` is above the number of instances in `from`, {}", self.from.len());
            let problem = Problem::error("out-of-range", place, message);
            at.problem(problem.help("lower it, or add instances to `from`"));
        }
        let is_first = |(at, link): &(usize, &At<Link>)| {
            self.from.iter().position(|known| known.name == link.name) == Some(*at)
        };
        for (_, again) in self.from.iter().enumerate().filter(|one| !is_first(one)) {
            let message = format!("`{}` is named twice", again.name);
            let problem = Problem::error("repeated", again.span.clone(), message);
            at.problem(problem.help("each instance counts once; remove one of them"));
        }
    }
}

impl Target for LinkCheck {}
