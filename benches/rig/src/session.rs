//! One boot: the image, the virtual machine, the events from the guest, and a line of progress for
//! each sample.

use std::io::{self, Write};
use std::time::Duration;

use crate::error::RigError;
use crate::image::{self, Contents, Kernel, programs};
use crate::plan::{Event, Plan, name_of};
use crate::process::now_ns;
use crate::report::{Conditions, Outcome, Run};
use crate::vm;

/// Memory of the guest, enough for every server with thousands of connections.
const MEMORY_MIB: u32 = 1024;
/// Idle connections per additional MiB of memory. Both ends of each connection are in the guest.
const IDLE_CONNS_A_MIB: u32 = 20;

/// Options shared by all boots of a command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Session {
    /// Kernel of the guest
    #[arg(long, value_name = "VERSION", default_value = "6.12")]
    pub(crate) kernel: Kernel,

    /// CPU model, as for QEMU's -cpu
    #[arg(long, value_name = "MODEL", default_value = "max")]
    pub(crate) cpu: String,
}

impl Session {
    /// Builds the image and boots it. Returns an outcome for each row and each check of the plan,
    /// in order.
    pub(crate) fn run(&self, plan: &Plan, contents: &Contents) -> Result<Run, RigError> {
        let qemu = vm::version()?;
        let image = image::build(self.kernel, plan, contents, &programs::cache()?)?;
        let conditions = Conditions {
            qemu,
            cpu: self.cpu.clone(),
            repeat: plan.repeat,
            kernel_package: image.kernel.package.clone(),
            ..Conditions::default()
        };
        let mut progress = Progress::new(plan, conditions);
        let (kernel, rows, checks) = (name_of(&self.kernel), plan.rows.len(), plan.checks.len());
        say(&format!("booting {kernel} for {rows} rows and {checks} checks"));
        let booted = vm::boot(&image, &self.cpu, memory_mib(plan), |event| progress.take(event));
        image.discard()?;
        booted?;
        Ok(progress.finish())
    }
}

fn memory_mib(plan: &Plan) -> u32 {
    let idle_conns = plan.rows.iter().map(|row| row.load.mode.idle_conns()).max().unwrap_or(0);
    MEMORY_MIB + idle_conns / IDLE_CONNS_A_MIB
}

/// Collects the events from the guest, and shows them to the user.
struct Progress<'a> {
    plan: &'a Plan,
    run: Run,
    /// Time in seconds ([`now_s`]) at which the guest had booted.
    up_at_s: f64,
    samples: usize,
}

impl<'a> Progress<'a> {
    fn new(plan: &'a Plan, conditions: Conditions) -> Self {
        let rows = plan.rows.iter().cloned();
        let rows = rows.map(|row| Outcome { row, samples: Vec::new(), failure: None }).collect();
        let run = Run { conditions, rows, checks: vec![None; plan.checks.len()] };
        Self { plan, run, up_at_s: now_s(), samples: 0 }
    }

    /// Completes the run. A console line that a kernel message garbled is lost, so its row must not
    /// count as complete.
    fn finish(mut self) -> Run {
        let repeat = self.run.conditions.repeat as usize;
        for outcome in &mut self.run.rows {
            let arrived = outcome.samples.len();
            if outcome.failure.is_none() && arrived < repeat {
                outcome.failure = Some(format!("only {arrived} of {repeat} samples arrived"));
            }
        }
        self.run
    }

