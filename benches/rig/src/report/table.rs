//! Tables for people.
//!
//! Does not know about: terminals, colors.

use std::fmt::Write;

use super::{Conditions, Figures, Outcome, beside};

/// One line for each row, and one for each pair of rows that are meant to cost the same.
pub(crate) fn down(outcomes: &[Outcome], conditions: &Conditions) -> String {
    let mut text = heading(conditions);
    let width = outcomes.iter().map(|outcome| outcome.row.server.len()).max().unwrap_or(0).max(6);
    line(
        &mut text,
        format_args!(
            "{:width$}  mode      in flight   server    +-%    machine    +-%  switches  idle%  failed",
            "server"
        ),
    );
    for outcome in outcomes {
        let Some(figures) = outcome.figures() else { continue };
        line(
            &mut text,
            format_args!(
                "{:width$}  {:13}  {:4}  {:>7}  {:4.1}  {:>9}  {:5.1}  {:8.2}  {:5.1}  {:6}",
                outcome.row.server,
                outcome.row.mode.name(),
                outcome.row.in_flight,
                thousands(figures.server),
                figures.server_spread_percent,
                thousands(figures.machine),
                figures.machine_spread_percent,
                figures.switches,
                figures.idle_percent,
                figures.failed,
            ),
        );
    }
    failures(&mut text, outcomes);
    let compared = beside::lines(outcomes);
    if !compared.is_empty() {
        line(&mut text, format_args!("\n{}", compared.join("\n")));
    }
    text
}

/// One line for each server and one column for each load, in Markdown: `server / machine`.
pub(crate) fn across(outcomes: &[Outcome], conditions: &Conditions) -> String {
    let mut servers: Vec<&str> = Vec::new();
    let mut loads = Vec::new();
    for row in outcomes.iter().map(|outcome| &outcome.row) {
        if !servers.contains(&row.server.as_str()) {
            servers.push(&row.server);
        }
        if !loads.contains(&(row.mode, row.in_flight)) {
            loads.push((row.mode, row.in_flight));
        }
    }
    let mut text = heading(conditions);
    let names: Vec<String> = loads.iter().map(|(mode, in_flight)| format!("{mode} {in_flight}")).collect();
    line(&mut text, format_args!("| server | {} |", names.join(" | ")));
    line(&mut text, format_args!("|---|{}", "---|".repeat(loads.len())));
    for server in servers {
        let cells: Vec<String> = loads
            .iter()
            .map(|&(mode, in_flight)| {
                let same = outcomes.iter().find(|outcome| {
                    outcome.row.server == server
                        && outcome.row.mode == mode
                        && outcome.row.in_flight == in_flight
                });
                same.and_then(Outcome::figures).map_or_else(|| "-".to_owned(), cell)
            })
            .collect();
        line(&mut text, format_args!("| {server} | {} |", cells.join(" | ")));
    }
    failures(&mut text, outcomes);
    text
}

fn cell(figures: Figures) -> String {
    let failed = if figures.failed > 0 { format!(" ({} failed)", figures.failed) } else { String::new() };
    format!("{} / {}{failed}", thousands(figures.server), thousands(figures.machine))
}

fn heading(conditions: &Conditions) -> String {
    let Conditions { kernel, qemu, cpu, repeat, .. } = conditions;
    format!(
        "Instructions a request, kernel included; Linux {kernel}, one CPU ({cpu}), median of {repeat}; {qemu}\n\n"
    )
}

fn failures(text: &mut String, outcomes: &[Outcome]) {
    for outcome in outcomes {
        if let Some(failure) = &outcome.failure {
            line(text, format_args!("{}: {failure}", outcome.row.id()));
        }
    }
}

fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string takes everything");
}

/// Whole, with a comma every three digits.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value <= -0.5 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas() {
        for (value, expected) in [
            (0.0, "0"),
            (999.4, "999"),
            (999.5, "1,000"),
            (18_499.6, "18,500"),
            (1_234_567.0, "1,234,567"),
            (-1_500.0, "-1,500"),
            (-0.2, "0"),
        ] {
            assert_eq!(thousands(value), expected);
        }
    }
}
