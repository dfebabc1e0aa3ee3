//! The picture of a report: a panel for each link, with the round trip over time and the losses as
//! text.

use super::rows::{Course, Link, Loss, whole};
use super::{count, latency, show};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

const WIDTH: f64 = 860.0;
const MARGIN: f64 = 16.0;
/// Width of the scale on the left.
const LEFT: f64 = 76.0;
const TOP: f64 = 64.0;
const PANEL: f64 = 120.0;
const GAP: f64 = 44.0;

/// Colors follow the light or dark mode of the reader.
const STYLE: &str = "\
text { fill: #1f2328; font: 12px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif }
.back { fill: #ffffff } .title { font-size: 17px; font-weight: 600 } .name { font-weight: 600 }
.tick { text-anchor: end } .end { text-anchor: end } .lost { fill: #bc4c00 } .line { stroke: #d8dee4 }
polyline { fill: none; stroke-width: 1.5 } .p50 { stroke: #0550ae } .p99 { stroke: #54aeff }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .back { fill: #0d1117 } .lost { fill: #f0883e } .line { stroke: #2f353d }
.p50 { stroke: #79c0ff } .p99 { stroke: #1f6feb }
}
";

/// Draws all links. A step without receipts is a gap in the lines.
pub(super) fn draw(time: &Range<u32>, step_s: u32, course: &[Course], losses: &[Loss]) -> String {
    let mut links: BTreeMap<&Link, Vec<&Course>> = BTreeMap::new();
    course.iter().for_each(|row| links.entry(&row.of).or_default().push(row));
    let names: BTreeSet<&Link> = links.keys().copied().chain(losses.iter().map(|loss| &loss.of)).collect();
    let height = TOP + (PANEL + GAP) * names.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <style>\n{STYLE}</style>\n<rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"30\">Round trips of links: median and 99th percentile</text>\n\
         <text x=\"{MARGIN}\" y=\"48\">{} to {}</text>\n",
        show(time.start),
        show(time.end)
    );
    for (number, link) in names.into_iter().enumerate() {
        let top = TOP + (PANEL + GAP) * number as f64;
        let rows = links.get(link).map(Vec::as_slice).unwrap_or_default();
        let loss = losses.iter().find(|loss| loss.of == *link);
        let panel = Panel { time, step_s, top, rows };
        panel.draw(&mut out, link, loss);
    }
    out.push_str("</svg>\n");
    out
}

/// The panel of one link, with its round trips over time.
struct Panel<'a> {
    time: &'a Range<u32>,
    step_s: u32,
    top: f64,
    rows: &'a [&'a Course],
}

impl Panel<'_> {
    fn draw(&self, out: &mut String, link: &Link, loss: Option<&Loss>) {
        let (head, right) = (self.top + 14.0, WIDTH - MARGIN);
        let name = escaped(&format!("{} to {}", link.instance, link.link));
        line(out, format_args!("<text class=\"name\" x=\"{LEFT}\" y=\"{head}\">{name}</text>"));
        if let Some(loss) = loss {
            let class = if loss.frames_lost > 0 { "end lost" } else { "end" };
            let (lost, frames) = (count(loss.frames_lost), count(loss.frames));
            let text = format!("{lost} of {frames} frames lost ({})", loss.percent());
            line(out, format_args!("<text class=\"{class}\" x=\"{right}\" y=\"{head}\">{text}</text>"));
        }
        if self.rows.is_empty() {
            line(out, format_args!("<text x=\"{LEFT}\" y=\"{}\">no receipts</text>", head + PANEL / 2.0));
            return;
        }
        let highest = self.rows.iter().map(|row| row.round_trip_us[1]).fold(1.0, f64::max);
        for share in [0.0, 0.5, 1.0] {
            let (y, tick) = (self.y(highest * share, highest), latency(whole(highest * share)));
            let (end, foot) = (LEFT - 6.0, y + 4.0);
            line(
                out,
                format_args!(
                    "<line class=\"line\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>"
                ),
            );
            line(out, format_args!("<text class=\"tick\" x=\"{end}\" y=\"{foot:.1}\">{tick}</text>"));
        }
        for (at, class) in [(1, "p99"), (0, "p50")] {
            for part in self.rows.chunk_by(|before, next| next.at_unix_s <= before.at_unix_s + self.step_s) {
                let mut points = String::new();
                for row in part {
                    let x = self.x(row.at_unix_s);
                    let _ = write!(points, "{x:.1},{:.1} ", self.y(row.round_trip_us[at], highest));
                    // Each step is a horizontal line, so that a single step is visible.
                    let next = self.x(row.at_unix_s + self.step_s);
                    let _ = write!(points, "{next:.1},{:.1} ", self.y(row.round_trip_us[at], highest));
                }
                line(out, format_args!("<polyline class=\"{class}\" points=\"{}\"/>", points.trim_end()));
            }
        }
    }

    fn x(&self, unix_s: u32) -> f64 {
        let inside = unix_s.clamp(self.time.start, self.time.end) - self.time.start;
        let share = f64::from(inside) / f64::from(self.time.end - self.time.start);
        LEFT + share * (WIDTH - MARGIN - LEFT)
    }

    fn y(&self, us: f64, highest: f64) -> f64 {
        self.top + 24.0 + PANEL * (1.0 - us / highest)
    }
}

fn line(out: &mut String, element: std::fmt::Arguments<'_>) {
    // A write to a string cannot fail.
    let _written = writeln!(out, "{element}");
}

fn escaped(text: &str) -> String {
    // XML permits no control characters, not even escaped ones, and not these two.
    let text = text.replace(|c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'), " ");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_gaps_and_names_are_escaped() {
        let of = Link { instance: "<eu>\u{1}".to_owned(), link: "us".to_owned() };
        let row = |at_unix_s| Course { of: of.clone(), at_unix_s, round_trip_us: [1_000.0, 4_000.0] };
        let course = [row(0), row(60), row(600)];
        let loss = Loss { of: of.clone(), frames: 4, frames_lost: 1, frames_dropped: 0 };
        let ap = Link { link: "ap".to_owned(), ..of };
        let only_losses = Loss { of: ap, frames_lost: 0, ..loss };
        let svg = draw(&(0..1_200), 60, &course, &[loss, only_losses]);
        assert_eq!(svg.matches("<polyline class=\"p50\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("<polyline class=\"p99\"").count(), 2);
        assert!(svg.contains("&lt;eu&gt;  to us") && !svg.contains("<eu>") && !svg.contains('\u{1}'));
        assert!(svg.contains("<text class=\"end lost\"") && svg.contains("1 of 4 frames lost (25.000 %)"));
        assert!(svg.contains("&lt;eu&gt;  to ap") && svg.contains(">no receipts</text>"));
        assert!(svg.contains(">4.00ms</text>"), "the scale ends at the highest value");
        for start in svg.lines().filter(|line| line.starts_with('<') && !line.starts_with("</")) {
            let is_closed = start.ends_with("/>") || start.ends_with("</text>");
            assert!(is_closed || start.starts_with("<svg") || start.starts_with("<style"), "{start}");
        }
    }
}
