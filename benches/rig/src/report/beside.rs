//! Rows that are meant to cost the same, or little more: beside idle connections and without them, two workers and one, guarded and
//! open.
//!
//! Does not know about: goals, how rows are measured.

use super::{Outcome, median, share};
use crate::plan::{Mode, Row};

/// Behind the name of a server, which is otherwise that of the one with one worker, or whose route is open.
const ENDS: [&str; 2] = ["-2w", "-guard"];

/// A line for each of `outcomes` whose plainer row is among them too and both are clean.
pub(super) fn lines(outcomes: &[Outcome]) -> Vec<String> {
    let clean = || outcomes.iter().filter(|outcome| outcome.is_clean());
    let pairs = clean().flat_map(|outcome| {
        let plainer = plainer(&outcome.row);
        plainer.into_iter().filter_map(move |row| Some((outcome, clean().find(|base| base.row == row)?)))
    });
    pairs.filter_map(|(outcome, base)| line(outcome, base)).collect()
}

/// The row without the idle connections, and the row of the plainer server.
fn plainer(row: &Row) -> Vec<Row> {
    let mut rows = Vec::new();
    if row.mode.idle_conns() > 0 {
        rows.push(Row { mode: Mode::Close, ..row.clone() });
    }
    if let Some(server) = ENDS.iter().find_map(|end| row.server.strip_suffix(end)) {
        rows.push(Row { server: server.to_owned(), ..row.clone() });
    }
    rows
}

fn line(outcome: &Outcome, base: &Outcome) -> Option<String> {
    let (ours, theirs) = (outcome.figures()?, base.figures()?);
    let percent = |now: f64, before: f64| (now - before) / before * 100.0;
    Some(format!(
        "{} beside {}: server {:+.0} ({:+.1} %), machine {:+.1} %, {:.3} x as many a second",
        outcome.row.id(),
        base.row.id(),
        ours.server - theirs.server,
        percent(ours.server, theirs.server),
        percent(ours.machine, theirs.machine),
        elapsed(base)? / elapsed(outcome)?,
    ))
}

/// Nanoseconds a request, idle time included.
fn elapsed(outcome: &Outcome) -> Option<f64> {
    let samples = outcome.samples.iter().filter(|sample| sample.requests > 0);
    median(&samples.map(|sample| share(sample.elapsed, sample)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Sample;

    fn outcome(server: &str, mode: Mode, instructions: i64) -> Outcome {
        let sample = Sample {
            requests: 1,
            server: instructions,
            machine: 5 * instructions,
            elapsed: 10 * instructions,
            ..Sample::default()
        };
        let row = Row { server: server.into(), mode, in_flight: 64 };
        Outcome { row, samples: vec![sample], failure: None }
    }

    #[test]
    fn each_is_compared_with_what_is_plainer() {
        let outcomes = [
            outcome("a", Mode::Close, 20_000),
            outcome("a", Mode::CloseIdle1k, 20_500),
            outcome("a-2w", Mode::Close, 19_000),
            outcome("a-2w", Mode::CloseIdle1k, 20_500),
            outcome("b", Mode::CloseIdle50k, 1),
        ];
        let expected = [
            "a/close-idle1k/64 beside a/close/64: server +500 (+2.5 %), machine +2.5 %, 0.976 x as many a second",
            "a-2w/close/64 beside a/close/64: server -1000 (-5.0 %), machine -5.0 %, 1.053 x as many a second",
            "a-2w/close-idle1k/64 beside a-2w/close/64: server +1500 (+7.9 %), machine +7.9 %, 0.927 x as many a second",
            "a-2w/close-idle1k/64 beside a/close-idle1k/64: server +0 (+0.0 %), machine +0.0 %, 1.000 x as many a second",
        ];
        assert_eq!(lines(&outcomes), expected);
    }

    #[test]
    fn a_row_that_failed_is_compared_with_nothing() {
        let base = outcome("a", Mode::Close, 20_000);
        let lost = Outcome { failure: Some("lost".into()), ..outcome("a", Mode::CloseIdle1k, 1) };
        let mut failed = outcome("a-2w", Mode::Close, 1);
        failed.samples[0].failed = 1;
        assert!(lines(&[base, lost, failed]).is_empty());
    }
}
