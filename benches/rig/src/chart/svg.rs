//! The text of the picture. Colors follow the reader's light or dark mode; a description stands for the bars where none are seen.
//!
//! Does not know about: where the figures come from.

use std::fmt::Write;

use super::layout::{BAR, BOTTOM, GAP, GROUP_GAP, LEFT, MARGIN, Scale, TOP, WIDTH, group_height, wrapped};
use super::{Chart, SERIES};
use crate::report::thousands;

const TITLE_SIZE: f64 = 17.0;
const TEXT_SIZE: f64 = 12.0;
/// From the top of a bar to the foot of the letters beside it.
const FOOT: f64 = 9.8;

/// `a` and `b` are the two loads; `ours` is doorbell. First light mode, then what is different in dark mode.
const STYLE: &str = "\
text { fill: #1f2328; font: 12px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif }
.back { fill: #ffffff }
.title { font-size: 17px; font-weight: 600 }
.soft, .tick { fill: #59636e }
.name { text-anchor: end }
.tick { text-anchor: middle }
.value { stroke: #ffffff; stroke-width: 3px; paint-order: stroke }
.ours { font-weight: 600 }
.line { stroke: #d8dee4 }
.a { fill: #6e7781 }
.b { fill: #afb8c1 }
.ours-a { fill: #0550ae }
.ours-b { fill: #54aeff }
.floor { stroke: #bc4c00; stroke-dasharray: 4 3 }
.floor-text { fill: #bc4c00 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.back { fill: #0d1117 }
.soft, .tick { fill: #9198a1 }
.value { stroke: #0d1117 }
.line { stroke: #2f353d }
.a { fill: #9198a1 }
.b { fill: #565d66 }
.ours-a { fill: #79c0ff }
.ours-b { fill: #1f6feb }
.floor { stroke: #f0883e }
.floor-text { fill: #f0883e }
}
";

/// The picture.
pub(super) fn write(chart: &Chart) -> String {
    let largest =
        chart.rows.iter().flat_map(|bars| bars.values.iter().flatten()).copied().fold(0.0, f64::max);
    let scale = Scale::to(largest);
    let height = height(chart);
    let mut text = String::new();
    line(
        &mut text,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title desc\">"
        ),
    );
    line(&mut text, format_args!("<title id=\"title\">{}</title>", escaped(&chart.title)));
    line(&mut text, format_args!("<desc id=\"desc\">{}</desc>", escaped(&description(chart))));
    line(&mut text, format_args!("<style>\n{STYLE}</style>"));
    line(&mut text, format_args!("<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>"));
    heading(&mut text, chart);
    ticks(&mut text, &scale, height);
    let mut y = TOP;
    for bars in &chart.rows {
        y = group(&mut text, bars, &scale, y);
    }
    floor(&mut text, chart, &scale, height);
    text.push_str("</svg>\n");
    text
}

/// One server; where the next begins.
fn group(text: &mut String, bars: &super::Bars, scale: &Scale, y: f64) -> f64 {
    let count = bars.values.iter().flatten().count();
    let middle = y + group_height(count) / 2.0 + TEXT_SIZE * 0.35;
    let (weight, prefix) = if bars.is_ours { (" ours", "ours-") } else { ("", "") };
    let name = escaped(&bars.name);
    line(
        text,
        format_args!("<text class=\"name{weight}\" x=\"{}\" y=\"{middle:.1}\">{name}</text>", LEFT - 8.0),
    );
    let mut at = y;
    for (value, series) in bars.values.iter().zip(["a", "b"]) {
        let Some(value) = value else { continue };
        let length = scale.length(*value);
        line(
            text,
            format_args!(
                "<rect class=\"{prefix}{series}\" x=\"{LEFT}\" y=\"{at:.1}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"1.5\"/>"
            ),
        );
        let (x, foot) = (LEFT + length + 5.0, at + FOOT);
        line(
            text,
            format_args!(
                "<text class=\"value{weight}\" x=\"{x:.1}\" y=\"{foot:.1}\">{}</text>",
                thousands(*value)
            ),
        );
        at += BAR + GAP;
    }
    at - GAP + GROUP_GAP
}

fn heading(text: &mut String, chart: &Chart) {
    let title = escaped(&chart.title);
    line(
        text,
        format_args!(
            "<text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{title}</text>",
            MARGIN + TITLE_SIZE * 0.8
        ),
    );
    let mut y = 50.0;
    for part in wrapped(&chart.subtitle, TEXT_SIZE, WIDTH - 2.0 * MARGIN) {
        line(text, format_args!("<text class=\"soft\" x=\"{MARGIN}\" y=\"{y}\">{}</text>", escaped(&part)));
        y += 16.0;
    }
    let mut x = MARGIN;
    for (&(_, _, name), series) in SERIES.iter().zip(["a", "b"]) {
        line(
            text,
            format_args!(
                "<rect class=\"ours-{series}\" x=\"{x}\" y=\"84\" width=\"12\" height=\"12\" rx=\"1.5\"/>"
            ),
        );
        line(
            text,
            format_args!(
                "<rect class=\"{series}\" x=\"{}\" y=\"84\" width=\"12\" height=\"12\" rx=\"1.5\"/>",
                x + 14.0
            ),
        );
        line(text, format_args!("<text x=\"{}\" y=\"94\">{}</text>", x + 32.0, escaped(name)));
        x += 270.0;
    }
}

fn ticks(text: &mut String, scale: &Scale, height: f64) {
    for value in scale.ticks() {
        let x = LEFT + scale.length(value);
        line(
            text,
            format_args!(
                "<line class=\"line\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{}\"/>",
                TOP - 6.0,
                height - BOTTOM + 4.0
            ),
        );
        line(
            text,
            format_args!(
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{}</text>",
                TOP - 11.0,
                thousands(value)
            ),
        );
    }
}

fn floor(text: &mut String, chart: &Chart, scale: &Scale, height: f64) {
    let Some(value) = chart.floor else { return };
    let x = LEFT + scale.length(value);
    line(
        text,
        format_args!(
            "<line class=\"floor\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{}\"/>",
            TOP - 6.0,
            height - BOTTOM + 4.0
        ),
    );
    line(
        text,
        format_args!(
            "<text class=\"floor-text\" x=\"{:.1}\" y=\"{}\">bare system calls, nothing parsed: {}</text>",
            x + 5.0,
            height - 5.0,
            thousands(value)
        ),
    );
}

fn height(chart: &Chart) -> f64 {
    let groups = chart.rows.iter().map(|bars| group_height(bars.values.iter().flatten().count()) + GROUP_GAP);
    (TOP + groups.sum::<f64>() - GROUP_GAP + BOTTOM).ceil()
}

/// The figures as a sentence for each server.
fn description(chart: &Chart) -> String {
    let mut text = chart.subtitle.clone();
    for bars in &chart.rows {
        let parts: Vec<String> = bars
            .values
            .iter()
            .zip(SERIES)
            .filter_map(|(value, (mode, in_flight, _))| {
                Some(format!("{mode} {in_flight} {}", thousands((*value)?)))
            })
            .collect();
        write!(text, " {}: {}.", bars.name, parts.join(", ")).expect("a string takes everything");
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string takes everything");
}
