//! The last activity of each worker of a runtime, from Tokio's statistics.
//!
//! A worker is blocked if it is not parked and its statistics do not change. A polling worker
//! updates them every 61 polls (Tokio's `event_interval`). So if they do not change for 61 times a
//! duration D, the worker is blocked in one poll, or its polls take longer than D on average.

use std::time::Duration;

use tokio::runtime::RuntimeMetrics;

/// Number of polls between two updates of the statistics.
const POLLS_PER_UPDATE: u32 = 61;

/// Shortest time without activity after which a worker counts as blocked for readiness. Together
/// with the interval of the internal checks, a blocked worker is reported within 2 s. A worker
/// whose polls take at most 25 ms is never reported. With longer polls, connections wait for more
/// than a second, because a worker looks for I/O events only every 61 polls.
pub(crate) const READY_SILENCE_MIN: Duration = Duration::from_millis(25).saturating_mul(POLLS_PER_UPDATE);

/// Shortest time without activity after which a worker counts as blocked for liveness: polls of at
/// most 100 ms never cause a restart.
pub(crate) const LIVE_SILENCE_MIN: Duration = Duration::from_millis(100).saturating_mul(POLLS_PER_UPDATE);

/// The workers of one runtime.
#[derive(Debug)]
pub(crate) struct Workers {
    metrics: RuntimeMetrics,
    activities: Vec<Activity>,
}

/// The inactivity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    /// Index of the worker.
    pub(crate) worker: usize,
    /// Duration of the inactivity.
    pub(crate) time: Duration,
}

/// Last known statistics of a worker, and the time of their last change.
#[derive(Clone, Copy, Debug)]
struct Activity {
    figures: Figures,
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    /// Odd while the worker is parked.
    parks: u64,
    busy: Duration,
}

impl Workers {
    pub(crate) fn new(metrics: RuntimeMetrics) -> Self {
        Self { metrics, activities: Vec::new() }
    }

    /// The worker whose last activity is longest ago; a parked worker counts as active. `None` for
    /// a runtime with one worker: while that worker is blocked, the heartbeat of the runtime misses
    /// its ticks, which is detected already.
    pub(crate) fn longest_silence(&mut self, now: u64) -> Option<Silence> {
        let workers = self.metrics.num_workers();
        if workers == 1 {
            return None;
        }
        let figures = |worker| Figures {
            parks: self.metrics.worker_park_unpark_count(worker),
            busy: self.metrics.worker_total_busy_duration(worker),
        };
        let new =
            (self.activities.len()..workers).map(|worker| Activity { figures: figures(worker), at: now });
        let new: Vec<_> = new.collect();
        self.activities.extend(new);
        for (worker, activity) in self.activities.iter_mut().enumerate() {
            activity.update(figures(worker), now);
        }
        let (worker, activity) =
            self.activities.iter().enumerate().min_by_key(|(_, activity)| activity.at)?;
        Some(Silence { worker, time: Duration::from_nanos(now.saturating_sub(activity.at)) })
    }
}

impl Activity {
    fn update(&mut self, figures: Figures, now: u64) {
        let is_parked = figures.parks % 2 == 1;
        if is_parked || figures != self.figures {
            *self = Self { figures, at: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_worker_that_neither_parks_nor_polls_is_silent() {
        let at = |parks, busy| Figures { parks, busy: Duration::from_nanos(busy) };
        let mut activity = Activity { figures: at(2, 5), at: 1 };
        activity.update(at(2, 5), 2);
        assert_eq!(activity.at, 1, "a running worker without an update shows no activity");
        activity.update(at(2, 6), 3);
        assert_eq!(activity.at, 3, "it polls");
        activity.update(at(3, 6), 4);
        activity.update(at(3, 6), 5);
        assert_eq!(activity.at, 5, "it is parked");
        activity.update(at(4, 6), 6);
        activity.update(at(4, 6), 7);
        assert_eq!(activity.at, 6, "it woke up");
    }
}
