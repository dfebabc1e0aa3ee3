//! Reports of samples with known figures.

use super::*;
use crate::plan::{Load, Mode};

fn sample(server: i64, machine: i64) -> Sample {
    Sample { requests: 100, server, machine, elapsed: 2 * machine, switches: 150, failed: 0 }
}

fn outcome(samples: &[Sample]) -> Outcome {
    let row = Row { server: "doorbell-epoll".into(), load: Load::new(Mode::Close, 64) };
    Outcome { row, samples: samples.to_vec(), failure: None }
}

fn conditions() -> Conditions {
    Conditions {
        kernel: "6.12".into(),
        qemu: "QEMU 7".into(),
        cpu: "max".into(),
        repeat: 3,
        ..Conditions::default()
    }
}

#[test]
fn medians_of_odd_and_even_numbers() {
    for (values, expected) in [
        (&[][..], None),
        (&[7.0][..], Some(7.0)),
        (&[3.0, 1.0][..], Some(2.0)),
        (&[9.0, 1.0, 5.0][..], Some(5.0)),
        (&[4.0, 1.0, 2.0, 100.0][..], Some(3.0)),
    ] {
        assert_eq!(median(values), expected, "{values:?}");
    }
}

#[test]
fn figures_are_shares_of_a_request() {
    let mut samples =
        [sample(2_000_000, 10_000_000), sample(1_980_000, 10_100_000), sample(2_040_000, 10_200_000)];
    samples[1].failed = 3;
    let figures = outcome(&samples).figures().unwrap();
    assert_eq!((figures.server, figures.machine, figures.switches), (20_000.0, 101_000.0, 1.5));
    assert!((figures.server_spread_percent - 3.0).abs() < 1e-9, "{figures:?}");
    assert!((figures.idle_percent - 50.0).abs() < 1e-9, "{figures:?}");
    assert_eq!(figures.failed, 3);
}

#[test]
fn only_a_row_without_any_failure_is_clean() {
    let good = outcome(&[sample(2_000_000, 10_000_000)]);
    assert!(good.is_clean());
    assert!(!Outcome { failure: Some("stopped".into()), ..good.clone() }.is_clean());
    assert!(!Outcome { samples: Vec::new(), ..good.clone() }.is_clean());
    let one_failed = Sample { failed: 1, ..good.samples[0] };
    assert!(!Outcome { samples: vec![one_failed], ..good }.is_clean());
}

#[test]
fn no_requests_no_figures() {
    assert_eq!(outcome(&[]).figures(), None);
    assert_eq!(outcome(&[Sample::default()]).figures(), None);
}

fn run(rows: Vec<Outcome>) -> Run {
    Run { conditions: conditions(), rows, ..Run::default() }
}

fn text(page: Page) -> String {
    show(Form::Table, &(), || page)
}

#[test]
fn a_table_down_has_a_line_for_each_row_and_says_what_failed() {
    let good = outcome(&[sample(2_000_000, 10_000_000)]);
    let bad = Outcome::failed(good.row.clone(), "the server is gone".into());
    let text = text(down(&run(vec![good, bad])));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("6.12") && lines[0].contains("QEMU 7"), "{text}");
    assert!(text.contains("doorbell-epoll  close         64  20,000  0.0  100,000"), "{text}");
    assert!(text.contains("doorbell-epoll/close/64: the server is gone"), "{text}");
}

#[test]
fn each_row_is_compared_with_its_simpler_rows() {
    let outcome = |server: &str, mode, instructions: i64| {
        let sample = Sample {
            requests: 1,
            server: instructions,
            machine: 5 * instructions,
            elapsed: 10 * instructions,
            ..Sample::default()
        };
        let row = Row { server: server.into(), load: Load::new(mode, 64) };
        Outcome { row, samples: vec![sample], failure: None }
    };
    let mut rows = vec![
        outcome("a", Mode::Close, 20_000),
        outcome("a", Mode::CloseIdle1k, 20_500),
        outcome("a-2w", Mode::Close, 19_000),
        outcome("a-2w", Mode::CloseIdle1k, 20_500),
        outcome("b", Mode::CloseIdle50k, 1),
    ];
    let markdown = |rows: &[Outcome]| show(Form::Markdown, &(), || down(&run(rows.to_vec())));
    let expected = "\n\
        | a/close-idle1k/64 | a/close/64 | +500 | +2.5 | +2.5 | 0.976 |\n\
        | a-2w/close/64 | a/close/64 | -1000 | -5.0 | -5.0 | 1.053 |\n\
        | a-2w/close-idle1k/64 | a-2w/close/64 | +1500 | +7.9 | +7.9 | 0.927 |\n\
        | a-2w/close-idle1k/64 | a/close-idle1k/64 | +0 | +0.0 | +0.0 | 1.000 |\n";
    assert!(markdown(&rows).ends_with(expected), "{}", markdown(&rows));
    // A failed row must not be compared.
    rows[1].failure = Some("lost".into());
    rows[2].samples[0].failed = 1;
    assert!(!markdown(&rows).contains("compared with"), "{}", markdown(&rows));
}

#[test]
fn json_holds_conditions_figures_and_samples_and_is_read_again() {
    let good = outcome(&[sample(2_000_000, 10_000_000), sample(1_980_000, 10_100_000)]);
    let bad = Outcome::failed(good.row.clone(), "gone \"x\"".into());
    let text = json(&run(vec![good, bad]));
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed["conditions"]["kernel"], "6.12");
    let row = &parsed["rows"][0];
    assert_eq!((row["server_name"].as_str(), row["mode"].as_str()), (Some("doorbell-epoll"), Some("close")));
    assert_eq!(row["figures"]["server"], 19_900.0);
    assert_eq!(row["samples"][0]["server"], 2_000_000);
    assert_eq!(row["failure"], serde_json::Value::Null);
    let again: Run = serde_json::from_str(&text).unwrap();
    assert_eq!(json(&again), text);
    assert_eq!((again.rows.len(), again.rows[1].failure.as_deref()), (2, Some("gone \"x\"")));
    assert!(serde_json::from_str::<Run>("{}").is_err());
}

#[test]
fn a_table_across_has_only_columns_with_clean_figures() {
    let good = outcome(&[sample(2_000_000, 10_000_000)]);
    let mut failed = good.clone();
    failed.row.server = "nginx".into();
    failed.samples[0].failed = 1;
    let mut kept = good.clone();
    kept.row.load.mode = Mode::Keep;
    kept.row.server = "nginx".into();
    let text = show(Form::Markdown, &(), || across(&run(vec![kept, good, failed])));
    let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    let expected = [
        "| server | close, 64 | keep, 64 | whole machine, close, 64 |",
        "|---|---:|---:|---:|",
        "| nginx | - | 20,000 | - |",
        "| doorbell-epoll | 20,000 | - | 100,000 |",
    ];
    assert_eq!(table, expected);
    assert!(text.ends_with("\nnginx/close/64: 1 requests failed\n"), "{text}");
}
