//! Compares measured figures with committed figures and with each other. Writes the report, and
//! decides whether the gate passed.

use super::figures::{Committed, Taken};
use crate::report::{Page, Table, or_dash, percent};

/// Tolerated deviation from the committed figure: a row that costs more fails, and the figure of a
/// row that costs less can be lowered. Boots of one binary differ by a few tenths of a per cent.
const TOLERANCE_PERCENT: f64 = 2.0;

/// The limit of a promise: how far `row` may exceed `beside`.
#[derive(Clone, Copy, Debug)]
pub(super) enum AtMost {
    /// At most this many additional instructions.
    More(f64),
    /// At most this multiple of the instructions.
    Times(f64),
}

/// A promise about `row` relative to `beside`. Its limit is part of the source, so `--write` does
/// not change it.
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

/// All promises.
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

/// Adds the table of rows to `page`. Returns whether every row is within the tolerance of its
/// committed figure. A row that costs less than committed passes, with a hint to lower the
/// committed figure.
pub(super) fn judge(committed: &Committed, measured: &Committed, page: &mut Page) -> bool {
    let mut table = Table::new(["row", "server", "+-%", "committed", "%", "verdict"]);
    let (mut passed, mut may_be_lower) = (true, false);
    for now in &measured.rows {
        let before = committed.rows.iter().find(|before| before.row == now.row).map(|before| before.server);
        let percent = before.map(|before| percent(now.server, before));
        let verdict = match percent {
            None => "FAIL: no committed figure",
            Some(percent) if percent > TOLERANCE_PERCENT => "FAIL",
            Some(percent) if percent < -TOLERANCE_PERCENT => "ok, lower",
            Some(_) => "ok",
        };
        passed &= !verdict.starts_with("FAIL");
        may_be_lower |= verdict == "ok, lower";
        table.row([
            now.row.clone(),
            format!("{:.0}", now.server),
            format!("{:.1}", now.spread_percent),
            or_dash(before, |before| format!("{before:.0}")),
            or_dash(percent, |percent| format!("{percent:+.1}")),
            verdict.to_owned(),
        ]);
    }
    for before in committed.rows.iter().filter(|before| measured.rows.iter().all(|now| now.row != before.row))
    {
        table.row([&before.row, "-", "-", "-", "-", "FAIL: committed but not measured"]);
        passed = false;
    }
    page.table(table);
    if !passed {
        page.words(
            "A row costs more than committed. `doorbell-rig rows` shows details; to accept the cost, run `doorbell-rig gate --write` and give \
             the reason in the commit.",
        );
    }
    if may_be_lower {
        page.words("A row is cheaper than committed: keep it with `doorbell-rig gate --write`.");
    }
    differences(&committed.taken, &measured.taken, page);
    passed
}

/// Describes other differences that may have changed the figures.
fn differences(committed: &Taken, measured: &Taken, page: &mut Page) {
    let repeat = [committed, measured].map(|taken| taken.repeat.to_string());
    let all = [
        ("kernel package", &committed.kernel_package, &measured.kernel_package),
        ("compiler", &committed.rustc, &measured.rustc),
        ("QEMU", &committed.qemu, &measured.qemu),
        ("CPU model", &committed.cpu, &measured.cpu),
        ("number of samples", &repeat[0], &repeat[1]),
    ];
    let changed = all.into_iter().filter(|(_, before, now)| before != now);
    page.lines(
        changed
            .map(|(what, before, now)| format!("Not the same {what}: committed with {before}, now {now}.")),
    );
}

