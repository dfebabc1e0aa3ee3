//! When each worker of a runtime last showed that it runs, by the figures that Tokio keeps of it.
//!
//! Does not know about: limits of the program, replies.
//!
//! A worker is blocked when it is not parked and its figures stand still. A worker that polls renews them every 61 polls (Tokio's
//! `event_interval`), so a worker that stands still for 61 times [`POLL_MAX`] blocks in one poll, or each of its polls takes longer.

use std::time::Duration;

use tokio::runtime::RuntimeMetrics;

/// A worker whose polls take no longer than this is never taken for a blocked one.
const POLL_MAX: Duration = Duration::from_millis(100);

/// Polls between two renewals of the figures.
const POLLS_A_RENEWAL: u32 = 61;

/// The shortest time after which a worker without a sign is blocked.
pub(crate) const SILENCE_MIN: Duration = POLL_MAX.saturating_mul(POLLS_A_RENEWAL);

/// The workers of one runtime.
#[derive(Debug)]
pub(crate) struct Workers {
    metrics: RuntimeMetrics,
    signs: Vec<Sign>,
}

/// What a worker last showed, and when.
#[derive(Clone, Copy, Debug)]
struct Sign {
    figures: Figures,
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    /// Odd while it is parked.
    parks: u64,
    busy: Duration,
}

impl Workers {
    pub(crate) fn new(metrics: RuntimeMetrics) -> Self {
        Self { metrics, signs: Vec::new() }
    }

    /// When the worker that is silent for longest gave its last sign. To be called by a task of the runtime.
    pub(crate) fn oldest_sign(&mut self, now: u64) -> u64 {
        let workers = self.metrics.num_workers();
        if workers == 1 {
            // The caller runs on it.
            return now;
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
        self.signs.iter().map(|sign| sign.at).min().unwrap_or(now)
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
        assert_eq!(sign.at, 1, "it runs and shows nothing");
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
