//! The report for machines.
//!
//! Does not know about: terminals.

use serde::Serialize;

use super::{Conditions, Figures, Outcome};
use crate::plan::{Mode, Sample};

#[derive(Serialize)]
struct Report<'a> {
    conditions: &'a Conditions,
    rows: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    server_name: &'a str,
    mode: Mode,
    in_flight: u32,
    figures: Option<Figures>,
    failure: Option<&'a str>,
    samples: &'a [Sample],
}

/// All of a run as one JSON object.
pub(crate) fn json(outcomes: &[Outcome], conditions: &Conditions) -> String {
    let rows = outcomes.iter().map(|outcome| Line {
        server_name: &outcome.row.server,
        mode: outcome.row.mode,
        in_flight: outcome.row.in_flight,
        figures: outcome.figures(),
        failure: outcome.failure.as_deref(),
        samples: &outcome.samples,
    });
    let report = Report { conditions, rows: rows.collect() };
    let mut text = serde_json::to_string_pretty(&report).expect("a report is plain data");
    text.push('\n');
    text
}
