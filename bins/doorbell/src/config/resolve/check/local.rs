//! Checks of what is on this machine, resolved.
//!
//! Does not know about: networks.

use super::super::super::written;
use super::super::or;
use doorbell_checks::options::{BadIs, ExecCheck, FileCheck, GaugeCheck, Level, Metric};
use doorbell_config::{At, Problem, Problems};
use std::ops::Range;

pub(super) fn file_check(written: &written::FileWatched, problems: &Problems) -> Option<FileCheck> {
    let default = FileCheck::new(written.path.as_ref()?.value.clone());
    let exists = or(&written.exists, default.exists);
    let contents = written.contains.iter().map(|at| ("contains", &at.span));
    let ages = written.max_age.iter().map(|at| ("max_age", &at.span));
    for (key, span) in contents.chain(ages).filter(|_| !exists) {
        let message = format!("`{key}` of a file that must not be there");
        problems.add(
            Problem::error("contradiction", span.clone(), message).help("remove it, or `exists = false`"),
        );
    }
    Some(FileCheck {
        exists,
        contains: written.contains.as_ref().map(|at| at.value.clone()),
        max_age: written.max_age.as_ref().map(|at| at.value),
        ..default
    })
}

pub(super) fn exec_check(written: &written::ExecAsked) -> Option<ExecCheck> {
    let command = written.command.as_ref()?;
    Some(ExecCheck {
        command: command.value.iter().map(|word| word.value.clone()).collect(),
        degraded_exit_code: written.degraded_exit_code.as_ref().map(|at| at.value),
    })
}

/// `header` is where the check begins.
pub(super) fn gauge_check(
    written: &written::GaugeAsked,
    header: &Range<usize>,
    problems: &Problems,
) -> Option<GaugeCheck> {
    let metric = written.metric.as_ref()?.value;
    let (bad_is, down, up) = match (&written.down_above, &written.down_below) {
        (Some(down), None) => (BadIs::Above, down, &written.up_below),
        (None, Some(down)) => (BadIs::Below, down, &written.up_above),
        (Some(_), Some(down)) => {
            let problem = Problem::error("contradiction", down.span.clone(), "two thresholds for down");
            problems.add(
                problem.help("write `down_below` of what there should be much of, `down_above` of the rest"),
            );
            return None;
        }
        (None, None) if written.has_down => return None,
        (None, None) => {
            let problem = Problem::error("missing-key", header.clone(), "a gauge without a threshold");
            let example = metric.example();
            problems.add(
                problem.help(format!(
                    "add `down_below = \"{example}\"` or `down_above`, and where it is up again"
                )),
            );
            return None;
        }
    };
    let (wrong_up, wrong_degraded, degraded) = match bad_is {
        BadIs::Above => (&written.up_above, &written.degraded_below, &written.degraded_above),
        BadIs::Below => (&written.up_below, &written.degraded_above, &written.degraded_below),
    };
    for at in [wrong_up, wrong_degraded].into_iter().flatten() {
        let problem = Problem::error("contradiction", at.span.clone(), "this threshold looks the other way");
        problems.add(problem.also(down.span.clone(), "down").help(match bad_is {
            BadIs::Above => "with `down_above` go `up_below` and `degraded_above`",
            BadIs::Below => "with `down_below` go `up_above` and `degraded_below`",
        }));
    }
    for at in [up, degraded].into_iter().flatten() {
        check_order(at, down, bad_is, problems);
    }
    let is_of_files = matches!(metric, Metric::DiskFree | Metric::InodesFree);
    match (&written.path, is_of_files) {
        (Some(path), false) if !metric.is_of_group() => {
            let problem =
                Problem::warning("no-effect", path.span.clone(), "`path` has no effect on this metric");
            problems.add(problem.help("remove it"));
        }
        (None, true) => {
            let problem = Problem::error("missing-key", header.clone(), "a file system without a `path`");
            problems.add(problem.help("add `path = \"/var/lib/app\"`, or another file or directory in it"));
        }
        _ => {}
    }
    Some(GaugeCheck {
        metric,
        path: written.path.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
        bad_is,
        down: down.value,
        up: or(up, down.value),
        degraded: degraded.as_ref().map(|at| at.value),
    })
}

/// A threshold must be on the good side of the one for down, and of the same kind.
fn check_order(at: &At<Level>, down: &At<Level>, bad_is: BadIs, problems: &Problems) {
    let (this, down_at) = (at.value.number(), down.value.number());
    let message = if !at.value.is_like(down.value) {
        "these thresholds cannot be compared"
    } else if match bad_is {
        BadIs::Above => this > down_at,
        BadIs::Below => this < down_at,
    } {
        "this is down already"
    } else {
        return;
    };
    problems.add(
        Problem::error("contradiction", at.span.clone(), message)
            .also(down.span.clone(), "down")
            .help("write both in the same unit, and `down` as the worse one"),
    );
}
