//! The contents of the chart, and that nothing is outside its bounds.

use super::layout::{LEFT, RIGHT, Scale, WIDTH};
use super::*;
use crate::plan::{Row, Sample};
use crate::report::Outcome;

fn outcome(server: &str, mode: Mode, instructions: i64) -> Outcome {
    let row = Row { server: server.into(), load: Load::new(mode, 64) };
    let sample = Sample {
        requests: 10,
        server: 10 * instructions,
        machine: 1_000_000,
        elapsed: 1_000_000,
        ..Sample::default()
    };
    Outcome { row, samples: vec![sample], failure: None }
}

fn all() -> Run {
    let rows = vec![
        outcome("nginx", Mode::Close, 42_000),
        outcome("nginx", Mode::Free, 44_000),
        outcome("nginx-plain", Mode::Close, 46_000),
        outcome("nginx", Mode::Keep, 19_000),
        outcome("doorbell-uring", Mode::Close, 18_900),
        outcome("bare", Mode::Close, 18_200),
        outcome("slow<one>", Mode::Close, 116_000),
        Outcome { failure: Some("gone".into()), ..outcome("broken", Mode::Close, 1) },
    ];
    Run {
        conditions: Conditions {
            kernel: "6.12.117+deb12-cloud-amd64".into(),
            repeat: 3,
            ..Conditions::default()
        },
        rows,
        ..Run::default()
    }
}

/// An upper bound for the width of `text` in a common sans-serif font. The letters of a name or a
/// sentence are on average at most 0.62 of the font size wide.
fn text_width(text: &str, size: f64) -> f64 {
    let letters = f64::from(u32::try_from(text.chars().count()).unwrap());
    letters * size * 0.62
}

fn picture() -> String {
    render(&all()).unwrap()
}

/// Collects the numbers of an attribute from all elements that start with `element`.
fn numbers(picture: &str, element: &str, name: &str) -> Vec<f64> {
    let mark = format!(" {name}=\"");
    let of = |line: &str| line.split_once(&mark)?.1.split('"').next()?.parse().ok();
    picture.lines().filter(|line| line.starts_with(element)).filter_map(of).collect()
}

#[test]
fn servers_are_sorted_and_drawn_once() {
    let chart = chart(&all()).unwrap();
    let names: Vec<&str> = chart.rows.iter().map(|bars| bars.name.as_str()).collect();
    assert_eq!(names, ["bare", "doorbell-uring", "nginx", "slow<one>"]);
    assert_eq!(chart.rows[2].values, [Some(42_000.0), Some(44_000.0)]);
    assert_eq!(chart.floor, Some(18_200.0));
}

#[test]
fn nothing_to_draw_is_no_picture() {
    let rows = vec![outcome("nginx", Mode::Keep, 19_000), outcome("nginx-plain", Mode::Close, 46_000)];
    assert_eq!(render(&Run { rows, ..Run::default() }), None);
    assert_eq!(render(&Run::default()), None);
}

#[test]
fn scales_end_on_a_tick_not_below_the_largest() {
    for (largest, end, step) in [
        (116_000.0, 120_000.0, 20_000.0),
        (120_000.0, 120_000.0, 20_000.0),
        (18_200.0, 20_000.0, 5_000.0),
        (1_000.0, 1_000.0, 200.0),
        (0.0, 1.0, 1.0),
    ] {
        let scale = Scale::to(largest);
        assert_eq!((scale.end, scale.step), (end, step), "{largest}");
        let ticks: Vec<f64> = scale.ticks().collect();
        assert_eq!((ticks[0], ticks[ticks.len() - 1]), (0.0, end));
        assert!(ticks.len() <= 9, "{ticks:?}");
        assert!((scale.length(end) - (WIDTH - LEFT - RIGHT)).abs() < 1e-9);
        assert!((2.0 * scale.length(end / 4.0) - scale.length(end / 2.0)).abs() < 1e-9);
    }
}

#[test]
fn bars_are_as_long_as_their_figures() {
    let widths = numbers(&picture(), "<rect class=\"a\" x=\"136\"", "width");
    let expected = [18_200.0, 42_000.0, 116_000.0].map(|value| Scale::to(116_000.0).length(value));
    assert_eq!(widths.len(), expected.len());
    for (width, expected) in widths.iter().zip(expected) {
        assert!((width - expected).abs() < 0.06, "{width} {expected}");
    }
    assert_eq!(numbers(&picture(), "<rect class=\"ours-a\" x=\"136\"", "width").len(), 1);
}

#[test]
fn everything_is_inside_the_picture() {
    let picture = picture();
    let height = numbers(&picture, "<svg", "height")[0];
    for y in numbers(&picture, "<text", "y").into_iter().chain(numbers(&picture, "<rect", "y")) {
        assert!(y >= 0.0 && y <= height - 4.0, "{y} of {height}");
    }
    for line in picture.lines().filter(|line| line.starts_with("<text")) {
        let text = line.split_once('>').unwrap().1.split('<').next().unwrap();
        let x = numbers(line, "<text", "x")[0];
        let size = if line.contains("\"title\"") { 17.0 } else { 12.0 };
        let width = text_width(text, size);
        let (left, right) = if line.contains("class=\"name") {
            (x - width, x)
        } else if line.contains("\"tick\"") {
            (x - width / 2.0, x + width / 2.0)
        } else {
            (x, x + width)
        };
        assert!(left >= 0.0 && right <= WIDTH, "{line}");
    }
}

#[test]
fn names_of_the_whole_catalogue_fit() {
    for entry in crate::image::servers::CATALOGUE {
        // A variation of doorbell is drawn only if it is requested by name.
        let fits = text_width(entry.name, 12.0) <= LEFT - 8.0;
        assert!(fits || entry.is_variation(), "{}", entry.name);
    }
}

#[test]
fn what_is_seen_is_also_said_and_names_are_escaped() {
    let picture = picture();
    let desc = picture.lines().find(|line| line.starts_with("<desc")).unwrap();
    assert!(desc.contains("nginx: close 64 42,000, free 64 44,000."), "{desc}");
    assert!(picture.contains("slow&lt;one&gt;") && !picture.contains("slow<one>"));
    assert!(picture.contains("prefers-color-scheme: dark") && picture.contains("role=\"img\""));
}
