//! Replies to HAProxy's agent-check: one line per endpoint, rendered when its state changes.
//!
//! Every line contains the full state. HAProxy keeps a state that an agent reported until the agent
//! reports another, so `up` is always sent with `ready` or `drain`, and with a weight (HAProxy
//! configuration manual, `agent-check`).

use crate::prober_stats::ProbeCounters;
use crate::registry::{Registry, Serving};
use crate::replies::Published;
use crate::trigger::RunTrigger;
use doorbell_health::{Audience, EndpointState};
use doorbell_http::Time;
use doorbell_http::prober::Prober;
use std::fmt::Write as _;
use std::sync::Arc;

/// Maximum length of a line. HAProxy shows the text after `#` in its log and on its statistics
/// page.
const LINE_LEN_MAX: usize = 200;

/// The lines of all endpoints of a registry.
#[derive(Debug)]
pub struct AgentLines {
    endpoints: Vec<Line>,
    published: Arc<Published>,
    /// Index of the lines, for [`ReplySet::text`](crate::ReplySet::text).
    texts: usize,
    maxconn: Option<u32>,
}

/// Triggers and probe counters of one endpoint.
#[derive(Debug)]
struct Line {
    triggers: Box<[RunTrigger]>,
    probe_counters: Option<Arc<ProbeCounters>>,
}

impl AgentLines {
    /// Renders the lines of all endpoints, now and after every change of a state. With `maxconn`,
    /// every line sets that connection limit.
    #[must_use]
    pub fn follow(registry: &Registry, maxconn: Option<u32>) -> Arc<Self> {
        let line_of = |endpoint| Line {
            triggers: registry.triggers_of(endpoint),
            probe_counters: registry.prober_stats().probe_counters(endpoint).cloned(),
        };
        let texts = registry.render(move |serving, position| line(serving, position, maxconn).into_bytes());
        let published = Arc::clone(registry.published());
        let endpoints = (0..registry.endpoints_len()).map(line_of).collect();
        Arc::new(Self { endpoints, published, texts, maxconn })
    }

    /// The connection limit that every line sets.
    #[must_use]
    pub const fn maxconn(&self) -> Option<u32> {
        self.maxconn
    }

    /// Appends the line of the endpoint at position `endpoint` to `reply`, counts a HAProxy probe,
    /// and triggers the endpoint's on-demand checks.
    pub fn write(&self, endpoint: usize, now: Time, reply: &mut Vec<u8>) {
        let Some(line) = self.endpoints.get(endpoint) else { return };
        let set = self.published.load();
        reply.extend_from_slice(set.text(self.texts, endpoint));
        line.triggers.iter().for_each(RunTrigger::request);
        if let Some(probe_counters) = &line.probe_counters {
            let (state, _) = set.states(endpoint)[Audience::LoadBalancer as usize];
            probe_counters.own().count(Some(Prober::Haproxy), state, now);
        }
    }
}

/// Renders the line of the endpoint at `position`: its full state for load balancers.
fn line(serving: &Serving<'_>, position: usize, maxconn: Option<u32>) -> String {
    let Some(endpoint) = serving.endpoint(position) else { return String::new() };
    let (verdict, code) = endpoint.answer(Audience::LoadBalancer);
    let share = share_of(endpoint.weight(), endpoint.config().uses.iter().map(|one| one.weight));
    let note = endpoint.note(verdict);
    let names = || {
        let mut names = String::new();
        for name in endpoint.deciding(verdict).filter_map(|one| serving.check_name(one.check)) {
            // `written` truncates the line, and an endpoint may have thousands of checks.
            if names.len() > LINE_LEN_MAX {
                break;
            }
            names.push_str(if names.is_empty() { "" } else { " " });
            names.push_str(name);
        }
        names
    };
    let (mut words, why) = match verdict.state {
        EndpointState::Up if code < 400 => (format!("up ready {share}%"), String::new()),
        EndpointState::Degraded if code < 400 => {
            (format!("up ready {share}%"), format!("degraded {}", names()))
        }
        EndpointState::Degraded | EndpointState::Down | EndpointState::Up => {
            ("down ready".to_owned(), names())
        }
        EndpointState::Drain => {
            let beneath = endpoint.verdict_without_drain().state;
            let operation = if beneath == EndpointState::Down { "down" } else { "up" };
            (format!("{operation} drain {share}%"), "draining".to_owned())
        }
        EndpointState::Maintenance => ("maint".to_owned(), "maintenance".to_owned()),
    };
    if let Some(maxconn) = maxconn {
        let _infallible = write!(words, " maxconn:{maxconn}");
    }
    written(words, if note.is_empty() { &why } else { note })
}

/// Percentage of the total weight that is serving; 100 without weights. A nonzero weight is never
/// rounded down to 0, because HAProxy sends no new traffic to a server of weight 0.
fn share_of(serving: Option<u32>, all: impl Iterator<Item = u32>) -> u64 {
    let all: u64 = all.map(u64::from).sum();
    let share = |serving: u32| {
        let percent = (u64::from(serving) * 100).checked_div(all).unwrap_or(100);
        percent.max(u64::from(serving > 0))
    };
    serving.map_or(100, share)
}

