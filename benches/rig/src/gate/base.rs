//! The rows of the gate for this build and for another one, in alternating boots of the same guest.
//!
//! One boot differs from the next by a few tenths of a per cent. The median of several is exact
//! enough to see half a per cent.
//!
//! Does not know about: committed figures.

use std::path::{Path, PathBuf};

use super::{CPU, KERNEL, REPEAT, ROWS, row_of};
use crate::error::RigError;
use crate::image::{self, Contents, OurPrograms};
use crate::plan::Plan;
use crate::report::{Form, Page, Table, median, show};
use crate::session::{Session, say};

/// How far a row may be above the other build.
const TOLERANCE_PERCENT: f64 = 0.5;

/// Options of the comparison with another build.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Base {
    /// Compare with this `doorbell` program in alternating boots instead of the committed figures
    #[arg(long, value_name = "FILE", conflicts_with_all = ["write", "build", "figures"])]
    pub(crate) base: Option<PathBuf>,

    /// Boots of each program; the median counts
    #[arg(long, value_name = "N", default_value_t = 7, requires = "base", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) boots: u32,
}

/// Instructions of each row of [`ROWS`], one a boot.
type Samples = [Vec<f64>; ROWS.len()];

/// Measures both programs. The text for the user, and whether no row of ours is above the
/// tolerance.
pub(crate) fn run(ours: &mut OurPrograms, base: &Path, boots: u32) -> Result<(String, bool), RigError> {
    let (plan, missing) = image::plan(ROWS.into_iter().map(row_of).collect(), REPEAT, ours);
    if let Some((_, error)) = missing.into_iter().next() {
        return Err(error);
    }
    let doorbell = std::path::absolute(base).map_err(RigError::io(base))?;
    let before = OurPrograms { doorbell, ..ours.clone() };
    let (mut of_base, mut of_ours) = (Samples::default(), Samples::default());
    for boot in 1..=boots {
        say(&format!("boot {boot} of {boots}, base"));
        sample(&plan, &before, &mut of_base)?;
        say(&format!("boot {boot} of {boots}, this build"));
        sample(&plan, ours, &mut of_ours)?;
    }
    let mut page = Page::default();
    let passed = judge(&of_base, &of_ours, &mut page);
    Ok((show(Form::Table, &(), || page), passed))
}

/// One boot. A row that could not be measured, or with a failed request, is an error: there is
/// nothing to compare.
fn sample(plan: &Plan, programs: &OurPrograms, samples: &mut Samples) -> Result<(), RigError> {
    let session = Session { kernel: KERNEL, cpu: CPU.to_owned() };
    let run = session.run(plan, &Contents::of_catalogue(plan, programs)?)?;
    for (id, samples) in ROWS.into_iter().zip(samples) {
        let figures = run.clean_figures(&row_of(id)).ok_or_else(|| RigError::Guest {
            detail: format!("{} did not serve {id} without a failure", programs.doorbell.display()),
        })?;
        samples.push(figures.server);
    }
    Ok(())
}

fn judge(base: &Samples, ours: &Samples, page: &mut Page) -> bool {
    let mut table = Table::new(["row", "base", "this build", "%", "verdict"]);
    let mut passed = true;
    for ((row, base), ours) in ROWS.into_iter().zip(base).zip(ours) {
        let (Some(base), Some(ours)) = (median(base), median(ours)) else {
            table.row([row, "-", "-", "-", "FAIL: not measured"]);
            passed = false;
            continue;
        };
        let percent = (ours - base) / base * 100.0;
        let is_kept = percent <= TOLERANCE_PERCENT;
        passed &= is_kept;
        table.row([
            row.to_owned(),
            format!("{base:.0}"),
            format!("{ours:.0}"),
            format!("{percent:+.2}"),
            (if is_kept { "ok" } else { "FAIL" }).to_owned(),
        ]);
    }
    page.table(table);
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(server: f64) -> Samples {
        std::array::from_fn(|_| vec![server * 1.2, server, server * 0.9])
    }

    #[test]
    fn half_a_per_cent_of_the_median_is_the_limit() {
        for (ours, passes, text) in
            [(10_049.0, true, "+0.49"), (10_051.0, false, "+0.51"), (9_000.0, true, "-10.00")]
        {
            let mut page = Page::default();
            assert_eq!(judge(&samples(10_000.0), &samples(ours), &mut page), passes);
            let shown = show(Form::Table, &(), || page);
            assert!(shown.contains(text), "{shown}");
        }
    }

    #[test]
    fn one_row_that_is_too_expensive_fails_the_gate() {
        let mut ours = samples(10_000.0);
        ours[ROWS.len() - 1] = vec![10_100.0];
        assert!(!judge(&samples(10_000.0), &ours, &mut Page::default()));
        ours[ROWS.len() - 1] = Vec::new();
        assert!(!judge(&samples(10_000.0), &ours, &mut Page::default()));
    }
}
