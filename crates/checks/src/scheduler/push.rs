//! Queue of pushed results for the scheduler, or for the scheduler of a later configuration.

use crate::finding::Finding;
use crate::scheduler::counters::{SchedulerCounters, count};
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Maximum number of pending pushed results; further ones are refused.
const PUSHES_MAX: usize = 1024;

/// Passes pushed results to the scheduler.
#[derive(Clone, Debug)]
pub struct Push {
    destination: Arc<ArcSwap<Destination>>,
    counters: Arc<SchedulerCounters>,
}

/// The reason why a pushed result was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushRefused {
    /// Too many results are pending, or the scheduler has ended.
    Full,
    /// A reload has removed the check.
    NoCheck,
}

#[derive(Debug)]
enum Destination {
    Here(mpsc::Sender<(usize, Finding)>),
    /// A later scheduler has taken over. The list maps check numbers to the check numbers of the
    /// later scheduler.
    Successor(Arc<ArcSwap<Self>>, Vec<Option<usize>>),
}

impl Push {
    /// Creates a sender and the scheduler's receiver.
    pub(crate) fn new(counters: Arc<SchedulerCounters>) -> (Self, mpsc::Receiver<(usize, Finding)>) {
        let (sender, pushes) = mpsc::channel(PUSHES_MAX);
        let destination = Arc::new(ArcSwap::from_pointee(Destination::Here(sender)));
        (Self { destination, counters }, pushes)
    }

    /// Queues a finding.
    ///
    /// # Errors
    /// The queue is full, or there is no such check any more. The refusal is counted.
    pub fn leave(&self, check: usize, finding: Finding) -> Result<(), PushRefused> {
        let queued = self.destination.load().leave(check, finding);
        count(match queued {
            Ok(()) => &self.counters.pushed,
            Err(PushRefused::Full) => &self.counters.pushes_refused,
            Err(PushRefused::NoCheck) => &self.counters.pushes_without_check,
        });
        queued
    }

    /// Redirects further results to `successor`. `places` contains, for each check number of the
    /// successor, the number of the same check in this scheduler, if there is one.
    pub fn redirect(&self, successor: &Self, places: &[Option<usize>]) {
        let mut numbers = vec![None; places.iter().flatten().max().map_or(0, |last| last + 1)];
        for (now, before) in places.iter().enumerate() {
            if let Some(number) = before.and_then(|before| numbers.get_mut(before)) {
                *number = Some(now);
            }
        }
        self.destination.store(Arc::new(Destination::Successor(Arc::clone(&successor.destination), numbers)));
    }
}

impl Destination {
    /// Follows the chain of successors, one step per reload.
    fn leave(&self, check: usize, finding: Finding) -> Result<(), PushRefused> {
        match self {
            // A closed queue counts as full, too. A reload closes a queue only after `redirect`.
            Self::Here(sender) => sender.try_send((check, finding)).map_err(|_| PushRefused::Full),
            Self::Successor(successor, numbers) => {
                let there = numbers.get(check).copied().flatten().ok_or(PushRefused::NoCheck)?;
                successor.load().leave(there, finding)
            }
        }
    }
}
