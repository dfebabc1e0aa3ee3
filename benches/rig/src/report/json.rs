//! The report for machines, and the way back from it.
//!
//! Does not know about: terminals.

use serde::{Deserialize, Serialize};

use super::{Conditions, Figures, Outcome};
use crate::plan::{Mode, Row, Sample};

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

/// A report as it is read: figures are made from the samples again.
#[derive(Deserialize)]
struct Saved {
    conditions: Conditions,
    rows: Vec<SavedLine>,
}

#[derive(Deserialize)]
struct SavedLine {
    server_name: String,
    mode: Mode,
    in_flight: u32,
    failure: Option<String>,
    samples: Vec<Sample>,
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

/// What [`json`] wrote.
pub(crate) fn parse(text: &str) -> Result<(Vec<Outcome>, Conditions), serde_json::Error> {
    let saved: Saved = serde_json::from_str(text)?;
    let outcomes = saved.rows.into_iter().map(|line| Outcome {
        row: Row { server: line.server_name, mode: line.mode, in_flight: line.in_flight },
        samples: line.samples,
        failure: line.failure,
    });
    Ok((outcomes.collect(), saved.conditions))
}
