//! `levers.md` must have an entry for each technique of the rig, and each figure in it must agree
//! with its percentage.

use std::process::Command;

const BOOK: &str = include_str!("../levers.md");
/// Levers without a switch. Their entries give the reason.
const WITHOUT_SWITCH: [&str; 3] = ["Minimum wait of the kernel", "Multishot receive", "Prefetch"];
/// The section about conditions.
const SOURCES: &str = "Where the figures are from";
/// Maximum difference between a stated percentage and the percentage of the rounded figures.
const PERCENT_APART_MAX: f64 = 0.11;

/// Titles and bodies of the sections of `levers.md`.
fn sections() -> Vec<(&'static str, &'static str)> {
    BOOK.split("\n## ").skip(1).map(|part| part.split_once('\n').expect("a section has a body")).collect()
}

/// The names of the techniques and the setting of each, in the order of `list`.
fn techniques() -> Vec<(String, String)> {
    let done = Command::new(env!("CARGO_BIN_EXE_doorbell-rig")).arg("list").output().expect("the rig starts");
    let list = String::from_utf8(done.stdout).expect("the list is text");
    let (_, techniques) = list.split_once("Techniques").expect("the list has techniques");
    let lines = techniques.lines().skip(1).filter_map(|line| line.trim().rsplit_once(' '));
    lines.map(|(name, on)| (name.trim().to_owned(), on.to_owned())).collect()
}

/// Rows of the table in a section, starting with the heading.
fn table(body: &str) -> Vec<Vec<&str>> {
    let lines = body.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Whether the first percentage of a cell such as `18,900 / 19,200 (-1.6 %, -1.0 %)` matches its
/// figures.
fn instructions_agree(cell: &str) -> Option<bool> {
    let (figures, percent) = cell.strip_suffix(" %)")?.split_once(" (")?;
    let (with, without) = figures.split_once(" / ")?;
    let number = |text: &str| text.replace(',', "").parse::<f64>().ok();
    let (with, without) = (number(with)?, number(without)?);
    let (server, machine) = percent.split_once(" %, ")?;
    machine.parse::<f64>().ok()?;
    Some(((with - without) / without * 100.0 - server.parse::<f64>().ok()?).abs() <= PERCENT_APART_MAX)
}

/// Whether the median of a cell such as `-12 % (-15 % to -9 %)` is between its lowest and highest
/// value.
fn spread_holds_middle(cell: &str) -> Option<bool> {
    let (middle, spread) = cell.strip_suffix(" %)")?.split_once(" % (")?;
    let (low, high) = spread.split_once(" % to ")?;
    let [low, middle, high] = [low, middle, high].map(|text| text.parse::<f64>().ok());
    Some(low? <= middle? && middle? <= high?)
}

#[test]
fn each_technique_has_its_entry_in_the_order_of_the_rig() {
    let capital = |name: &str| name[..1].to_uppercase() + &name[1..];
    let techniques = techniques();
    let mut expected: Vec<String> = techniques.iter().map(|(name, _)| capital(name)).collect();
    expected.extend(WITHOUT_SWITCH.map(str::to_owned));
    expected.push(SOURCES.to_owned());
    let sections = sections();
    assert_eq!(sections.iter().map(|(title, _)| *title).collect::<Vec<_>>(), expected);
    for ((title, body), (_, on)) in sections.iter().zip(&techniques) {
        assert!(body.contains(&format!("On: `{on}`. Off: `")), "{title}: on is `{on}`");
    }
    for (title, body) in &sections[..sections.len() - 1] {
        for begin in ["Hypothesis: ", "Verdict: **"] {
            assert!(
                body.lines().any(|line| line.starts_with(begin)),
                "{title}: no line begins with {begin:?}"
            );
        }
    }
}

#[test]
fn each_figure_agrees_with_itself_and_says_where_it_is_from() {
    let sections = sections();
    let (_, sources) = sections[sections.len() - 1];
    let sources: Vec<&str> = table(sources).iter().map(|row| row[0]).collect();
    for (title, body) in &sections[..techniques().len()] {
        let rows = table(body);
        let heads = &rows[0];
        assert!(heads.starts_with(&["driver", "load", "set", "6.1", "6.12"]), "{title}: {heads:?}");
        for row in &rows[1..] {
            for (head, cell) in heads.iter().zip(row).skip(3).filter(|(_, cell)| !cell.is_empty()) {
                let agrees = if *head == "CPU time" { spread_holds_middle } else { instructions_agree };
                assert_eq!(agrees(cell), Some(true), "{title}, {head}: {cell:?}");
                assert!(sources.contains(head), "{title}: no line says where {head} is from");
            }
        }
    }
}

#[test]
fn a_figure_that_does_not_agree_is_seen() {
    assert_eq!(instructions_agree("9,000 / 10,000 (-10.0 %, +25.0 %)"), Some(true));
    assert_eq!(instructions_agree("9,000 / 10,000 (-11.0 %, +25.0 %)"), Some(false));
    assert_eq!(instructions_agree("9,0a0 / 10,000 (-10.0 %, +25.0 %)"), None);
    assert_eq!(spread_holds_middle("-12 % (-15 % to -9 %)"), Some(true));
    assert_eq!(spread_holds_middle("-8 % (-15 % to -9 %)"), Some(false));
}