    fn take(&mut self, event: Event) {
        let count = self.run.rows.len();
        match event {
            Event::Checked { check, report } => {
                if let Some(checked) = self.run.checks.get_mut(check) {
                    let (count, name) = (self.plan.checks.len(), &self.plan.checks[check].name);
                    let status =
                        report.status.map_or_else(|| "killed".to_owned(), |status| status.to_string());
                    say(&format!("[{}/{count}] {name}: status {status}, {:.1} s", check + 1, report.seconds));
                    *checked = Some(report);
                }
            }
            Event::Done => {}
            Event::Failed { row, detail } => {
                if let Some(outcome) = self.run.rows.get_mut(row) {
                    say(&format!("[{}/{count}] {}: {detail}", row + 1, outcome.row.id()));
                    outcome.failure = Some(detail);
                }
            }
            Event::Measured { row, sample } => {
                if let Some(outcome) = self.run.rows.get_mut(row) {
                    let one = Outcome { samples: vec![sample], ..outcome.clone() };
                    let shown =
                        one.figures().map_or_else(|| "no requests".to_owned(), |figures| figures.to_string());
                    let id = outcome.row.id();
                    outcome.samples.push(sample);
                    self.samples += 1;
                    say(&format!("[{}/{count}, {}] {id}: {shown}", row + 1, self.left()));
                }
            }
            Event::Up { kernel } => {
                say(&format!("Linux {kernel} is up"));
                self.run.conditions.kernel = kernel;
                self.up_at_s = now_s();
            }
        }
    }

    /// Estimate of the remaining time.
    fn left(&self) -> String {
        let all = self.run.rows.len() * self.run.conditions.repeat as usize;
        time_left(self.samples, all, now_s() - self.up_at_s)
    }
}

/// Formats `3 min left`, from the number of finished items and the seconds they took.
pub(crate) fn time_left(done: usize, all: usize, took_s: f64) -> String {
    let rest = all.saturating_sub(done);
    let share = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let left_s = took_s / share(done).max(1.0) * share(rest);
    if left_s < 90.0 { format!("{left_s:.0} s left") } else { format!("{:.0} min left", left_s / 60.0) }
}

/// Seconds of the monotonic clock.
pub(crate) fn now_s() -> f64 {
    Duration::from_nanos(now_ns().unsigned_abs()).as_secs_f64()
}

/// Prints a line for the user on standard error.
pub(crate) fn say(line: &str) {
    // A failure to write to standard error cannot be reported.
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Load, Mode, Row, Sample};

    #[test]
    fn rows_become_outcomes_and_gaps_become_failures() {
        let row = |server: &str| Row { server: server.into(), load: Load::new(Mode::Close, 64) };
        let rows = ["a", "b", "c", "d"].map(row).into();
        let plan = Plan { repeat: 2, rows, ..Plan::default() };
        let mut run = Progress::new(&plan, Conditions { repeat: 2, ..Conditions::default() });
        let sample = Sample { requests: 1, server: 2, machine: 3, elapsed: 3, ..Sample::default() };
        run.take(Event::Up { kernel: "6.1".into() });
        for row in [0, 0, 1, 99] {
            run.take(Event::Measured { row, sample });
        }
        run.take(Event::Failed { row: 2, detail: "gone".into() });
        let Run { conditions, rows, .. } = run.finish();
        assert_eq!(conditions.kernel, "6.1");
        assert!(rows[0].is_clean());
        let failures: Vec<Option<&str>> = rows.iter().map(|outcome| outcome.failure.as_deref()).collect();
        let expected =
            [None, Some("only 1 of 2 samples arrived"), Some("gone"), Some("only 0 of 2 samples arrived")];
        assert_eq!(failures, expected);
    }

    #[test]
    fn memory_grows_with_the_idle_connections() {
        for (modes, expected) in [
            (&[][..], 1024),
            (&[Mode::Close, Mode::Keep][..], 1024),
            (&[Mode::CloseIdle50k, Mode::CloseIdle1k][..], 1024 + 2500),
        ] {
            let row = |&mode: &Mode| Row { server: "a".into(), load: Load::new(mode, 64) };
            let rows = modes.iter().map(row).collect();
            let plan = Plan { repeat: 1, rows, ..Plan::default() };
            assert_eq!(memory_mib(&plan), expected, "{modes:?}");
        }
    }

    #[test]
    fn the_remaining_time_is_extrapolated() {
        for (done, all, took_s, expected) in [
            (1, 4, 10.0, "30 s left"),
            (4, 4, 10.0, "0 s left"),
            (1, 100, 10.0, "16 min left"),
            (0, 3, 0.0, "0 s left"),
            (9, 3, 1.0, "0 s left"),
        ] {
            assert_eq!(time_left(done, all, took_s), expected);
        }
    }
}
