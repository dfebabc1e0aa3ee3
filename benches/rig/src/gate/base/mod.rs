//! Measures the rows of the gate for this build and for another build, in alternating boots of the
//! same guest.
//!
//! Figures of single boots differ by a few tenths of a per cent. The median of several boots is
//! exact enough to detect half a per cent. Rows under default scheduling differ between boots by up
//! to ten per cent, depending on the number of context switches, so their figures are first
//! adjusted to the same number of switches.

use std::path::{Path, PathBuf};

use super::{ROWS, row_of, session};
use crate::error::RigError;
use crate::image::{Contents, DOORBELL, OurPrograms};
use crate::plan::Plan;
use crate::report::{Form, Page, Table, median, percent, show};
use crate::session::say;

mod line;

use line::{Point, slope};

/// Maximum excess of a row over the other build.
const TOLERANCE_PERCENT: f64 = 0.5;

/// Options of the comparison with another build.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Base {
    /// Compare with this `doorbell` program, in alternating boots, instead of with the committed
    /// figures
    #[arg(long, value_name = "FILE", conflicts_with_all = ["write", "figures"])]
    pub(crate) base: Option<PathBuf>,

    /// Boots of each program; the figures are medians
    #[arg(long, value_name = "N", default_value_t = 7, requires = "base", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) boots: u32,

    /// Configuration key that has another name in the program of --base; repeatable
    #[arg(long, value_name = "KEY=NAME", requires = "base", value_parser = renamed)]
    pub(crate) renamed: Vec<(String, String)>,
}

fn renamed(text: &str) -> Result<(String, String), String> {
    let (key, name) = text.split_once('=').ok_or("write KEY=NAME, such as driver=engine")?;
    Ok((key.to_owned(), name.to_owned()))
}

/// Measurements of each row of [`ROWS`], one for each boot.
type Samples = [Vec<Point>; ROWS.len()];

/// Measures both programs. Returns the text for the user, and whether every row of this build is
/// within the tolerance.
pub(crate) fn run(ours: &mut OurPrograms, base: &Path, options: &Base) -> Result<(String, bool), RigError> {
    let boots = options.boots;
    let (plan, contents) = super::plan(ROWS.into_iter().map(row_of).collect(), ours)?;
    let doorbell = std::path::absolute(base).map_err(RigError::io(base))?;
    let before = with_program(&contents, &doorbell, &options.renamed);
    let (mut of_base, mut of_ours) = (Samples::default(), Samples::default());
    for boot in 1..=boots {
        say(&format!("boot {boot} of {boots}, base"));
        sample(&plan, &before, "the base", &mut of_base)?;
        say(&format!("boot {boot} of {boots}, this build"));
        sample(&plan, &contents, "this build", &mut of_ours)?;
    }
    let mut page = Page::default();
    let passed = judge(&of_base, &of_ours, &mut page);
    Ok((show(Form::Table, &(), || page), passed))
}

/// Measures one boot. A row that could not be measured or has a failed request is an error, because
/// it cannot be compared.
fn sample(plan: &Plan, contents: &Contents, build: &str, samples: &mut Samples) -> Result<(), RigError> {
    let run = session().run(plan, contents)?;
    for (id, samples) in ROWS.into_iter().zip(samples) {
        let figures = run.clean_figures(&row_of(id)).ok_or_else(|| RigError::Guest {
            detail: format!("did not serve {id} of {build} without a failure"),
        })?;
        samples.push(Point { switches: figures.switches, server: figures.server });
    }
    Ok(())
}

/// The contents with another `doorbell`, whose configuration has these keys renamed.
fn with_program(contents: &Contents, doorbell: &Path, renamed: &[(String, String)]) -> Contents {
    let mut contents = contents.clone();
    for (outside, _) in contents.programs.iter_mut().filter(|(_, inside)| inside == DOORBELL) {
        *outside = doorbell.to_owned();
    }
    for (_, text) in &mut contents.files {
        *text = with_names(text, renamed);
    }
    contents
}

/// The configuration with these keys renamed.
fn with_names(text: &str, renamed: &[(String, String)]) -> String {
    let line = |line: &str| {
        let found = renamed.iter().find_map(|(key, name)| {
            let rest = line.strip_prefix(key.as_str())?;
            rest.starts_with(" =").then(|| format!("{name}{rest}\n"))
        });
        found.unwrap_or_else(|| format!("{line}\n"))
    };
    text.lines().map(line).collect()
}

