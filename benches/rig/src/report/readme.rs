//! The table for the README of the project: one line for each server, Markdown, the instructions of the server.
//!
//! Does not know about: files.

use std::fmt::Write;

use super::{Conditions, Outcome, thousands};
use crate::plan::Mode;

/// Mode, connections in flight, heading.
type Column = (Mode, u32, &'static str);

/// In their order.
const COLUMNS: [Column; 8] = [
    (Mode::Close, 64, "close, 64"),
    (Mode::Close, 512, "close, 512"),
    (Mode::Close, 1, "close, 1"),
    (Mode::Gap, 64, "gap, 64"),
    (Mode::Free, 64, "free, 64"),
    (Mode::Keep, 64, "keep, 64"),
    (Mode::KeepFree, 64, "keep-free, 64"),
    (Mode::Keep16, 64, "keep, 16 pipelined"),
];

/// The table, with the columns that have a figure. One that was not taken without failures is a dash.
pub(crate) fn readme(outcomes: &[Outcome], conditions: &Conditions) -> String {
    let mut text = format!(
        "Instructions of the server, kernel included, for each connection (close, gap, free) or request (keep); Linux {}, one CPU, \
         median of {}.\n\n",
        conditions.kernel, conditions.repeat
    );
    let figures = |server: &str, mode: Mode, in_flight: u32| {
        let same = |outcome: &&Outcome| {
            let row = &outcome.row;
            row.server == server && row.mode == mode && row.in_flight == in_flight
        };
        outcomes.iter().find(same).filter(|outcome| outcome.is_clean()).and_then(Outcome::figures)
    };
    let mut servers: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !servers.contains(&outcome.row.server.as_str()) {
            servers.push(&outcome.row.server);
        }
    }
    let has_figures = |&&(mode, in_flight, _): &&Column| {
        servers.iter().any(|server| figures(server, mode, in_flight).is_some())
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(has_figures).collect();
    let names: Vec<&str> = columns.iter().map(|column| column.2).collect();
    line(&mut text, format_args!("| server | {} | whole machine, close, 64 |", names.join(" | ")));
    line(&mut text, format_args!("|---|{}", "---:|".repeat(columns.len() + 1)));
    for &server in &servers {
        let mut cells: Vec<String> = columns
            .iter()
            .map(|&&(mode, in_flight, _)| {
                cell(figures(server, mode, in_flight).map(|figures| figures.server))
            })
            .collect();
        cells.push(cell(figures(server, Mode::Close, 64).map(|figures| figures.machine)));
        line(&mut text, format_args!("| {server} | {} |", cells.join(" | ")));
    }
    text
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), thousands)
}

fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string takes everything");
}
