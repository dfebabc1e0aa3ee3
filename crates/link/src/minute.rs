//! For each minute: latency of frames and peak rate of each direction, in bounded memory.

use crate::time::{Time, micros};
use hdrhistogram::Histogram;
use std::time::Duration;

const MINUTE_US: u64 = 60_000_000;

/// Length of the slices in which a rate is measured. A burst of a link with little traffic is
/// visible only in a short slice.
const SLICE_US: u64 = 100_000;

/// Maximum recorded latency; higher ones are recorded as this one.
const LATENCY_US_MAX: u64 = 600_000_000;

/// Measurements of one minute, from the receipts of frames and the bytes of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MinuteReport {
    /// Start of the minute, in microseconds since 1970.
    pub starts_us: u64,
    /// Number of frames with a receipt.
    pub frames: u64,
    /// Round-trip time.
    pub round_trip: Quantiles,
    /// Estimated latency to the peer.
    pub one_way: Quantiles,
    /// Maximum error of a one-way latency.
    pub error: Duration,
    /// Correlation of frame size and round-trip time, from -1 to 1; `None` if one of them is
    /// constant.
    pub size_correlation: Option<f64>,
    /// Rate of sending in the busiest 100 ms, without TLS.
    pub sent_max_bytes_per_s: u64,
    /// Rate of receiving in the busiest 100 ms, without TLS.
    pub received_max_bytes_per_s: u64,
}

/// Quantiles of a latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Median.
    pub p50: Duration,
    /// 90th percentile.
    pub p90: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Maximum.
    pub max: Duration,
}

/// The current minute, and the report of the last complete minute with frames.
#[derive(Debug)]
pub(crate) struct Minutes {
    index: u64,
    round_trip: Histogram<u32>,
    one_way: Histogram<u32>,
    sizes: Correlation,
    error: Duration,
    sent: Rate,
    received: Rate,
    last: Option<MinuteReport>,
}

impl Minutes {
    pub(crate) fn new() -> Self {
        Self {
            index: 0,
            round_trip: histogram(),
            one_way: histogram(),
            sizes: Correlation::default(),
            error: Duration::ZERO,
            sent: Rate::default(),
            received: Rate::default(),
            last: None,
        }
    }

    /// Adds the measurements of a frame: its round-trip time, and the estimated latency to the peer
    /// with its error.
    pub(crate) fn add(&mut self, now: Time, size: u32, round_trip: Duration, one_way: [Duration; 2]) {
        self.roll(now);
        let [one_way, error] = one_way;
        self.round_trip.saturating_record(micros(round_trip));
        self.one_way.saturating_record(micros(one_way));
        self.error = self.error.max(error);
        self.sizes.add(f64::from(size), round_trip.as_secs_f64());
    }

    /// Adds bytes that are sent next.
    pub(crate) fn sent(&mut self, now: Time, len: usize) {
        self.roll(now);
        self.sent.add(now, len);
    }

    /// Adds bytes that arrived.
    pub(crate) fn received(&mut self, now: Time, len: usize) {
        self.roll(now);
        self.received.add(now, len);
    }

    fn roll(&mut self, now: Time) {
        let index = now.as_micros() / MINUTE_US;
        if index == self.index {
            return;
        }
        let last = self.current().or(self.last);
        *self = Self { index, last, ..Self::new() };
    }

    /// Returns the report of the last complete minute or, if it had no frames, that of the current
    /// minute. An open link has frames in every minute.
    pub(crate) fn report(&mut self, now: Time) -> Option<MinuteReport> {
        self.roll(now);
        let is_recent = |last: &MinuteReport| last.starts_us / MINUTE_US + 1 == self.index;
        self.last.filter(is_recent).or_else(|| self.current())
    }

    fn current(&self) -> Option<MinuteReport> {
        (!self.round_trip.is_empty()).then(|| MinuteReport {
            starts_us: self.index * MINUTE_US,
            frames: self.round_trip.len(),
            round_trip: quantiles(&self.round_trip),
            one_way: quantiles(&self.one_way),
            error: self.error,
            size_correlation: self.sizes.coefficient(),
            sent_max_bytes_per_s: self.sent.max_per_s(),
            received_max_bytes_per_s: self.received.max_per_s(),
        })
    }
}

/// Creates a histogram with two significant digits, which takes 12 KiB.
fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 2).expect("the bounds are valid")
}

fn quantiles(histogram: &Histogram<u32>) -> Quantiles {
    let at = |quantile| Duration::from_micros(histogram.value_at_quantile(quantile));
    Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: Duration::from_micros(histogram.max()) }
}

