//! Requests for early runs: from probes that find an old result, from checks whose target reports a
//! change, and from the schedule of shared checks.

use crate::scheduler::counters::SchedulerCounters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;

/// Maximum number of pending requests. A check has at most one from probes and one from its target.
const REQUESTS_MAX: usize = 4096;

/// Request for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A probe arrived; the last result may still be fresh.
    Probe(usize),
    /// The target reported a change, or a run of a shared check must start.
    Change(usize),
}

/// Sending end of the queue, shared by all requesters.
#[derive(Clone, Debug)]
pub(crate) struct RequestQueue {
    sender: mpsc::Sender<Request>,
    counters: Arc<SchedulerCounters>,
}

/// Requests runs of one check.
///
/// Can be shared between threads.
#[derive(Clone, Debug)]
pub struct RunRequest {
    run: usize,
    /// Whether a request is pending; cleared when the run starts.
    is_asked: Arc<AtomicBool>,
    queue: RequestQueue,
}

/// Reports a change of one check's target.
#[cfg(feature = "kinds")]
#[derive(Clone, Debug)]
pub(crate) struct ChangeNotice {
    run: usize,
    /// Whether a report is pending; cleared when the scheduler receives it.
    is_changed: Arc<AtomicBool>,
    queue: RequestQueue,
}

/// Starts runs of one check that instances share.
///
/// Can be shared between threads.
#[cfg(feature = "kinds")]
#[derive(Clone, Debug)]
pub struct RunStart(ChangeNotice);

impl RequestQueue {
    pub(crate) fn new(counters: Arc<SchedulerCounters>) -> (Self, mpsc::Receiver<Request>) {
        let (sender, requests) = mpsc::channel(REQUESTS_MAX);
        (Self { sender, counters }, requests)
    }

    pub(crate) fn run_request(&self, run: usize, is_asked: &Arc<AtomicBool>) -> RunRequest {
        RunRequest { run, is_asked: Arc::clone(is_asked), queue: self.clone() }
    }

    #[cfg(feature = "kinds")]
    pub(crate) fn change_notice(&self, run: usize, is_changed: &Arc<AtomicBool>) -> ChangeNotice {
        ChangeNotice { run, is_changed: Arc::clone(is_changed), queue: self.clone() }
    }

    #[cfg(feature = "kinds")]
    pub(crate) fn run_start(&self, run: usize, is_changed: &Arc<AtomicBool>) -> RunStart {
        RunStart(self.change_notice(run, is_changed))
    }

    fn send(&self, request: Request) -> bool {
        let is_queued = self.sender.try_send(request).is_ok();
        if !is_queued {
            self.counters.calls_refused.fetch_add(1, Ordering::Relaxed);
        }
        is_queued
    }
}

impl RunRequest {
    /// Requests a run if the last result is old. Never blocks; while a request is pending this only
    /// reads a flag.
    #[inline]
    pub fn ask(&self) {
        if !self.is_asked.load(Ordering::Relaxed) {
            self.ask_first();
        }
    }

    #[cold]
    fn ask_first(&self) {
        if self.is_asked.swap(true, Ordering::AcqRel) {
            return;
        }
        self.queue.counters.asked.fetch_add(1, Ordering::Relaxed);
        if !self.queue.send(Request::Probe(self.run)) {
            self.is_asked.store(false, Ordering::Release);
        }
    }
}

#[cfg(feature = "kinds")]
impl ChangeNotice {
    pub(crate) fn changed(&self) {
        if !self.is_changed.swap(true, Ordering::AcqRel) && !self.queue.send(Request::Change(self.run)) {
            self.is_changed.store(false, Ordering::Release);
        }
    }
}

#[cfg(feature = "kinds")]
impl RunStart {
    /// Makes the next run due now. Never blocks; while a request is pending this does nothing.
    pub fn start(&self) {
        self.0.changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_requests_are_sent_once() {
        let (queue, mut requests) = RequestQueue::new(Arc::default());
        let is_asked = Arc::new(AtomicBool::new(false));
        let request = queue.run_request(3, &is_asked);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| request.ask()));
            }
        });
        assert_eq!(requests.try_recv(), Ok(Request::Probe(3)));
        assert!(requests.try_recv().is_err());
        is_asked.store(false, Ordering::Release);
        request.ask();
        assert_eq!(requests.try_recv(), Ok(Request::Probe(3)));
        assert_eq!(queue.counters.asked.load(Ordering::Relaxed), 2);
    }

    #[cfg(feature = "kinds")]
    #[test]
    fn many_changes_are_one_request() {
        let (queue, mut requests) = RequestQueue::new(Arc::default());
        let is_changed = Arc::new(AtomicBool::new(false));
        let notice = queue.change_notice(0, &is_changed);
        (0..2 * REQUESTS_MAX).for_each(|_| notice.changed());
        assert_eq!(requests.try_recv(), Ok(Request::Change(0)));
        assert!(requests.try_recv().is_err());
        assert_eq!(queue.counters.calls_refused.load(Ordering::Relaxed), 0);
        is_changed.store(false, Ordering::Release);
        notice.changed();
        assert_eq!(requests.try_recv(), Ok(Request::Change(0)));
    }

    #[cfg(feature = "kinds")]
    #[test]
    fn a_refused_request_may_be_repeated() {
        let (queue, mut requests) = RequestQueue::new(Arc::default());
        let notices = (0..REQUESTS_MAX).map(|run| queue.change_notice(run, &Arc::default()));
        notices.for_each(|notice| notice.changed());
        let is_asked = Arc::new(AtomicBool::new(false));
        let request = queue.run_request(1, &is_asked);
        request.ask();
        assert!(!is_asked.load(Ordering::Relaxed));
        assert_eq!(queue.counters.calls_refused.load(Ordering::Relaxed), 1);
        assert_eq!(requests.try_recv(), Ok(Request::Change(0)));
        request.ask();
        assert!(is_asked.load(Ordering::Relaxed));
    }
}
