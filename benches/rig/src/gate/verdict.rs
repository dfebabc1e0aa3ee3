//! Measured figures beside committed ones: what is said, and whether the gate is passed.
//!
//! Does not know about: files, guests.

use std::fmt::Write;

use super::figures::{Committed, Line, Taken};

/// How far a row may be from its committed figure, either way. Boots of one binary differ by a few tenths of a per cent.
const TOLERANCE_PERCENT: f64 = 2.0;

/// One line a row.
pub(super) fn list(figures: &Committed) -> String {
    let mut text = String::new();
    for Line { row, server, spread_percent } in &figures.rows {
        line(&mut text, &format!("{row:24}  {server:>7.0}  +-{spread_percent:.1} %"));
    }
    text
}

/// The text, and whether no row is dearer than it may be. A figure that may be lowered passes with a hint.
pub(super) fn judge(committed: &Committed, measured: &Committed) -> (String, bool) {
    let mut text = String::new();
    let mut passed = true;
    let mut may_be_lower = false;
    for now in &measured.rows {
        let Some(before) = committed.rows.iter().find(|before| before.row == now.row) else {
            line(&mut text, &format!("{:24}  {:>7.0}  FAIL: no committed figure", now.row, now.server));
            passed = false;
            continue;
        };
        let percent = (now.server - before.server) / before.server * 100.0;
        let verdict = if percent > TOLERANCE_PERCENT {
            passed = false;
            "FAIL"
        } else if percent < -TOLERANCE_PERCENT {
            may_be_lower = true;
            "ok, lower"
        } else {
            "ok"
        };
        let Line { row, server, spread_percent } = now;
        line(
            &mut text,
            &format!(
                "{row:24}  {server:>7.0}  +-{spread_percent:.1} %  committed {:>7.0}  {percent:+.1} %  {verdict}",
                before.server
            ),
        );
    }
    for before in committed.rows.iter().filter(|before| measured.rows.iter().all(|now| now.row != before.row))
    {
        line(&mut text, &format!("{:24}  FAIL: committed, and not measured any more", before.row));
        passed = false;
    }
    if !passed {
        line(
            &mut text,
            "A row is dearer than it was. Find out why with `doorbell-rig rows`; when it is worth it, `doorbell-rig gate --write` and say so in the commit.",
        );
    }
    if may_be_lower {
        line(&mut text, "A row is cheaper than committed: keep it with `doorbell-rig gate --write`.");
    }
    differences(&mut text, &committed.taken, &measured.taken);
    (text, passed)
}

/// What else may be the cause.
fn differences(text: &mut String, committed: &Taken, measured: &Taken) {
    let repeat = [committed, measured].map(|taken| taken.repeat.to_string());
    for (what, before, now) in [
        ("kernel package", &committed.kernel_package, &measured.kernel_package),
        ("compiler", &committed.rustc, &measured.rustc),
        ("QEMU", &committed.qemu, &measured.qemu),
        ("CPU model", &committed.cpu, &measured.cpu),
        ("number of samples", &repeat[0], &repeat[1]),
    ] {
        if before != now {
            line(text, &format!("Not the same {what}: committed with {before}, now {now}."));
        }
    }
}

fn line(text: &mut String, words: &str) {
    writeln!(text, "{words}").expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rows: &[(&str, f64)]) -> Committed {
        let rows = rows.iter().map(|&(row, server)| Line { row: row.into(), server, spread_percent: 0.1 });
        Committed {
            taken: Taken { kernel_package: "linux 1".into(), ..Taken::default() },
            rows: rows.collect(),
        }
    }

    #[test]
    fn two_per_cent_either_way() {
        let committed = figures(&[("a", 10_000.0)]);
        for (now, passes, says) in [
            (10_000.0, true, "+0.0 %  ok\n"),
            (10_199.0, true, "+2.0 %  ok\n"),
            (10_201.0, false, "FAIL"),
            (12_000.0, false, "+20.0 %"),
            (9_801.0, true, "-2.0 %  ok\n"),
            (9_700.0, true, "gate --write"),
        ] {
            let (text, passed) = judge(&committed, &figures(&[("a", now)]));
            assert_eq!(passed, passes, "{text}");
            assert!(text.contains(says), "{text}");
            assert!(!text.contains("Not the same"), "{text}");
        }
    }

    #[test]
    fn a_row_on_one_side_only_fails() {
        let (one, two) = (figures(&[("a", 1.0)]), figures(&[("a", 1.0), ("b", 1.0)]));
        let (text, passed) = judge(&one, &two);
        assert!(!passed && text.contains("no committed figure"), "{text}");
        let (text, passed) = judge(&two, &one);
        assert!(!passed && text.contains("not measured any more"), "{text}");
    }

    #[test]
    fn another_kernel_is_said() {
        let committed = figures(&[("a", 1.0)]);
        let mut now = committed.clone();
        now.taken.kernel_package = "linux 2".into();
        let (text, passed) = judge(&committed, &now);
        assert!(passed && text.contains("kernel package: committed with linux 1, now linux 2"), "{text}");
    }

    #[test]
    fn the_list_has_every_row() {
        assert_eq!(list(&figures(&[("a", 10.4)])), "a                              10  +-0.1 %\n");
    }
}
