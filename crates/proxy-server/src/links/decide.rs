//! Determines the results of checks of type `link` when a subject (a check or an endpoint) changes
//! at a peer, and repeats each result before it is stale.

use super::peers::LinkPeers;
use super::rules::Rule;
use crate::operator::Operator;
use doorbell_checks::options::DECISION_TTL;
use doorbell_link::{RemoteState, State};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Time between two decisions without a change. Each decision is a result: it counts towards `rise`
/// and `fall`, and is part of the history.
const REPEAT_AFTER: Duration = Duration::from_secs(DECISION_TTL.as_secs() / 4);

/// Time to wait for further changes, so that many changes cause one decision.
const COLLECT: Duration = Duration::from_millis(20);

/// Number of decisions after which the check scheduler gets time to process them.
const BATCH_LEN: usize = 256;

pub(super) async fn run(peers: Arc<LinkPeers>, operator: Operator) {
    loop {
        let repeat_at = Instant::now() + REPEAT_AFTER;
        decide_all(peers.rules().iter(), &peers, &operator).await;
        // A flood of changes must not delay the repetition.
        while Instant::now() < repeat_at && timeout_at(repeat_at, peers.changed()).await.is_ok() {
            sleep(COLLECT).await;
            let subjects = peers.take_changed();
            let rules = peers.rules();
            let concerned = rules.iter().filter(|rule| subjects.contains(&rule.subject));
            decide_all(concerned, &peers, &operator).await;
        }
    }
}

async fn decide_all(rules: impl Iterator<Item = &Rule>, peers: &LinkPeers, operator: &Operator) {
    for (number, rule) in rules.enumerate() {
        if number > 0 && number.is_multiple_of(BATCH_LEN) {
            sleep(COLLECT).await;
        }
        decide(rule, peers, operator);
    }
}

fn decide(rule: &Rule, peers: &LinkPeers, operator: &Operator) {
    let unknown = || RemoteState { state: State::Unknown, reason: String::new() };
    let remote_state =
        |from: &String| peers.state_of(from, &rule.subject, rule.max_age).unwrap_or_else(unknown);
    let remote_states: Vec<RemoteState> = rule.from.iter().map(remote_state).collect();
    if let Some(finding) = rule.finding(&remote_states) {
        // A decision is refused while a reload replaces the check; it is repeated later.
        let _refused = operator.decide(&rule.check, finding);
    }
}
