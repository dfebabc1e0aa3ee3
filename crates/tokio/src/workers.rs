//! When each worker of a runtime last showed activity, by Tokio's statistics.
//!
//! Does not know about: the program's limits, replies.
//!
//! A worker is blocked if it is not parked and its statistics do not change. A polling worker
//! updates them every 61 polls (Tokio's `event_interval`), so a worker without an update for 61
//! times [`POLL_MAX`] blocks in one poll, or each of its polls takes longer than that.

use std::time::Duration;

use tokio::runtime::RuntimeMetrics;

/// A worker whose polls take at most this long is never taken for a blocked one.
const POLL_MAX: Duration = Duration::from_millis(100);

/// Polls between two updates of the statistics.
const POLLS_A_RENEWAL: u32 = 61;

/// Shortest time without activity after which a worker counts as blocked.
pub(crate) const SILENCE_MIN: Duration = POLL_MAX.saturating_mul(POLLS_A_RENEWAL);

/// The workers of one runtime.
#[derive(Debug)]
pub(crate) struct Workers {
    metrics: RuntimeMetrics,
    signs: Vec<Sign>,
}

/// A worker without activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    /// Its number.
    pub(crate) worker: usize,
    /// Since when.
    pub(crate) time: Duration,
}

/// The last change of a worker's statistics.
#[derive(Clone, Copy, Debug)]
struct Sign {
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
        Self { metrics, signs: Vec::new() }
    }

    /// The worker that has been inactive longest. `None` for a runtime with one worker, whose ticks
    /// show the same.
    pub(crate) fn longest_silence(&mut self, now: u64) -> Option<Silence> {
        let workers = self.metrics.num_workers();
        if workers == 1 {
            return None;
        }
        let figures = |worker| Figures {
            parks: self.metrics.worker_park_unpark_count(worker),
            busy: self.metrics.worker_total_busy_duration(worker),
        };
        let new = (self.signs.len()..workers).map(|worker| Sign { figures: figures(worker), at: now });
        let new: Vec<_> = new.collect();
        self.signs.extend(new);
        for (worker, sign) in self.signs.iter_mut().enumerate() {
            sign.renew(figures(worker), now);
        }
        let (worker, sign) = self.signs.iter().enumerate().min_by_key(|(_, sign)| sign.at)?;
        Some(Silence { worker, time: Duration::from_nanos(now.saturating_sub(sign.at)) })
    }
}

impl Sign {
    fn renew(&mut self, figures: Figures, now: u64) {
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
        let mut sign = Sign { figures: at(2, 5), at: 1 };
        sign.renew(at(2, 5), 2);
        assert_eq!(sign.at, 1, "a running worker without an update shows no activity");
        sign.renew(at(2, 6), 3);
        assert_eq!(sign.at, 3, "it polls");
        sign.renew(at(3, 6), 4);
        sign.renew(at(3, 6), 5);
        assert_eq!(sign.at, 5, "it is parked");
        sign.renew(at(4, 6), 6);
        sign.renew(at(4, 6), 7);
        assert_eq!(sign.at, 6, "it woke up");
    }
}
