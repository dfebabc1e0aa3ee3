//! The plot of a study. Each run has a panel that shows the time of the n-th `connect()` for each
//! n, separately for even and odd ports.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::report::StudyReport;
use super::sample::Sample;
use super::{Run, Study};

/// Inner size of a panel, in pixels like all lengths here.
const WIDTH: u32 = 340;
const HEIGHT: u32 = 150;
/// Size of a panel with its margins.
const PANEL: (u32, u32) = (420, 226);
const LEFT: u32 = 58;
const TOP: u32 = 62;
const COLUMNS: usize = 2;
/// Range of the time axis, from 10^2 ns to 10^8 ns.
const DECADES: (i32, i32) = (2, 8);
/// Side of a cell. Several samples in one cell are drawn once, so that the file stays small.
const CELL: u32 = 2;

/// Draws all runs.
#[must_use]
pub fn svg(study: &Study, runs: &[Run]) -> String {
    let mut text = String::new();
    draw(study, runs, &mut text).expect("a write to a string cannot fail");
    text
}

fn draw(study: &Study, runs: &[Run], out: &mut String) -> fmt::Result {
    let rows = u32::try_from(runs.len().div_ceil(COLUMNS)).expect("some runs");
    let (width, height) = (PANEL.0 * 2, PANEL.1 * rows + 74);
    let report = StudyReport::new(study, runs);
    write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Time of the n-th connect() for each n, even and odd ports apart\">\n<style>\n{STYLE}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" class=\"paper\"/>\n\
         <text x=\"20\" y=\"30\" class=\"title\">What the n-th connect() costs</text>\n\
         <text x=\"20\" y=\"50\">{} connections to one port of {}, Linux {}, ports {}</text>\n\
         <rect x=\"{}\" y=\"21\" width=\"10\" height=\"10\" class=\"even\"/><text x=\"{}\" y=\"30\">even port</text>\n\
         <rect x=\"{}\" y=\"21\" width=\"10\" height=\"10\" class=\"odd\"/><text x=\"{}\" y=\"30\">odd port</text>\n",
        study.conns,
        study.target,
        escaped(&report.kernel),
        study.ports,
        width - 190,
        width - 176,
        width - 100,
        width - 86,
    )?;
    for (index, (run, row)) in runs.iter().zip(&report.runs).enumerate() {
        let (column, line) = (index % COLUMNS, index / COLUMNS);
        let (x, y) = (PANEL.0 as usize * column, PANEL.1 as usize * line + 60);
        writeln!(out, "<g transform=\"translate({x} {y})\">")?;
        let ratio = row.odd_over_even.map_or_else(String::new, |ratio| format!(", odd/even {ratio:.2}"));
        writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{}\" class=\"name\">{} {}</text>",
            TOP - 26,
            row.transport,
            row.name()
        )?;
        writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{}\">median even {}, odd {}{ratio}</text>",
            TOP - 10,
            micros(row.even.p50, row.even.count),
            micros(row.odd.p50, row.odd.count),
        )?;
        panel(run, study.conns, out)?;
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    Ok(())
}

fn panel(run: &Run, conns: u32, out: &mut String) -> fmt::Result {
    for decade in DECADES.0..=DECADES.1 {
        let y = TOP + y_of(10_f64.powi(decade));
        let label = ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]
            [usize::try_from(decade - DECADES.0).expect("from the first")];
        writeln!(
            out,
            "<path d=\"M{LEFT} {y}h{WIDTH}\" class=\"grid\"/><text x=\"{}\" y=\"{}\" class=\"tick\">{label}</text>",
            LEFT - 6,
            y + 3
        )?;
    }
    for (part, anchor) in [(0, "start"), (1, "end")] {
        let (x, number) = (LEFT + part * WIDTH, part * conns);
        let y = TOP + HEIGHT + 12;
        writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" class=\"small\">{number}</text>")?;
    }
    for (odd, class) in [(false, "even"), (true, "odd")] {
        write!(out, "<path class=\"{class}\" d=\"")?;
        for (x, y) in cells(&run.samples, odd) {
            write!(out, "M{} {}h{CELL}v{CELL}h-{CELL}z", LEFT + x, TOP + y)?;
        }
        out.push_str("\"/>\n");
    }
    Ok(())
}

/// The positions of all cells that contain a sample.
fn cells(samples: &[Sample], odd: bool) -> BTreeSet<(u32, u32)> {
    let numbered = samples.iter().enumerate();
    let half = numbered.filter(|(_, sample)| sample.is_connected() && sample.is_odd() == odd);
    half.map(|(number, sample)| {
        let x = number * (WIDTH - CELL) as usize / samples.len();
        let x = u32::try_from(x).expect("inside the panel");
        let y = y_of(f64::from(sample.connect_ns)).min(HEIGHT - CELL);
        (x - x % CELL, y - y % CELL)
    })
    .collect()
}

/// Pixels from the top of a panel, on a logarithmic axis.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "inside the panel")]
fn y_of(nanos: f64) -> u32 {
    let (from, to) = (f64::from(DECADES.0), f64::from(DECADES.1));
    let share = ((nanos.max(1.0).log10() - from) / (to - from)).clamp(0.0, 1.0);
    ((1.0 - share) * f64::from(HEIGHT)).round() as u32
}

fn micros(value: f64, count: u32) -> String {
    if count == 0 { "-".to_owned() } else { format!("{value:.1} µs") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

const STYLE: &str = "\
text { font: 11px system-ui, sans-serif; fill: #3a3f47; }
.title { font-size: 17px; font-weight: 600; }
.name { font-size: 13px; font-weight: 600; }
.tick { text-anchor: end; font-size: 9px; }
.small { font-size: 9px; }
.paper { fill: #ffffff; }
.grid { stroke: #d8dce2; stroke-width: 1; }
.even { fill: #1f6fb4; fill-opacity: .75; }
.odd { fill: #d9622b; fill-opacity: .75; }
@media (prefers-color-scheme: dark) {
  text { fill: #c9d1d9; }
  .paper { fill: #0d1117; }
  .grid { stroke: #30363d; }
  .even { fill: #58a6ff; }
  .odd { fill: #f0883e; }
}
";

#[cfg(test)]
mod tests {
    use super::super::report::tests::{sample, study};
    use super::*;

    #[test]
    fn the_axis_is_logarithmic_and_has_ends() {
        for (nanos, want) in [(100.0, HEIGHT), (1e8, 0), (1e5, HEIGHT / 2), (0.0, HEIGHT), (1e12, 0)] {
            assert_eq!(y_of(nanos), want, "{nanos}");
        }
    }

    #[test]
    fn samples_of_one_cell_are_drawn_once_and_failures_not() {
        let mut samples = vec![sample(2, 10); 100_000];
        samples.push(Sample { errno: 1, ..Sample::default() });
        let even = cells(&samples, false);
        assert!(even.len() <= (WIDTH / CELL) as usize && even.len() > 100, "{}", even.len());
        assert!(cells(&samples, true).is_empty());
        assert!(even.iter().all(|(x, y)| *x <= WIDTH - CELL && *y <= HEIGHT - CELL));
    }

    #[test]
    fn a_picture_has_a_panel_for_each_run() {
        let (study, mut runs) = study(vec![sample(2, 10), sample(3, 1_000)]);
        runs.push(runs[0].clone());
        let svg = svg(&study, &runs);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<g ").count(), 2);
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert!(svg.contains("tcp auto=full") && svg.contains("odd/even 100.00"));
        assert!(svg.matches("class=\"odd\" d=\"M").count() == 2);
    }
}
