//! The report as a table.

use std::fmt::{self, Write};

use super::{LatencyRow, Report};

/// Share of CPU time from which this program, and not the server, is probably the limit.
const BUSY: f64 = 0.95;

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    write(report, &mut text).expect("a write to a string cannot fail");
    text
}

fn write(report: &Report, out: &mut String) -> fmt::Result {
    head(report, out)?;
    writeln!(out)?;
    writeln!(
        out,
        "  {:<12}{:>14} a second{:>16} in {:.2} s",
        "requests",
        number(report.requests_per_s),
        grouped(report.requests),
        report.elapsed_s
    )?;
    writeln!(
        out,
        "  {:<12}{:>14} a second{:>16}",
        "connections",
        number(report.connects_per_s),
        grouped(report.connects)
    )?;
    writeln!(out)?;
    writeln!(
        out,
        "  {:<12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "latency", "mean", "p50", "p90", "p99", "p99.9", "max"
    )?;
    let table = &report.latency_us;
    for (name, row) in [("connect", table.connect), ("first byte", table.first_byte), ("total", table.total)]
    {
        latency(name, &row, out)?;
    }
    writeln!(out)?;
    failures(report, out)?;
    notes(report, out)
}

fn head(report: &Report, out: &mut String) -> fmt::Result {
    let what = match report.close {
        Some("client") => "new connections, the client closes first".to_owned(),
        Some("reset") => "new connections, the client resets them".to_owned(),
        Some(_) => "new connections, the server closes first".to_owned(),
        None if report.pipeline > 1 => format!("keep-alive, {} requests per write", report.pipeline),
        None => "keep-alive".to_owned(),
    };
    let more = report.targets.len() - 1;
    write!(out, "{}", report.targets[0])?;
    if more > 0 {
        write!(out, " and {more} more")?;
    }
    let threads =
        if report.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", report.threads) };
    write!(out, ": {what}, {} at a time, {threads}", grouped(u64::from(report.connections)))?;
    if let Some(rate) = report.rate_wanted {
        write!(out, ", {} requests per second", number(rate))?;
    }
    if report.sources > 0 {
        write!(out, ", from {} addresses", report.sources)?;
    }
    writeln!(out)
}

fn latency(name: &str, row: &LatencyRow, out: &mut String) -> fmt::Result {
    if row.count == 0 {
        return Ok(());
    }
    write!(out, "  {name:<12}")?;
    for value in [row.mean, row.p50, row.p90, row.p99, row.p99_9, row.max] {
        write!(out, "{:>10}", time(value))?;
    }
    writeln!(out)
}

fn failures(report: &Report, out: &mut String) -> fmt::Result {
    writeln!(out, "  {:<12}{:>14}", "failed", grouped(report.failed))?;
    for row in &report.failures {
        write!(out, "  {:>26}  {}", grouped(row.count), row.sentence)?;
        match &row.first_error {
            Some(error) => writeln!(out, " (first: {error})")?,
            None => writeln!(out)?,
        }
    }
    if report.failures.iter().any(|row| row.kind == "status") {
        let classes = report.statuses.iter().map(|row| format!("{} of {}xx", grouped(row.count), row.class));
        writeln!(out, "  {:<12}{:>14}", "statuses", classes.collect::<Vec<_>>().join(", "))?;
    }
    if let Some(bytes) = report.foreign_bytes {
        writeln!(out, "  {:<12}{:>14} bytes", "foreign", grouped(bytes))?;
    }
    Ok(())
}

fn notes(report: &Report, out: &mut String) -> fmt::Result {
    if report.reconnects > 0 {
        let count = grouped(report.reconnects);
        writeln!(
            out,
            "  The server ended {count} kept connections between requests; they were opened again."
        )?;
    }
    if report.unstarted > 0 {
        writeln!(
            out,
            "  {} requests were due and never started: the rate is higher than the server, the connections or this program can sustain.",
            grouped(report.unstarted)
        )?;
    }
    if report.stopped {
        writeln!(out, "  Ended early, with {} requests under way.", grouped(report.unfinished))?;
    }
    if report.requests == 0 {
        writeln!(out, "  Not one request was answered as expected.")?;
    }
    if report.client_busy >= BUSY {
        writeln!(
            out,
            "  This program was busy {:.0} % of the time: it, and not the server, may be the limit. More --threads may help.",
            report.client_busy * 100.0
        )?;
    }
    Ok(())
}

/// Formats a time, given in microseconds, in us, ms or s with three digits.
fn time(micros: f64) -> String {
    let (value, unit) = match micros {
        micros if micros < 1e3 => (micros, "us"),
        micros if micros < 1e6 => (micros / 1e3, "ms"),
        micros => (micros / 1e6, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
    grouped(value.round() as u64)
}

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (value, want) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(value), want);
        }
        for (micros, want) in [
            (1.234, "1.23 us"),
            (12.34, "12.3 us"),
            (123.4, "123 us"),
            (1_234.0, "1.23 ms"),
            (2.5e6, "2.50 s"),
        ] {
            assert_eq!(time(micros), want);
        }
        assert_eq!((number(0.5), number(1_234.6)), ("0.5".to_owned(), "1,235".to_owned()));
    }
}
