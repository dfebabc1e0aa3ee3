//! Pushed results and the end of a scheduler.
//!
//! Does not know about: how results are pushed.

use super::names::Seen;
use super::*;
use std::sync::Mutex;

/// An accepted result reaches the sink even if the scheduler ends immediately.
#[test]
fn accepted_results_survive_the_end_of_the_scheduler() {
    let (plan, push) = Plan::new(Vec::new(), Vec::new(), 1, Arc::default());
    let sink = Arc::new(Seen { origin: Instant::now(), outcomes: Mutex::default() });
    let scheduler = plan.start(Arc::clone(&sink)).unwrap().go();
    let finding = || Finding { outcome: Outcome::Success, latency: Duration::ZERO, reason: String::new() };
    let accepted = (0..1_000).filter(|&check| push.leave(check, finding())).count();
    drop(scheduler);
    assert_eq!(sink.outcomes.lock().unwrap().len(), accepted);
    assert!(!push.leave(0, finding()), "the queue is closed");
}
