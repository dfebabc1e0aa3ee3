//! Pushed results and the end of a scheduler.

use super::names::Seen;
use super::*;
use doorbell_health::Time;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

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

/// A latency that another program reports has no upper bound.
#[test]
fn a_huge_latency_does_not_end_the_scheduler() {
    let stats = Arc::new(CheckStats::default());
    let (plan, push) = Plan::new(Vec::new(), vec![Arc::clone(&stats)], 1, Arc::default());
    let sink = Arc::new(Seen { origin: Instant::now(), outcomes: Mutex::default() });
    let scheduler = plan.start(Arc::clone(&sink)).unwrap().go();
    for latency in [Duration::from_micros(u64::MAX), Duration::from_micros(u64::MAX), Duration::MAX] {
        push.leave(0, Finding { outcome: Outcome::Success, latency, reason: String::new() }).unwrap();
    }
    drop(scheduler);
    assert_eq!(sink.outcomes.lock().unwrap().len(), 3);
    assert_eq!(stats.counts().durations().map(|(_, one)| one.sum_us).collect::<Vec<_>>(), [u64::MAX]);
}

/// A sink that makes the scheduler panic at its start.
struct Broken {
    seen: Seen,
    has_panicked: AtomicBool,
    ticks: SyncSender<()>,
}

impl ResultSink for Broken {
    fn now(&self) -> Time {
        self.seen.now()
    }

    fn instant(&self, time: Time) -> Instant {
        self.seen.instant(time)
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        self.seen.found(check, finding)
    }

    fn deadline(&self) -> Time {
        assert!(self.has_panicked.swap(true, Ordering::Relaxed), "the scheduler is broken");
        self.now()
    }

    fn tick(&self) {
        let _full = self.ticks.try_send(());
    }
}

/// Otherwise endpoints would stay up until the process ends.
#[test]
fn results_become_stale_after_a_panic_of_the_scheduler() {
    let (ticks, ticked) = sync_channel(1);
    let seen = Seen { origin: Instant::now(), outcomes: Mutex::default() };
    let (plan, push) = Plan::new(Vec::new(), Vec::new(), 1, Arc::default());
    let heartbeat = plan.heartbeat();
    let sink = Broken { seen, has_panicked: AtomicBool::new(false), ticks };
    let scheduler = plan.start(Arc::new(sink)).unwrap().go();
    for _ in 0..3 {
        ticked.recv().unwrap();
    }
    heartbeat.wake();
    ticked.recv().unwrap();
    assert_eq!(heartbeat.turns(), 1, "a watchdog detects the panic");
    let finding = Finding { outcome: Outcome::Success, latency: Duration::ZERO, reason: String::new() };
    assert_eq!(push.leave(0, finding), Err(PushRefused::Full));
    drop(scheduler);
}
