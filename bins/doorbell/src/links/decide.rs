//! Decides the checks of type link when a state at a peer changes, and repeats each decision before
//! it is stale.
//!
//! Does not know about: how a decision is made, how statements arrive.

use super::peers::LinkPeers;
use super::rules::Rule;
use crate::operator::Operator;
use doorbell_checks::options::DECISION_TTL;
use doorbell_link::{Opinion, State};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Time between two decisions without a change.
const REPEAT_AFTER: Duration = Duration::from_secs(DECISION_TTL.as_secs() / 4);

/// Time in which further changes are awaited, so that many changes cause one decision.
const COLLECT: Duration = Duration::from_millis(20);

/// Number of decisions after which the scheduler of checks gets time to take them.
const BATCH_LEN: usize = 256;

pub(super) async fn run(peers: Arc<LinkPeers>, operator: Operator) {
    loop {
        for rules in peers.rules().chunks(BATCH_LEN) {
            for rule in rules {
                decide(rule, &peers, &operator);
            }
            sleep(COLLECT).await;
        }
        let _unchanged = timeout(REPEAT_AFTER, peers.changed()).await;
        sleep(COLLECT).await;
    }
}

fn decide(rule: &Rule, peers: &LinkPeers, operator: &Operator) {
    let unknown = || Opinion { state: State::Unknown, reason: String::new() };
    let opinion = |from: &String| peers.opinion(from, &rule.subject, rule.max_age).unwrap_or_else(unknown);
    let opinions: Vec<Opinion> = rule.from.iter().map(opinion).collect();
    if let Some(finding) = rule.finding(&opinions) {
        // Refused while a reload replaces the check; the decision is repeated.
        let _refused = operator.decide(&rule.check, finding);
    }
}