/// Bytes of the current slice, and of the busiest slice.
#[derive(Debug, Default)]
struct Rate {
    slice: u64,
    bytes: u64,
    bytes_max: u64,
}

impl Rate {
    fn add(&mut self, now: Time, len: usize) {
        let slice = now.as_micros() / SLICE_US;
        if slice != self.slice {
            (self.slice, self.bytes) = (slice, 0);
        }
        self.bytes += len as u64;
        self.bytes_max = self.bytes_max.max(self.bytes);
    }

    const fn max_per_s(&self) -> u64 {
        self.bytes_max.saturating_mul(1_000_000 / SLICE_US)
    }
}

/// Pearson's correlation coefficient by Welford's method, which does not store the pairs.
#[derive(Clone, Copy, Debug, Default)]
struct Correlation {
    count: f64,
    means: [f64; 2],
    squares: [f64; 2],
    products: f64,
}

impl Correlation {
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        let before = [x - self.means[0], y - self.means[1]];
        self.means[0] += before[0] / self.count;
        self.means[1] += before[1] / self.count;
        let after = [x - self.means[0], y - self.means[1]];
        self.squares[0] += before[0] * after[0];
        self.squares[1] += before[1] * after[1];
        self.products += before[0] * after[1];
    }

    fn coefficient(&self) -> Option<f64> {
        let spread = (self.squares[0] * self.squares[1]).sqrt();
        (spread > 0.0).then(|| (self.products / spread).clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_minute() {
        let mut minutes = Minutes::new();
        let at = |seconds: u64| Time::from_micros(1_799_999_940_000_000 + seconds * 1_000_000);
        assert_eq!(minutes.report(at(0)), None);
        for ms in 1..=100 {
            let latency = Duration::from_millis(u64::from(ms));
            minutes.add(at(1), ms * 10, latency, [latency / 2, Duration::from_micros(u64::from(ms))]);
        }
        let near = |found: Duration, ms: u64| {
            let expected = Duration::from_millis(ms);
            assert!(found.abs_diff(expected) <= expected / 50, "{found:?} is not {expected:?}");
        };
        for now in [at(2), at(61), at(119)] {
            let report = minutes.report(now).unwrap();
            assert_eq!((report.frames, report.error), (100, Duration::from_micros(100)));
            assert_eq!(report.starts_us, at(0).as_micros());
            near(report.round_trip.p50, 50);
            near(report.round_trip.p90, 90);
            near(report.round_trip.p99, 99);
            near(report.round_trip.max, 100);
            near(report.one_way.max, 50);
            assert!(report.size_correlation.unwrap() > 0.999);
        }
        assert_eq!(minutes.report(at(120)), None, "the last complete minute had no frames");
        minutes.add(at(600), 9, Duration::ZERO, [Duration::ZERO; 2]);
        assert_eq!(minutes.report(at(601)).map(|minute| minute.frames), Some(1), "the current minute");
    }

    #[test]
    fn rate_of_the_busiest_slice() {
        let mut minutes = Minutes::new();
        let at = |ms: u64| Time::from_micros(1_799_999_940_000_000 + ms * 1000);
        minutes.sent(at(10), 500);
        minutes.sent(at(20), 700);
        minutes.sent(at(150), 900);
        minutes.received(at(99), 60);
        minutes.received(at(100), 60);
        minutes.add(at(200), 9, Duration::ZERO, [Duration::ZERO; 2]);
        let rates = |minute: MinuteReport| (minute.sent_max_bytes_per_s, minute.received_max_bytes_per_s);
        assert_eq!(minutes.report(at(300)).map(rates), Some((12_000, 600)));
        minutes.sent(at(60_000), 100_000);
        assert_eq!(minutes.report(at(60_001)).map(rates), Some((12_000, 600)), "the complete minute");
        minutes.add(at(60_002), 9, Duration::ZERO, [Duration::ZERO; 2]);
        assert_eq!(minutes.report(at(120_000)).map(rates), Some((1_000_000, 0)));
    }

    #[test]
    fn correlation_of_size_and_latency() {
        let of = |pairs: &[(f64, f64)]| {
            let mut correlation = Correlation::default();
            pairs.iter().for_each(|(x, y)| correlation.add(*x, *y));
            correlation.coefficient()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(1.0, 2.0), (1.0, 3.0)]), None, "all of one size");
        assert_eq!(of(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Some(-1.0));
        let weak = of(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0)]).unwrap();
        assert!((weak - 0.8).abs() < 1e-9, "{weak}");
    }
}
