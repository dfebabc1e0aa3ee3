//! Results of a boot. Samples are converted to figures per request, and figures to a page or JSON.

mod page;
mod views;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use page::{Form, Page, Table, json, or_dash, show, thousands};
pub(crate) use views::{across, down};

use crate::plan::{Checked, Row, Sample};

/// The conditions of a run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Conditions {
    /// Release of the kernel in the guest.
    pub(crate) kernel: String,
    /// QEMU and its version.
    pub(crate) qemu: String,
    /// Name of the CPU model in QEMU.
    pub(crate) cpu: String,
    /// Samples of each row.
    pub(crate) repeat: u32,
    /// Name and version of the kernel's package.
    pub(crate) kernel_package: String,
}

/// Results of a boot.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Run {
    /// The conditions.
    pub(crate) conditions: Conditions,
    /// The results of all rows, in the order of the plan. Skipped rows come last.
    pub(crate) rows: Vec<Outcome>,
    /// The results of all checks in the order of the plan. `None` if the guest reported no result.
    #[serde(skip)]
    pub(crate) checks: Vec<Option<Checked>>,
}

/// Results of one row.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outcome {
    #[serde(flatten)]
    pub(crate) row: Row,
    /// Reason for a failure.
    pub(crate) failure: Option<String>,
    /// The samples of the row. A failed row may have fewer than requested.
    pub(crate) samples: Vec<Sample>,
}

/// Figures of one row per request, as medians over the samples.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Instructions of the server.
    pub(crate) server: f64,
    /// Maximum minus minimum of the server's samples, in per cent of the median.
    pub(crate) server_spread_percent: f64,
    /// Instructions of the whole machine.
    pub(crate) machine: f64,
    /// Maximum minus minimum of the machine's samples, in per cent of the median.
    pub(crate) machine_spread_percent: f64,
    /// Context switches of the server.
    pub(crate) switches: f64,
    /// Idle share of the machine's time in per cent.
    pub(crate) idle_percent: f64,
    /// Number of failed requests in all samples.
    pub(crate) failed: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {:.0}, machine {:.0}, switches {:.2}", self.server, self.machine, self.switches)?;
        if self.failed > 0 { write!(f, ", {} failed", self.failed) } else { Ok(()) }
    }
}

impl Run {
    /// Whether every row was measured without a failed request.
    pub(crate) fn is_clean(&self) -> bool {
        self.rows.iter().all(Outcome::is_clean)
    }

    /// The figures of a row, unless the row has a failure.
    pub(crate) fn clean_figures(&self, row: &Row) -> Option<Figures> {
        self.rows.iter().find(|outcome| outcome.row == *row)?.clean_figures()
    }

    /// A line for each row that failed.
    fn failures(&self) -> impl Iterator<Item = String> {
        self.rows.iter().filter_map(|outcome| Some(format!("{}: {}", outcome.row.id(), outcome.problem()?)))
    }
}

/// The serialized form includes the figures. Deserialization ignores them, because they follow from
/// the samples.
impl Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            #[serde(flatten)]
            row: &'a Row,
            figures: Option<Figures>,
            failure: &'a Option<String>,
            samples: &'a [Sample],
        }
        let Self { row, failure, samples } = self;
        Line { row, figures: self.figures(), failure, samples }.serialize(serializer)
    }
}

impl Outcome {
    /// Creates the outcome of a row that failed before its first sample.
    pub(crate) const fn failed(row: Row, why: String) -> Self {
        Self { row, failure: Some(why), samples: Vec::new() }
    }

    /// Reason why there are no clean figures.
    pub(crate) fn problem(&self) -> Option<String> {
        match (&self.failure, self.figures()) {
            (Some(why), _) => Some(why.clone()),
            (None, Some(figures)) => {
                (figures.failed > 0).then(|| format!("{} requests failed", figures.failed))
            }
            (None, None) => Some("no request".to_owned()),
        }
    }

    /// The figures, unless the row has a failure.
    pub(crate) fn clean_figures(&self) -> Option<Figures> {
        self.figures().filter(|_| self.is_clean())
    }

    /// Whether the row was measured completely and without a failed request.
    pub(crate) fn is_clean(&self) -> bool {
        self.problem().is_none()
    }

    /// The figures. `None` without samples.
    pub(crate) fn figures(&self) -> Option<Figures> {
        let (server, machine) = (self.shares(|sample| sample.server), self.shares(|sample| sample.machine));
        let (elapsed, busy) = (self.elapsed()?, median(&machine)?);
        Some(Figures {
            server: median(&server)?,
            server_spread_percent: spread_percent(&server)?,
            machine: busy,
            machine_spread_percent: spread_percent(&machine)?,
            switches: median(&self.shares(|sample| sample.switches))?,
            idle_percent: ((elapsed - busy) / elapsed * 100.0).max(0.0),
            failed: self.samples.iter().map(|sample| sample.failed).sum(),
        })
    }

    /// Nanoseconds per request, including idle time.
    fn elapsed(&self) -> Option<f64> {
        median(&self.shares(|sample| sample.elapsed))
    }

    /// The part per request of each sample.
    #[expect(clippy::cast_precision_loss, reason = "counts of one load are far below 2^53")]
    fn shares(&self, part: fn(&Sample) -> i64) -> Vec<f64> {
        let samples = self.samples.iter().filter(|sample| sample.requests > 0);
        samples.map(|sample| part(sample) as f64 / sample.requests as f64).collect()
    }
}

/// The median. For an even number of values it is the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// The smallest and the largest value.
pub(crate) fn range(values: &[f64]) -> Option<(f64, f64)> {
    let values = || values.iter().copied();
    values().min_by(f64::total_cmp).zip(values().max_by(f64::total_cmp))
}

fn spread_percent(values: &[f64]) -> Option<f64> {
    let (low, high) = range(values)?;
    Some((high - low) / median(values)? * 100.0)
}

/// The difference between two values in per cent of the second one.
pub(crate) fn percent(now: f64, before: f64) -> f64 {
    (now - before) / before * 100.0
}

#[cfg(test)]
mod tests;
