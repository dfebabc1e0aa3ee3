//! Due times and sequence numbers of the next requests.
//!
//! A rate needs no queue of waiting requests, because the due time of the n-th request can be
//! computed however late it starts.

use crate::clock::{NEVER, Nanos};
use crate::conn::Batch;

/// The due times and sequence numbers of one worker's requests.
#[derive(Debug)]
pub(crate) struct Pace {
    kind: Kind,
    /// Sequence number of the next request.
    next: u64,
    /// Whether the next requests count.
    is_measured: bool,
    /// End of the sequence numbers. No request with this or a later number starts.
    end: u64,
    /// End of the run. No request starts from this time on.
    ends_at: Nanos,
}

#[derive(Debug)]
enum Kind {
    /// Every free connection gets work at once.
    Closed,
    /// The n-th request is due at `from + n * step`.
    Rate { from: Nanos, step: f64 },
}

impl Pace {
    pub(crate) const fn closed(ends_at: Nanos) -> Self {
        Self { kind: Kind::Closed, next: 0, is_measured: true, end: u64::MAX, ends_at }
    }

    /// Creates a pace at intervals of `step` nanoseconds. The first request is due at `from`.
    pub(crate) const fn rate(from: Nanos, step: f64, ends_at: Nanos) -> Self {
        Self { kind: Kind::Rate { from, step }, next: 0, is_measured: true, end: u64::MAX, ends_at }
    }

    /// Starts the warm-up of a limited number of requests: until [`Self::limit`], none counts.
    pub(crate) const fn warm_up(&mut self) {
        self.is_measured = false;
    }

    /// Limits the number of further requests, which count.
    pub(crate) const fn limit(&mut self, requests: u64) {
        self.is_measured = true;
        self.end = self.next.saturating_add(requests);
    }

    /// Returns the next requests, at most `max`, if a request is due.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, max: u32) -> Option<Batch> {
        if self.is_over(now) {
            return None;
        }
        let limit = u32::try_from(self.end - self.next).unwrap_or(u32::MAX).min(max);
        let (first, is_measured) = (self.next, self.is_measured);
        let batch = Batch { first, count: limit, done: 0, base: now, step: 0, is_measured };
        let batch = match self.kind {
            Kind::Closed => batch,
            Kind::Rate { step, .. } => {
                let count = (0..limit).take_while(|n| self.due(self.next + u64::from(*n)) <= now).count();
                let count = u32::try_from(count).unwrap_or(limit);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a time, not negative"
                )]
                // The step is at least 1, which distinguishes a batch with a rate from a batch
                // without.
                let step = (step as Nanos).max(1);
                Batch { count, base: self.due(self.next), step, ..batch }
            }
        };
        if batch.count == 0 {
            return None;
        }
        self.next += u64::from(batch.count);
        Some(batch)
    }

    /// Due time of the next request. In a closed loop it is now or earlier; `NEVER` means that
    /// there are no more requests.
    pub(crate) fn next_due(&self) -> Nanos {
        match self.kind {
            _ if self.next >= self.end => NEVER,
            Kind::Closed => 0,
            Kind::Rate { .. } => self.due(self.next),
        }
    }

    /// Whether no further request starts.
    #[inline]
    pub(crate) const fn is_over(&self, now: Nanos) -> bool {
        now >= self.ends_at || self.next >= self.end
    }

    /// Number of requests that were due before `until` and were never started.
    pub(crate) fn unstarted(&self, until: Nanos) -> u64 {
        let Kind::Rate { from, step } = self.kind else { return 0 };
        let until = until.min(self.ends_at);
        if until <= from {
            return 0;
        }
        #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a count of requests")]
        #[expect(clippy::cast_possible_truncation, reason = "a count of requests")]
        let due = ((until - from) as f64 / step).ceil() as u64;
        due.min(self.end).saturating_sub(self.next)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a day of nanoseconds is below 2^53"
    )]
    #[expect(clippy::cast_possible_truncation, reason = "a day of nanoseconds is below 2^53")]
    fn due(&self, index: u64) -> Nanos {
        match self.kind {
            Kind::Closed => 0,
            Kind::Rate { from, step } => from + (index as f64 * step) as Nanos,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_loop_gives_work_until_the_end() {
        let mut pace = Pace::closed(100);
        let first = Batch { first: 0, count: 3, done: 0, base: 7, step: 0, is_measured: true };
        assert_eq!(pace.take(7, 3), Some(first));
        pace.limit(4);
        assert_eq!(pace.take(8, 3).map(|batch| (batch.first, batch.count)), Some((3, 3)));
        assert_eq!(pace.take(9, 3).map(|batch| (batch.first, batch.count)), Some((6, 1)));
        let mut pace = Pace::closed(100);
        pace.warm_up();
        assert!(pace.take(7, 3).is_some_and(|batch| !batch.is_measured));
        pace.limit(1);
        assert!(pace.take(7, 3).is_some_and(|batch| batch.is_measured));
        let mut pace = Pace::closed(100);
        pace.limit(7);
        assert!(pace.take(7, 7).is_some());
        assert_eq!(pace.take(10, 3), None);
        assert_eq!(pace.next_due(), NEVER);
        assert_eq!(pace.unstarted(100), 0);
        assert!(Pace::closed(100).take(100, 1).is_none());
    }

    #[test]
    fn a_rate_keeps_its_times_however_late_it_is_asked() {
        let mut pace = Pace::rate(1_000, 10.0, 2_000);
        assert_eq!(pace.take(999, 8), None);
        assert_eq!(pace.next_due(), 1_000);
        let first = Batch { first: 0, count: 1, done: 0, base: 1_000, step: 10, is_measured: true };
        assert_eq!(pace.take(1_000, 8), Some(first));
        assert_eq!(pace.take(1_000, 8), None);
        // The requests due at 1,010 to 1,500 are fifty.
        let late = pace.take(1_500, 8).unwrap();
        assert_eq!((late.first, late.count, late.base), (1, 8, 1_010));
        assert_eq!(pace.take(1_500, 100).unwrap().count, 42);
        assert_eq!(pace.next_due(), 1_510);
        // Of the 100 requests that are due before time 2,000, 51 have started.
        assert_eq!(pace.take(2_000, 1), None);
        assert_eq!(pace.unstarted(2_000), 49);
        assert_eq!(pace.unstarted(1_510), 0);
        assert_eq!(pace.unstarted(1_511), 1);
    }

    #[test]
    fn an_odd_rate_does_not_drift() {
        let mut pace = Pace::rate(0, 1e9 / 3.0, NEVER);
        let mut last = 0;
        for _ in 0..3_000 {
            let due = pace.next_due();
            last = pace.take(due, 1).unwrap().base;
        }
        assert_eq!(last, 999_666_666_666);
        pace.limit(0);
        assert!(pace.is_over(0) && pace.take(NEVER - 1, 1).is_none());
    }
}
