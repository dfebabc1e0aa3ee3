//! The pages of measured rows: one line per row, or one line per server as in the book.

use super::page::{Page, Table, or_dash, thousands};
use super::{Conditions, Figures, Outcome, Run, percent};
use crate::plan::{Load, Mode, Row};

/// Loads with a fixed column and heading, in this order. Other loads follow.
const COLUMNS: [(Load, &str); 8] = [
    (Load::new(Mode::Close, 64), "close, 64"),
    (Load::new(Mode::Close, 512), "close, 512"),
    (Load::new(Mode::Close, 1), "close, 1"),
    (Load::new(Mode::Gap, 64), "gap, 64"),
    (Load::new(Mode::Free, 64), "free, 64"),
    (Load::new(Mode::Keep, 64), "keep, 64"),
    (Load::new(Mode::KeepFree, 64), "keep-free, 64"),
    (Load::new(Mode::Keep16, 64), "keep, 16 pipelined"),
];

/// Suffixes of variations that are compared with the server without the suffix, which has one
/// worker and a route without guards.
const ENDS: [&str; 2] = ["-2w", "-guard"];

/// One line for each row, and one line for each comparison of two rows.
pub(crate) fn down(run: &Run) -> Page {
    let mut page = Page::default();
    let Conditions { kernel, qemu, cpu, repeat, .. } = &run.conditions;
    page.words(format!(
        "Instructions per request, kernel included; Linux {kernel}, one CPU ({cpu}), median of {repeat}; {qemu}"
    ));
    let mut table = Table::new([
        "server",
        "mode",
        "in flight",
        "server",
        "+-%",
        "machine",
        "+-%",
        "switches",
        "idle%",
        "failed",
    ]);
    for outcome in &run.rows {
        let (Some(figures), row) = (outcome.figures(), &outcome.row) else { continue };
        table.row([
            row.server.clone(),
            row.load.mode.to_string(),
            row.load.in_flight.to_string(),
            thousands(figures.server),
            format!("{:.1}", figures.server_spread_percent),
            thousands(figures.machine),
            format!("{:.1}", figures.machine_spread_percent),
            format!("{:.2}", figures.switches),
            format!("{:.1}", figures.idle_percent),
            figures.failed.to_string(),
        ]);
    }
    page.table(table);
    page.lines(run.failures());
    page.table(beside(&run.rows));
    page
}

/// One line per server and one column per load, with the server's instructions. A result with
/// failures is a dash. The last column is the whole machine under the first load.
pub(crate) fn across(run: &Run) -> Page {
    let mut page = Page::default();
    page.words(format!(
        "Instructions of the server, kernel included, for each connection (close, gap, free) or request (keep); Linux {}, one CPU, median \
         of {}.",
        run.conditions.kernel, run.conditions.repeat
    ));
    let mut loads: Vec<(Load, String)> = COLUMNS.map(|(load, head)| (load, head.to_owned())).into();
    let clean = || run.rows.iter().filter(|outcome| outcome.is_clean()).map(|outcome| &outcome.row);
    for Row { load, .. } in clean() {
        if loads.iter().all(|(known, _)| known != load) {
            loads.push((*load, format!("{}, {}", load.mode, load.in_flight)));
        }
    }
    loads.retain(|(load, _)| clean().any(|row| row.load == *load));
    type Part = fn(&Figures) -> f64;
    let mut columns: Vec<(Load, String, Part)> =
        loads.into_iter().map(|(load, head)| (load, head, (|figures| figures.server) as Part)).collect();
    if let Some((load, head, _)) = columns.first() {
        columns.push((*load, format!("whole machine, {head}"), |figures| figures.machine));
    }
    let mut servers: Vec<&str> = Vec::new();
    for Outcome { row, .. } in &run.rows {
        if !servers.contains(&row.server.as_str()) {
            servers.push(&row.server);
        }
    }
    let heads = columns.iter().map(|(_, head, _)| head.clone());
    let mut table = Table::new(["server".to_owned()].into_iter().chain(heads));
    for server in servers {
        let cells = columns.iter().map(|(load, _, part)| {
            let figures = run.clean_figures(&Row { server: server.to_owned(), load: *load });
            or_dash(figures, |figures| thousands(part(&figures)))
        });
        table.row([server.to_owned()].into_iter().chain(cells));
    }
    page.table(table);
    page.lines(run.failures());
    page
}

/// A line for each clean row and each clean row of [`plainer`] that it is compared with.
fn beside(outcomes: &[Outcome]) -> Table {
    let clean = || outcomes.iter().filter(|outcome| outcome.is_clean());
    let mut table = Table::new(["row", "compared with", "server", "%", "machine %", "throughput ratio"]);
    for outcome in clean() {
        for row in plainer(&outcome.row) {
            let base = clean().find(|base| base.row == row);
            if let Some(cells) = base.and_then(|base| compared(outcome, base)) {
                table.row(cells);
            }
        }
    }
    table
}

/// The rows that `row` is compared with: the same server without idle connections, and the server
/// without its suffix of [`ENDS`].
fn plainer(row: &Row) -> Vec<Row> {
    let mut rows = Vec::new();
    if row.load.mode.idle_conns() > 0 {
        rows.push(Row { load: Load { mode: Mode::Close, ..row.load }, ..row.clone() });
    }
    if let Some(server) = ENDS.iter().find_map(|end| row.server.strip_suffix(end)) {
        rows.push(Row { server: server.to_owned(), ..row.clone() });
    }
    rows
}

fn compared(outcome: &Outcome, base: &Outcome) -> Option<[String; 6]> {
    let (ours, theirs) = (outcome.figures()?, base.figures()?);
    let percent = |now, before| format!("{:+.1}", percent(now, before));
    Some([
        outcome.row.id(),
        base.row.id(),
        format!("{:+.0}", ours.server - theirs.server),
        percent(ours.server, theirs.server),
        percent(ours.machine, theirs.machine),
        format!("{:.3}", base.elapsed()? / outcome.elapsed()?),
    ])
}
