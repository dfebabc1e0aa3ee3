//! What was promised of one row beside another: the difference, or the ratio, may not be above a figure that no commit moves.
//!
//! Does not know about: how rows are measured, the committed figures.

use std::fmt::Write;

use super::figures::Committed;

/// How the first row of a promise is held to the second.
#[derive(Clone, Copy, Debug)]
pub(super) enum AtMost {
    /// So many instructions more.
    More(f64),
    /// So many times as many.
    Times(f64),
}

/// One promise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) what: &'static str,
    pub(super) row: &'static str,
    pub(super) beside: &'static str,
    pub(super) at_most: AtMost,
}

const fn more(what: &'static str, row: &'static str, beside: &'static str, instructions: f64) -> Promise {
    Promise { what, row, beside, at_most: AtMost::More(instructions) }
}

/// All of them.
pub(super) const PROMISES: [Promise; 9] = [
    more("a health probe, io_uring", "doorbell-uring-health/keep/64", "doorbell-uring-same/keep/64", 60.0),
    more("a health probe, epoll", "doorbell-epoll-health/keep/64", "doorbell-epoll-same/keep/64", 60.0),
    more(
        "a token and a limit, io_uring",
        "doorbell-uring-guard/keep-token/64",
        "doorbell-uring/keep-token/64",
        400.0,
    ),
    more(
        "a token and a limit, epoll",
        "doorbell-epoll-guard/keep-token/64",
        "doorbell-epoll/keep-token/64",
        400.0,
    ),
    more("a job, io_uring, 64 under way", "jobs-uring/keep/64", "jobs-uring-home/keep/64", 2_500.0),
    more("a job, io_uring, alone", "jobs-uring/keep/1", "jobs-uring-home/keep/1", 12_000.0),
    more("a job, epoll, 64 under way", "jobs-epoll/keep/64", "jobs-epoll-home/keep/64", 2_500.0),
    more("a job, epoll, alone", "jobs-epoll/keep/1", "jobs-epoll-home/keep/1", 12_000.0),
    Promise {
        what: "axum behind a ring thread",
        row: "axum-handed/close/64",
        beside: "axum/close/64",
        at_most: AtMost::Times(1.05),
    },
];

/// A line for each promise whose rows were measured, and whether all are kept.
pub(super) fn judge(promises: &[Promise], measured: &Committed) -> (String, bool) {
    let (mut text, mut kept) = (String::new(), true);
    let server = |row: &str| measured.rows.iter().find(|line| line.row == row).map(|line| line.server);
    for Promise { what, row, beside, at_most } in promises {
        let (Some(row), Some(beside)) = (server(row), server(beside)) else {
            kept = false;
            writeln!(text, "{what:30}  FAIL: not measured").expect("a string takes everything");
            continue;
        };
        let (is_kept, figures) = match at_most {
            AtMost::More(most) => {
                (row - beside <= *most, format!("{:+7.0}, at most {most:+.0}", row - beside))
            }
            AtMost::Times(most) => {
                (row <= beside * most, format!("{:7.3} times, at most {most}", row / beside))
            }
        };
        kept &= is_kept;
        let verdict = if is_kept { "ok" } else { "FAIL" };
        writeln!(text, "{what:30}  {figures}  {verdict}").expect("a string takes everything");
    }
    (text, kept)
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Line, Taken};
    use super::*;

    fn measured(rows: &[(&str, f64)]) -> Committed {
        let rows = rows.iter().map(|&(row, server)| Line { row: row.into(), server, spread_percent: 0.1 });
        Committed { taken: Taken::default(), rows: rows.collect() }
    }

    #[test]
    fn each_is_held_to_its_own_figure() {
        let promises = [
            more("a", "a/keep/1", "b/keep/1", 400.0),
            Promise { what: "b", row: "a/keep/1", beside: "b/keep/1", at_most: AtMost::Times(1.05) },
        ];
        for (row, beside, kept) in [
            (10_400.0, 10_000.0, [true, true]),
            (10_401.0, 10_000.0, [false, true]),
            (1_060.0, 1_000.0, [true, false]),
        ] {
            let measured = measured(&[("a/keep/1", row), ("b/keep/1", beside)]);
            let judged = promises.map(|promise| judge(&[promise], &measured).1);
            assert_eq!(judged, kept, "{row} beside {beside}");
        }
        let (text, kept) = judge(&promises, &measured(&[("a/keep/1", 1.0)]));
        assert!(!kept && text.matches("not measured").count() == 2, "{text}");
    }
}
