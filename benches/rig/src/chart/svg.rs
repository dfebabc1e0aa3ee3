//! The SVG text. Colors follow the light or dark mode of the reader. Screen readers get a
//! description instead of the bars.

use std::fmt::Display;

use super::layout::{BAR, BOTTOM, GAP, GROUP_GAP, LEFT, MARGIN, Scale, TOP, WIDTH, group_height};
use super::{Chart, SERIES, TITLE};
use crate::report::thousands;

const TITLE_SIZE: f64 = 17.0;
const TEXT_SIZE: f64 = 12.0;
/// Distance from the top of a bar to the baseline of its text.
const FOOT: f64 = 9.8;

/// Styles: `a` and `b` are the two loads, and `ours` is doorbell. The block `@media` has the
/// differences in dark mode.
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

/// Elements of the picture, one per line.
#[derive(Default)]
struct Picture(String);

impl Picture {
    fn line(&mut self, element: &str) {
        self.0.push_str(element);
        self.0.push('\n');
    }

    fn text(&mut self, class: &str, x: impl Display, y: impl Display, words: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.line(&format!("<text{class} x=\"{x}\" y=\"{y}\">{}</text>", escaped(words)));
    }

    fn bar(&mut self, class: &str, x: f64, y: impl Display, width: impl Display) {
        self.line(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BAR}\" rx=\"1.5\"/>"
        ));
    }

    /// Draws a vertical line across all bars.
    fn rule(&mut self, class: &str, x: f64, height: f64) {
        let (top, bottom) = (TOP - 6.0, height - BOTTOM + 4.0);
        self.line(&format!(
            "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>"
        ));
    }
}

/// Writes the whole chart.
pub(super) fn write(chart: &Chart) -> String {
    let largest =
        chart.rows.iter().flat_map(|bars| bars.values.iter().flatten()).copied().fold(0.0, f64::max);
    let scale = Scale::to(largest);
    let height = height(chart);
    let mut picture = Picture::default();
    picture.line(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"title desc\">"
    ));
    picture.line(&format!("<title id=\"title\">{}</title>", escaped(TITLE)));
    picture.line(&format!("<desc id=\"desc\">{}</desc>", escaped(&description(chart))));
    picture.line(&format!("<style>\n{STYLE}</style>"));
    picture.line(&format!("<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>"));
    heading(&mut picture, chart);
    for value in scale.ticks() {
        let x = LEFT + scale.length(value);
        picture.rule("line", x, height);
        picture.text("tick", tenths(x), TOP - 11.0, &thousands(value));
    }
    let mut y = TOP;
    for bars in &chart.rows {
        y = group(&mut picture, bars, &scale, y);
    }
    if let Some(value) = chart.floor {
        let x = LEFT + scale.length(value);
        let words = format!("bare system calls, nothing parsed: {}", thousands(value));
        picture.rule("floor", x, height);
        picture.text("floor-text", tenths(x + 5.0), height - 5.0, &words);
    }
    picture.line("</svg>");
    picture.0
}

/// Draws one server, and returns the position of the next server.
fn group(picture: &mut Picture, bars: &super::Bars, scale: &Scale, y: f64) -> f64 {
    let count = bars.values.iter().flatten().count();
    let middle = y + group_height(count) / 2.0 + TEXT_SIZE * 0.35;
    let (weight, prefix) = if bars.name.starts_with("doorbell") { (" ours", "ours-") } else { ("", "") };
    picture.text(&format!("name{weight}"), LEFT - 8.0, tenths(middle), &bars.name);
    let mut at = y;
    for (value, series) in bars.values.iter().zip(["a", "b"]) {
        let Some(value) = value else { continue };
        let length = scale.length(*value);
        picture.bar(&format!("{prefix}{series}"), LEFT, tenths(at), tenths(length));
        let (x, foot) = (LEFT + length + 5.0, at + FOOT);
        picture.text(&format!("value{weight}"), tenths(x), tenths(foot), &thousands(*value));
        at += BAR + GAP;
    }
    at - GAP + GROUP_GAP
}

fn heading(picture: &mut Picture, chart: &Chart) {
    picture.text("title", MARGIN, MARGIN + TITLE_SIZE * 0.8, TITLE);
    let mut y = 50.0;
    for line in &chart.subtitle {
        picture.text("soft", MARGIN, y, line);
        y += 16.0;
    }
    let mut x = MARGIN;
    for (&(_, name), series) in SERIES.iter().zip(["a", "b"]) {
        picture.bar(&format!("ours-{series}"), x, 84, 12);
        picture.bar(series, x + 14.0, 84, 12);
        picture.text("", x + 32.0, 94, name);
        x += 270.0;
    }
}

fn height(chart: &Chart) -> f64 {
    let groups = chart.rows.iter().map(|bars| group_height(bars.values.iter().flatten().count()) + GROUP_GAP);
    (TOP + groups.sum::<f64>() - GROUP_GAP + BOTTOM).ceil()
}

/// The values as text, with a sentence for each server.
fn description(chart: &Chart) -> String {
    let mut text = chart.subtitle.join(" ");
    for bars in &chart.rows {
        let named = bars.values.iter().zip(SERIES).filter_map(|(value, (load, _))| {
            Some(format!("{} {} {}", load.mode, load.in_flight, thousands((*value)?)))
        });
        text.push_str(&format!(" {}: {}.", bars.name, named.collect::<Vec<_>>().join(", ")));
    }
    text
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
