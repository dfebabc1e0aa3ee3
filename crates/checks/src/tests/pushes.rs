//! Pushed results and the end of a scheduler.

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
    let accepted = (0..1_000).filter(|&check| push.leave(check, finding()).is_ok()).count();
    drop(scheduler);
    assert_eq!(sink.outcomes.lock().unwrap().len(), accepted);
    assert_eq!(push.leave(0, finding()), Err(PushRefused::Full), "the queue is closed");
}

/// A full queue is a loss, unlike a check that a reload has removed.
#[test]
fn refusals_are_counted_by_their_reason() {
    let counters = Arc::new(SchedulerCounters::default());
    let plan = || Plan::new(Vec::new(), Vec::new(), 1, Arc::clone(&counters));
    let ((_waits, push), (_later, successor)) = (plan(), plan());
    let finding = || Finding { outcome: Outcome::Success, latency: Duration::ZERO, reason: String::new() };
    let accepted = (0..2_000).take_while(|_| push.leave(7, finding()).is_ok()).count();
    assert_eq!(push.leave(7, finding()), Err(PushRefused::Full));
    // The second check of the successor is the seventh of this scheduler.
    push.redirect(&successor, &[None, Some(7)]);
    assert_eq!(push.leave(7, finding()), Ok(()));
    assert_eq!(push.leave(6, finding()), Err(PushRefused::NoCheck));
    assert_eq!(push.leave(8, finding()), Err(PushRefused::NoCheck));
    let fields = counters.fields().into_iter().filter(|(name, _)| name.starts_with("push"));
    let expected = [("pushed", accepted as u64 + 1), ("pushes_refused", 2), ("pushes_without_check", 2)];
    assert_eq!(fields.collect::<Vec<_>>(), expected);
}