/// Joins the words and the reason into one line. Characters of the reason other than visible ASCII
/// are replaced by spaces, so that they cannot end the line early.
fn written(words: String, why: &str) -> String {
    let mut line = words;
    let why: String = why.chars().map(|c| if c.is_ascii_graphic() { c } else { ' ' }).collect();
    if !why.trim().is_empty() {
        let _infallible = write!(line, " # {}", why.trim());
    }
    line.truncate(LINE_LEN_MAX - 1);
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EndpointOptions;
    use doorbell_health::{
        CheckConfig, CheckResult, EndpointConfig, FailOpen, Outcome, Quorum, Severity, Time, Use,
    };
    use std::time::Duration;

    const NOW: Time = Time::from_secs(1);
    const PROBED_AT: doorbell_http::Time = doorbell_http::Time::from_nanos(7);

    /// A registry with one endpoint that uses two pushed checks, `db` and `cache`.
    fn registry(endpoint: impl FnOnce([Use; 2]) -> EndpointConfig) -> Arc<Registry> {
        let mut builder = Registry::builder(Time::ZERO, Duration::ZERO);
        let [db, cache] = [("db", 60), ("cache", 40)].map(|(name, weight)| {
            let check = builder.check(name, CheckConfig::ttl(Duration::from_mins(1))).unwrap();
            Use { weight, ..Use::new(check, Severity::Required) }
        });
        builder.endpoint(endpoint([db, cache]), EndpointOptions::default()).unwrap();
        builder.build()
    }

    fn push(registry: &Registry, check: usize, outcome: Outcome) {
        let _next = registry.found(check, &CheckResult::new(outcome, Duration::ZERO, b"x"), NOW);
    }

    fn line_of(lines: &AgentLines) -> String {
        let mut line = Vec::new();
        lines.write(0, PROBED_AT, &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(written("down ready".into(), "a\r\nup"), "down ready # a  up\n");
        assert_eq!(written("up ready 100%".into(), " \n"), "up ready 100%\n");
        let long = written("maint".into(), &"é\n".repeat(500));
        assert_eq!(long, "maint\n");
        let long = written("maint".into(), &"x".repeat(500));
        assert!(long.len() == LINE_LEN_MAX && long.ends_with("x\n"));
    }

    #[test]
    fn shares() {
        assert_eq!(share_of(None, [].into_iter()), 100);
        assert_eq!(share_of(Some(0), [0, 0].into_iter()), 100);
        assert_eq!(share_of(Some(60), [60, 40].into_iter()), 60);
        assert_eq!(share_of(Some(2), [1, 1, 1].into_iter()), 66);
        assert_eq!(share_of(Some(1), [1; 200].into_iter()), 1);
        assert_eq!(share_of(Some(0), [1; 200].into_iter()), 0);
        assert_eq!(share_of(Some(u32::MAX), [u32::MAX, u32::MAX].into_iter()), 50);
    }

    #[test]
    fn lines_say_everything_and_follow_the_registry() {
        let registry = registry(|[db, cache]| EndpointConfig {
            uses: vec![db, Use { severity: Severity::Degrading, ..cache }],
            ..EndpointConfig::new("readyz")
        });
        let lines = AgentLines::follow(&registry, None);
        let limited = AgentLines::follow(&registry, Some(30));
        let now = || line_of(&lines);
        assert_eq!(now(), "down ready # db\n");
        push(&registry, 0, Outcome::Success);
        assert_eq!(now(), "up ready 60% # degraded cache\n");
        assert_eq!(line_of(&limited), "up ready 60% maxconn:30 # degraded cache\n");
        push(&registry, 1, Outcome::Success);
        assert_eq!(now(), "up ready 100%\n");
        push(&registry, 0, Outcome::Failure);
        assert_eq!(now(), "down ready # db\n");
        registry.drain(Some(""), NOW);
        assert_eq!(now(), "down drain 40% # draining\n");
        push(&registry, 0, Outcome::Success);
        assert_eq!(now(), "up drain 100% # draining\n");
        registry.drain(Some("release 42"), NOW);
        assert_eq!(now(), "up drain 100% # release 42\n");
        registry.drain(None, NOW);
        let subject = registry.subject("readyz").unwrap();
        registry.maintain([(subject, Some(("patching\nnow", None)))], NOW);
        assert_eq!(now(), "maint # patching now\n");
        registry.maintain([(subject, None)], NOW);
        assert_eq!(now(), "up ready 100%\n");
    }

    #[test]
    fn what_stays_open_has_all_its_weight() {
        let registry = registry(|uses| EndpointConfig {
            uses: uses.map(|one| Use { severity: Severity::Degrading, in_quorum: true, ..one }).into(),
            quorum: Some(Quorum::Count(1)),
            fail_open: Some(FailOpen { max_age: Duration::from_mins(2), max_healthy: 0 }),
            ..EndpointConfig::new("readyz")
        });
        let lines = AgentLines::follow(&registry, None);
        let push_both = |outcome| (0..2).for_each(|check| push(&registry, check, outcome));
        push_both(Outcome::Success);
        assert_eq!(line_of(&lines), "up ready 100%\n");
        push_both(Outcome::Failure);
        let line = line_of(&lines);
        assert!(line.starts_with("up ready 100% # degraded "), "{line}");
    }

    #[test]
    fn a_line_counts_a_probe() {
        let registry = registry(|uses| EndpointConfig { uses: uses.into(), ..EndpointConfig::new("readyz") });
        let lines = AgentLines::follow(&registry, None);
        assert_eq!(registry.prober_stats().rows(), []);
        line_of(&lines);
        let rows = registry.prober_stats().rows();
        let rows: Vec<_> = rows.iter().map(|row| (row.prober_name(), row.count(), row.last)).collect();
        assert_eq!(rows, [("haproxy", 1, PROBED_AT)]);
    }
}
