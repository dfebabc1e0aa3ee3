//! Metric families as plain data, and how they are given to the encoder.
//!
//! Does not know about: what is measured, the text that comes of it.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// In the order in which they are shown.
#[derive(Debug, Default)]
pub(super) struct Families(Vec<Family>);

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
    value: f64,
}

/// A family that is being filled.
pub(super) struct Filling<'f>(&'f mut Vec<Sample>);

impl Families {
    /// Something that only goes up; the name is without `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> Filling<'_> {
        self.family(name, help, MetricType::Counter)
    }

    /// Something that goes up and down.
    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Filling<'_> {
        self.family(name, help, MetricType::Gauge)
    }

    fn family(&mut self, name: &'static str, help: &'static str, kind: MetricType) -> Filling<'_> {
        self.0.push(Family { name, help, kind, samples: Vec::new() });
        let last = self.0.len() - 1;
        Filling(&mut self.0[last].samples)
    }
}

impl Filling<'_> {
    pub(super) fn add<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: f64) -> &mut Self {
        let labels = labels.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        self.0.push(Sample { labels, value });
        self
    }

    /// As [`Self::add`], for what is counted.
    pub(super) fn count<const N: usize>(
        &mut self,
        labels: [(&'static str, &str); N],
        value: u64,
    ) -> &mut Self {
        self.add(labels, as_f64(value))
    }

    /// One sample for each of `states`, 1 for the one that is.
    pub(super) fn one_of<const N: usize>(
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
            self.0.push(Sample { labels, value: if state == now { 1.0 } else { 0.0 } });
        }
        self
    }
}

fn encode(encoder: &mut MetricEncoder<'_>, kind: MetricType, value: f64) -> fmt::Result {
    match kind {
        MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
        _ => encoder.encode_gauge(&value),
    }
}

/// Exact up to 2^53, as every number of a scrape.
#[expect(clippy::cast_precision_loss, reason = "a sample is a double")]
pub(super) const fn as_f64(value: u64) -> f64 {
    value as f64
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // A family without samples tells nothing.
        for family in self.0.iter().filter(|family| !family.samples.is_empty()) {
            let mut encoder = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for Sample { labels, value } in &family.samples {
                if labels.is_empty() {
                    encode(&mut encoder, family.kind, *value)?;
                } else {
                    encode(&mut encoder.encode_family(labels)?, family.kind, *value)?;
                }
            }
        }
        Ok(())
    }
}