/// Whether all promises are kept. `server` returns the instructions of a row.
pub(super) fn judge_promises(
    promises: &[Promise],
    server: impl Fn(&str) -> Option<f64>,
    page: &mut Page,
) -> bool {
    let mut table = Table::new(["promise", "measured", "at most", "verdict"]);
    let mut all_kept = true;
    for &Promise { what, row, beside, at_most } in promises {
        let figures = server(row).zip(server(beside)).map(|(row, beside)| match at_most {
            AtMost::More(most) => (row - beside <= most, format!("{:+.0}", row - beside)),
            AtMost::Times(most) => (row <= beside * most, format!("{:.3} times", row / beside)),
        });
        let (is_kept, measured) = figures.unwrap_or_else(|| (false, "not measured".to_owned()));
        let most = match at_most {
            AtMost::More(most) => format!("{most:+.0}"),
            AtMost::Times(most) => format!("{most} times"),
        };
        all_kept &= is_kept;
        table.row([what, &measured, &most, if is_kept { "ok" } else { "FAIL" }]);
    }
    page.table(table);
    all_kept
}

#[cfg(test)]
mod tests {
    use super::super::figures::Line;
    use super::*;
    use crate::report::{Form, show};

    fn figures(rows: &[(&str, f64)]) -> Committed {
        let rows = rows.iter().map(|&(row, server)| Line { row: row.into(), server, spread_percent: 0.1 });
        Committed {
            taken: Taken { kernel_package: "linux 1".into(), ..Taken::default() },
            rows: rows.collect(),
        }
    }

    fn judged(committed: &Committed, measured: &Committed) -> (String, bool) {
        let mut page = Page::default();
        let passed = judge(committed, measured, &mut page);
        (show(Form::Table, &(), || page), passed)
    }

    #[test]
    fn two_per_cent_either_way() {
        let committed = figures(&[("a", 10_000.0)]);
        for (now, passes, says) in [
            (10_000.0, true, "+0.0  ok\n"),
            (10_199.0, true, "+2.0  ok\n"),
            (10_201.0, false, "FAIL"),
            (12_000.0, false, "+20.0"),
            (9_801.0, true, "-2.0  ok\n"),
            (9_700.0, true, "gate --write"),
        ] {
            let (text, passed) = judged(&committed, &figures(&[("a", now)]));
            assert_eq!(passed, passes, "{text}");
            assert!(text.contains(says), "{text}");
            assert!(!text.contains("Not the same"), "{text}");
        }
    }

    #[test]
    fn a_row_on_one_side_only_fails() {
        let (one, two) = (figures(&[("a", 1.0)]), figures(&[("a", 1.0), ("b", 1.0)]));
        let (text, passed) = judged(&one, &two);
        assert!(!passed && text.contains("no committed figure"), "{text}");
        let (text, passed) = judged(&two, &one);
        assert!(!passed && text.contains("committed but not measured"), "{text}");
    }

    #[test]
    fn another_kernel_is_said() {
        let committed = figures(&[("a", 1.0)]);
        let mut now = committed.clone();
        now.taken.kernel_package = "linux 2".into();
        let (text, passed) = judged(&committed, &now);
        assert!(passed && text.contains("kernel package: committed with linux 1, now linux 2"), "{text}");
    }

    #[test]
    fn each_promise_is_held_to_its_own_figure() {
        let promises = [
            more("a", "row", "beside", 400.0),
            Promise { what: "b", row: "row", beside: "beside", at_most: AtMost::Times(1.05) },
        ];
        for (row, beside, kept) in [
            (10_400.0, 10_000.0, [true, true]),
            (10_401.0, 10_000.0, [false, true]),
            (1_060.0, 1_000.0, [true, false]),
        ] {
            let server = |id: &str| Some(if id == "row" { row } else { beside });
            let judged = promises.map(|promise| judge_promises(&[promise], server, &mut Page::default()));
            assert_eq!(judged, kept, "{row} beside {beside}");
        }
        let mut page = Page::default();
        assert!(!judge_promises(&promises, |id| (id == "row").then_some(1.0), &mut page));
        let text = show(Form::Table, &(), || page);
        assert_eq!(text.matches("not measured").count(), 2, "{text}");
    }
}