fn judge(base: &Samples, ours: &Samples, page: &mut Page) -> bool {
    let mut table = Table::new(["row", "base", "switches", "this build", "switches", "%", "verdict"]);
    let mut passed = true;
    for ((row, base), ours) in ROWS.into_iter().zip(base).zip(ours) {
        let Some([before, now]) = compared(row, base, ours) else {
            table.row([row, "-", "-", "-", "-", "-", "FAIL: not measured"]);
            passed = false;
            continue;
        };
        let percent = percent(now.server, before.server);
        let is_kept = percent <= TOLERANCE_PERCENT;
        passed &= is_kept;
        table.row([
            row.to_owned(),
            format!("{:.0}", before.server),
            format!("{:.2}", before.switches),
            format!("{:.0}", now.server),
            format!("{:.2}", now.switches),
            format!("{percent:+.2}"),
            (if is_kept { "ok" } else { "FAIL" }).to_owned(),
        ]);
    }
    page.table(table);
    page.words(
        "Rows under default scheduling: instructions of both builds at the context switches of the base.",
    );
    passed
}

/// The medians of both builds. Under default scheduling the instructions of each boot are first
/// adjusted to the base's median number of context switches, with the slope of a line fitted to the
/// boots of both builds. Adjusting the medians instead would be wrong, because median instructions
/// and median switches may belong to different boots.
fn compared(row: &str, base: &[Point], ours: &[Point]) -> Option<[Point; 2]> {
    let [before, now] = [middle(base)?, middle(ours)?];
    if row_of(row).load.mode.is_batch() {
        return Some([before, now]);
    }
    let slope = slope(&[base, ours]);
    let at_equal_switches = |points: &[Point]| {
        let moved = points.iter().map(|point| point.server + slope * (before.switches - point.switches));
        median(&moved.collect::<Vec<_>>())
    };
    let [base_server, our_server] = [at_equal_switches(base)?, at_equal_switches(ours)?];
    Some([Point { server: base_server, ..before }, Point { server: our_server, ..now }])
}

fn middle(points: &[Point]) -> Option<Point> {
    let of = |part: fn(&Point) -> f64| median(&points.iter().map(part).collect::<Vec<_>>());
    Some(Point { switches: of(|point| point.switches)?, server: of(|point| point.server)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(server: f64) -> Samples {
        std::array::from_fn(|_| {
            [1.2, 1.0, 0.9].map(|part| Point { switches: 0.5, server: server * part }).to_vec()
        })
    }

    fn judged(base: &Samples, ours: &Samples) -> (bool, String) {
        let mut page = Page::default();
        let passed = judge(base, ours, &mut page);
        (passed, show(Form::Table, &(), || page))
    }

    #[test]
    fn half_a_per_cent_of_the_median_is_the_limit() {
        for (ours, passes, text) in
            [(10_049.0, true, "+0.49"), (10_051.0, false, "+0.51"), (9_000.0, true, "-10.00")]
        {
            let (passed, shown) = judged(&samples(10_000.0), &samples(ours));
            assert_eq!(passed, passes);
            assert!(shown.contains(text), "{shown}");
        }
    }

    #[test]
    fn keys_of_the_other_program() {
        let renamed = [renamed("driver=engine").expect("two names")];
        let text = "[runtime]\ndriver = \"epoll\"\ndrivers = 1\n";
        assert_eq!(with_names(text, &renamed), "[runtime]\nengine = \"epoll\"\ndrivers = 1\n");
        assert_eq!(with_names(text, &[]), text);
    }

    #[test]
    fn one_row_that_is_too_expensive_fails_the_gate() {
        let mut ours = samples(10_000.0);
        for point in &mut ours[ROWS.len() - 1] {
            point.server += 100.0;
        }
        assert!(!judged(&samples(10_000.0), &ours).0);
        ours[ROWS.len() - 1] = Vec::new();
        assert!(!judged(&samples(10_000.0), &ours).0);
    }

    #[test]
    fn more_switches_count_only_where_the_scheduler_decides() {
        // A build whose boots had 0.2 switches more, at 3,000 instructions each.
        let boots = |more: f64| -> Vec<Point> {
            let switches = [0.4, 0.5, 0.6].map(|switches| switches + more);
            switches.map(|switches| Point { switches, server: 20_000.0 + 3_000.0 * switches }).to_vec()
        };
        for (row, expected) in [("doorbell-uring/free/64", 0.0), ("doorbell-uring/close/64", 600.0)] {
            let [before, now] = compared(row, &boots(0.0), &boots(0.2)).expect("both are measured");
            assert!((now.server - before.server - expected).abs() < 1e-6, "{row}: {now:?}");
        }
    }

    /// One boot of this build is an outlier, so the median of the instructions and the median of
    /// the switches come from different boots.
    #[test]
    fn boots_are_moved_before_the_median_is_taken() {
        let boot =
            |switches: f64, extra: f64| Point { switches, server: 20_000.0 + 3_000.0 * switches + extra };
        let base = [boot(0.1, 0.0), boot(0.5, 0.0), boot(0.9, 0.0)];
        let ours = [boot(0.4, 1_000.0), boot(0.5, 100.0), boot(0.6, 100.0)];
        let [before, now] = compared("doorbell-uring/free/64", &base, &ours).expect("both are measured");
        // Moving the medians would give a difference of 400.
        assert!((now.server - before.server - 100.0).abs() < 50.0, "{now:?}");
    }
}
