//! What a run found: samples become figures a request, figures become a table or JSON.
//!
//! Does not know about: how they were measured.

mod beside;
mod json;
mod readme;
mod table;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use json::{json, parse};
pub(crate) use readme::readme;
pub(crate) use table::{across, down, thousands};

use crate::plan::{Row, Sample};

/// Under which conditions a run was made.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Conditions {
    /// Release of the kernel in the guest.
    pub(crate) kernel: String,
    /// QEMU and its version.
    pub(crate) qemu: String,
    /// QEMU's name of the CPU model.
    pub(crate) cpu: String,
    /// Samples of each row.
    pub(crate) repeat: u32,
    /// Name and version of the kernel's package.
    pub(crate) kernel_package: String,
}

/// What became of one row.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The row.
    pub(crate) row: Row,
    /// Its samples, fewer than asked for when it failed.
    pub(crate) samples: Vec<Sample>,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

/// Figures of one row: a request's share, medians over the samples.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Instructions of the server.
    pub(crate) server: f64,
    /// The largest less the smallest sample, in per cent of the median.
    pub(crate) server_spread_percent: f64,
    /// Instructions of the whole machine.
    pub(crate) machine: f64,
    /// As for the server.
    pub(crate) machine_spread_percent: f64,
    /// Context switches of the server.
    pub(crate) switches: f64,
    /// Share of the time in which the machine was idle, in per cent.
    pub(crate) idle_percent: f64,
    /// Requests of all samples that failed.
    pub(crate) failed: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {:.0}, machine {:.0}, switches {:.2}", self.server, self.machine, self.switches)?;
        if self.failed > 0 { write!(f, ", {} failed", self.failed) } else { Ok(()) }
    }
}

impl Outcome {
    /// Whether it was measured to the end without a failed request.
    pub(crate) fn is_clean(&self) -> bool {
        self.failure.is_none() && self.figures().is_some_and(|figures| figures.failed == 0)
    }

    /// The figures; `None` when there is no sample to make them from.
    pub(crate) fn figures(&self) -> Option<Figures> {
        let of = |part: fn(&Sample) -> i64| -> Vec<f64> {
            self.samples
                .iter()
                .filter(|sample| sample.requests > 0)
                .map(|sample| share(part(sample), sample))
                .collect()
        };
        let (server, machine) = (of(|sample| sample.server), of(|sample| sample.machine));
        let elapsed = median(&of(|sample| sample.elapsed))?;
        let busy = median(&machine)?;
        Some(Figures {
            server: median(&server)?,
            server_spread_percent: spread_percent(&server)?,
            machine: busy,
            machine_spread_percent: spread_percent(&machine)?,
            switches: median(&of(|sample| sample.switches))?,
            idle_percent: ((elapsed - busy) / elapsed * 100.0).max(0.0),
            failed: self.samples.iter().map(|sample| sample.failed).sum(),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one load are far below 2^53")]
fn share(part: i64, sample: &Sample) -> f64 {
    part as f64 / sample.requests as f64
}

/// The middle of the values; the mean of the middle two where their number is even.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

fn spread_percent(values: &[f64]) -> Option<f64> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some((high - low) / median(values)? * 100.0)
}

#[cfg(test)]
mod tests;
