//! A report as an SVG chart: bars for the server's instructions per connection, one pair of bars
//! for each server.

mod layout;
mod svg;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::plan::{Load, Mode};
use crate::report::{Conditions, Run};

/// The loads in the chart, with their names in the legend.
const SERIES: [(Load, &str); 2] = [
    (Load::new(Mode::Close, 64), "close 64: work is always queued"),
    (Load::new(Mode::Free, 64), "free 64: the server is woken for each event"),
];
pub(super) const TITLE: &str = "Instructions of the server for a connection, kernel included";
/// The server whose first value is drawn as a line across all bars.
const FLOOR: &str = "bare";

/// The data of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chart {
    /// The lines below the title, each short enough for the width of the chart.
    pub(super) subtitle: [String; 2],
    /// The servers, from the fewest instructions to the most.
    pub(super) rows: Vec<Bars>,
    pub(super) floor: Option<f64>,
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bars {
    pub(super) name: String,
    /// The values in the order of [`SERIES`]. `None` for a missing value.
    pub(super) values: [Option<f64>; SERIES.len()],
}

/// Renders the chart of `run`. Returns `None` if `run` has no value for any load of [`SERIES`].
pub(crate) fn render(run: &Run) -> Option<String> {
    chart(run).map(|chart| svg::write(&chart))
}

/// Omits the servers without deferred accept (`-plain`), because the chart compares tuned servers.
fn chart(run: &Run) -> Option<Chart> {
    let mut values = BTreeMap::<String, [Option<f64>; SERIES.len()]>::new();
    for outcome in run.rows.iter().filter(|outcome| !outcome.row.server.ends_with("-plain")) {
        let Some(series) = SERIES.iter().position(|(load, _)| *load == outcome.row.load) else { continue };
        let Some(figures) = outcome.clean_figures() else { continue };
        values.entry(outcome.row.server.clone()).or_default()[series] = Some(figures.server);
    }
    let mut rows: Vec<Bars> = values.into_iter().map(|(name, values)| Bars { name, values }).collect();
    let Conditions { kernel, repeat, .. } = &run.conditions;
    let first = |bars: &Bars| bars.values.iter().flatten().next().copied().unwrap_or_default();
    rows.sort_by(|a, b| first(a).total_cmp(&first(b)));
    if rows.is_empty() {
        return None;
    }
    Some(Chart {
        subtitle: [
            format!("Connect, one request, three bytes of body, close. Linux {kernel}, one CPU in QEMU, 64"),
            format!("connections at a time, median of {repeat}. Fewer is better."),
        ],
        floor: rows.iter().find(|bars| bars.name == FLOOR).and_then(|bars| bars.values[0]),
        rows,
    })
}
