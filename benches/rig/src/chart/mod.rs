//! A report as an SVG picture: bars of the server's instructions for a connection, one pair for each server.
//!
//! Does not know about: how the figures were measured, or the files they are kept in.

mod layout;
mod svg;

#[cfg(test)]
mod tests;

use crate::plan::Mode;
use crate::report::{Conditions, Outcome};

/// The loads that are drawn: the name in the legend.
const SERIES: [(Mode, u32, &str); 2] = [
    (Mode::Close, 64, "close 64: work is always queued"),
    (Mode::Free, 64, "free 64: the server is woken for each event"),
];
/// The server whose first figure is drawn as a line through all bars.
const FLOOR: &str = "bare";

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) subtitle: String,
    /// From the fewest instructions to the most.
    pub(super) rows: Vec<Bars>,
    pub(super) floor: Option<f64>,
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bars {
    pub(super) name: String,
    pub(super) is_ours: bool,
    /// In the order of [`SERIES`]; `None` where there is no figure.
    pub(super) values: [Option<f64>; SERIES.len()],
}

/// The picture; `None` without a figure to draw.
pub(crate) fn render(outcomes: &[Outcome], conditions: &Conditions) -> Option<String> {
    chart(outcomes, conditions).map(|chart| svg::write(&chart))
}

/// A server without deferred accept is left out where the same server with it is there: tuned beside tuned.
fn chart(outcomes: &[Outcome], conditions: &Conditions) -> Option<Chart> {
    let mut rows: Vec<Bars> = Vec::new();
    for outcome in outcomes {
        let name = &outcome.row.server;
        let Some(series) = series_of(outcome) else { continue };
        let Some(figures) = outcome.figures().filter(|_| outcome.is_clean()) else { continue };
        if name.ends_with("-plain") {
            continue;
        }
        let at = rows.iter().position(|bars| bars.name == *name).unwrap_or_else(|| {
            rows.push(Bars {
                name: name.clone(),
                is_ours: name.starts_with("doorbell"),
                values: [None; SERIES.len()],
            });
            rows.len() - 1
        });
        rows[at].values[series] = Some(figures.server);
    }
    let first = |bars: &Bars| bars.values.iter().flatten().next().copied();
    rows.retain(|bars| first(bars).is_some());
    rows.sort_by(|a, b| first(a).unwrap_or_default().total_cmp(&first(b).unwrap_or_default()));
    if rows.is_empty() {
        return None;
    }
    Some(Chart {
        title: "Instructions of the server for a connection, kernel included".to_owned(),
        subtitle: format!(
            "Connect, one request, three bytes of body, close. Linux {}, one CPU in QEMU, 64 connections at a time, median of {}. Fewer is better.",
            conditions.kernel, conditions.repeat
        ),
        floor: rows.iter().find(|bars| bars.name == FLOOR).and_then(|bars| bars.values[0]),
        rows,
    })
}

fn series_of(outcome: &Outcome) -> Option<usize> {
    SERIES
        .iter()
        .position(|&(mode, in_flight, _)| (outcome.row.mode, outcome.row.in_flight) == (mode, in_flight))
}
