//! Estimates the offset between two clocks as NTP does, with bounds.
//!
//! A frame is sent at `t1` and received at `t2` on the peer's clock. A frame in the other direction
//! is sent at `t3` on the peer's clock and received at `t4`. Delays are not negative, so the offset
//! (peer's clock minus own clock) is at least `t3 - t4` and at most `t2 - t1`. The bounds of
//! several exchanges are intersected. The estimate is their midpoint, and its error bound is half
//! of their distance.

use crate::time::Time;
use std::time::Duration;

/// Number of periods whose tightest bounds are kept.
const SLOTS: usize = 8;

/// Length of a period.
const SLOT_US: u64 = 2_000_000;

/// Maximum drift between two clocks in parts per million.
const DRIFT_PPM: i64 = 100;

/// Bounds of the offset between two clocks.
#[derive(Debug, Default)]
pub(crate) struct Offset {
    slots: [Slot; SLOTS],
}

/// The tightest bounds of one period, each with its time.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    index: u64,
    low: Option<(i64, Time)>,
    high: Option<(i64, Time)>,
}

impl Offset {
    /// Adds an exchange: a frame sent at `t1` that the peer received at `t2`, and one that the peer
    /// sent at `t3` and that arrived at `t4`.
    pub(crate) fn add(&mut self, [t1, t2, t3, t4]: [Time; 4]) {
        let index = t4.as_micros() / SLOT_US;
        let slot = &mut self.slots[usize::try_from(index % 8).unwrap_or_default()];
        if slot.index != index {
            *slot = Slot { index, ..Slot::default() };
        }
        let (low, high) = (t3.minus(t4), t2.minus(t1));
        if slot.low.is_none_or(|(known, _)| low >= known) {
            slot.low = Some((low, t4));
        }
        if slot.high.is_none_or(|(known, _)| high <= known) {
            slot.high = Some((high, t1));
        }
    }

    /// Returns the lower and upper bound of the offset in microseconds; `None` without a recent
    /// exchange.
    pub(crate) fn bounds(&self, now: Time) -> Option<(i64, i64)> {
        let index = now.as_micros() / SLOT_US;
        let recent = self.slots.iter().filter(|slot| slot.index + SLOTS as u64 > index);
        let drift = |at: Time| {
            let age = i64::try_from(now.since(at).as_micros()).unwrap_or(i64::MAX);
            age.saturating_mul(DRIFT_PPM) / 1_000_000 + 1
        };
        let low = recent.clone().filter_map(|slot| slot.low).map(|(low, at)| low.saturating_sub(drift(at)));
        let high = recent.filter_map(|slot| slot.high).map(|(high, at)| high.saturating_add(drift(at)));
        let (low, high) = (low.max()?, high.min()?);
        // If the clocks drift faster than assumed, the bounds contradict each other.
        Some((low.min(high), high.max(low)))
    }

    /// Returns the estimated offset in microseconds and its error bound.
    pub(crate) fn estimate(&self, now: Time) -> Option<(i64, Duration)> {
        let (low, high) = self.bounds(now)?;
        let middle = low.midpoint(high);
        Some((middle, Duration::from_micros(high.saturating_sub(middle).unsigned_abs())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_800_000_000_000_000;

    proptest! {
        #[test]
        fn bounds_contain_the_truth(
            skew in -5_000_000_i64..=5_000_000,
            exchanges in proptest::collection::vec((0_u64..200_000, 0_u64..200_000, 0_u64..4_000_000), 1..40),
        ) {
            let mut offset = Offset::default();
            let mut now = START;
            let peer = |at: u64| Time::from_micros(at.checked_add_signed(skew).unwrap());
            let mut narrowest = u64::MAX;
            for (there, back, pause) in exchanges {
                now += pause;
                let (t1, t2) = (Time::from_micros(now), peer(now + there));
                now += there + 70;
                let t3 = peer(now);
                now += back;
                let t4 = Time::from_micros(now);
                offset.add([t1, t2, t3, t4]);
                let (low, high) = offset.bounds(t4).unwrap();
                prop_assert!((low..=high).contains(&skew), "{low}..={high} and {skew}");
                narrowest = narrowest.min(there + back);
                let (_, error) = offset.estimate(t4).unwrap();
                prop_assert!(error.as_micros() <= u128::from(there + back) / 2 + 60);
            }
        }
    }

    #[test]
    fn old_exchanges_are_dropped_and_any_number_is_accepted() {
        let mut offset = Offset::default();
        let at = Time::from_micros;
        offset.add([at(START), at(START + 5), at(START + 6), at(START + 11)]);
        assert_eq!(offset.estimate(at(START + 11)).map(|(middle, _)| middle), Some(0));
        assert_eq!(offset.bounds(at(START + 60_000_000)), None);
        offset.add([at(u64::MAX), at(0), at(u64::MAX), at(0)]);
        offset.add([at(0), at(u64::MAX), at(0), at(u64::MAX)]);
        assert!(offset.estimate(at(u64::MAX)).is_some());
    }
}
