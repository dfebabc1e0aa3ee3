//! Metric families as plain data, and their conversion for the encoder.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Families in output order.
#[derive(Debug, Default)]
pub struct Families(Vec<Family>);

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    labels: Vec<(&'static str, String)>,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Histogram {
        sum: f64,
        /// Upper bounds with non-cumulative counts.
        buckets: Vec<(f64, u64)>,
    },
    Number(f64),
}

/// A family to which samples are being added.
#[derive(Debug)]
pub struct Filling<'f>(&'f mut Vec<Sample>);

impl Families {
    /// Adds a counter; the name is without `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> Filling<'_> {
        self.family(name, help, MetricType::Counter)
    }

    /// Adds a gauge.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> Filling<'_> {
        self.family(name, help, MetricType::Gauge)
    }

    /// Adds a histogram.
    pub fn histogram(&mut self, name: &'static str, help: &'static str) -> Filling<'_> {
        self.family(name, help, MetricType::Histogram)
    }

    /// Names of families without samples, which are omitted from the output.
    #[must_use]
    pub fn without_samples(&self) -> Vec<&'static str> {
        let empty = self.0.iter().filter(|family| family.samples.is_empty());
        empty.map(|family| family.name).collect()
    }

    fn family(&mut self, name: &'static str, help: &'static str, kind: MetricType) -> Filling<'_> {
        self.0.push(Family { name, help, kind, samples: Vec::new() });
        let last = self.0.len() - 1;
        Filling(&mut self.0[last].samples)
    }
}

impl Filling<'_> {
    /// Adds a number.
    pub fn add<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: f64) -> &mut Self {
        self.push(labels, Value::Number(value))
    }

    /// Adds durations in microseconds, converted to seconds. The last bucket has no bound.
    pub fn times<const N: usize>(
        &mut self,
        labels: [(&'static str, &str); N],
        bounds_us: &[u64],
        buckets: &[u64],
        sum_us: u64,
    ) -> &mut Self {
        let bounds = bounds_us.iter().map(|&bound| as_f64(bound) / 1e6).chain([f64::INFINITY]);
        let buckets = bounds.zip(buckets.iter().copied()).collect();
        self.push(labels, Value::Histogram { sum: as_f64(sum_us) / 1e6, buckets })
    }

    fn push<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: Value) -> &mut Self {
        let labels = labels.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        self.0.push(Sample { labels, value });
        self
    }

    /// Adds an integer.
    pub fn count<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: u64) -> &mut Self {
        self.add(labels, as_f64(value))
    }

    /// Adds a sample for each of `states`, 1 for the current one and 0 for the others.
    pub fn one_of<const N: usize>(
        &mut self,
        labels: [(&'static str, &str); N],
        label: &'static str,
        states: impl IntoIterator<Item = &'static str>,
        now: &str,
    ) -> &mut Self {
        for state in states {
            let mut labels: Vec<_> =
                labels.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
            labels.push((label, state.to_owned()));
            let value = Value::Number(if state == now { 1.0 } else { 0.0 });
            self.0.push(Sample { labels, value });
        }
        self
    }
}

fn encode(encoder: &mut MetricEncoder<'_>, kind: MetricType, value: &Value) -> fmt::Result {
    match (kind, value) {
        (_, Value::Histogram { sum, buckets }) => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
        }
        (MetricType::Counter, Value::Number(value)) => {
            encoder.encode_counter::<NoLabelSet, _, f64>(value, None)
        }
        (_, Value::Number(value)) => encoder.encode_gauge(value),
    }
}

/// Converts an integer; exact up to 2^53.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a sample is a double")]
pub const fn as_f64(value: u64) -> f64 {
    value as f64
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.0.iter().filter(|family| !family.samples.is_empty()) {
            let mut encoder = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for Sample { labels, value } in &family.samples {
                if labels.is_empty() {
                    encode(&mut encoder, family.kind, value)?;
                } else {
                    encode(&mut encoder.encode_family(labels)?, family.kind, value)?;
                }
            }
        }
        Ok(())
    }
}
