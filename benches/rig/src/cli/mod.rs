//! From the command line to an exit code.
//!
//! Does not know about: how a guest measures.

mod args;
mod select;

use std::io::{self, Write};
use std::process::ExitCode;

use args::{Cli, Command, OutputArg, RunArgs};
use clap::Parser;

use crate::error::RigError;
use crate::image::{self, programs};
use crate::plan::{Event, Plan};
use crate::report::{self, Conditions, Outcome};
use crate::{guest, vm};

/// Enough for every server with 65,536 connections.
const MEMORY_MIB: u32 = 1024;

/// Runs one command to its end.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell when even this cannot be written.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let done = match cli.command {
        Command::Compare(args) => measure(&args, true),
        Command::Guest { plan } => return agent(&plan),
        Command::List => Ok((select::list(), true)),
        Command::Rows(args) => measure(&args, false),
    };
    match done {
        Ok((text, good)) => {
            print(&text);
            if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            say(&format!("doorbell-rig: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Builds, boots, reports: the text, and whether every row was measured without a failed request.
fn measure(args: &RunArgs, with_peers: bool) -> Result<(String, bool), RigError> {
    let rows = select::rows(with_peers, &args.only)?;
    let servers = select::servers(&rows)?;
    let qemu = vm::version()?;
    let ours = programs::build(args.doorbell.clone(), args.load.clone())?;
    let plan = Plan { repeat: args.repeat, rows, servers };
    let image = image::build(args.kernel, &plan, &ours, &programs::cache()?)?;

    let mut run = Progress::new(
        &plan,
        Conditions { qemu, cpu: args.cpu.clone(), repeat: args.repeat, ..Conditions::default() },
    );
    let machine = vm::Machine { cpu: args.cpu.clone(), memory_mib: MEMORY_MIB };
    say(&format!("booting for {} rows", plan.rows.len()));
    let booted = vm::boot(&image, &machine, |event| run.take(event));
    image.discard()?;
    booted?;
    let Progress { outcomes, conditions } = run.finish();
    let text = match args.output {
        OutputArg::Json => report::json(&outcomes, &conditions),
        OutputArg::Table if with_peers => report::across(&outcomes, &conditions),
        OutputArg::Table => report::down(&outcomes, &conditions),
    };
    Ok((text, outcomes.iter().all(Outcome::is_clean)))
}

fn agent(plan: &std::path::Path) -> ExitCode {
    match guest::run(plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&why);
            ExitCode::FAILURE
        }
    }
}

/// What came from the guest so far; each line of it is also told to the user.
struct Progress {
    outcomes: Vec<Outcome>,
    conditions: Conditions,
}

impl Progress {
    fn new(plan: &Plan, conditions: Conditions) -> Self {
        let rows = plan.rows.iter().cloned();
        let outcomes = rows.map(|row| Outcome { row, samples: Vec::new(), failure: None }).collect();
        Self { outcomes, conditions }
    }

    /// A line that the kernel wrote into is lost; its row must not look complete.
    fn finish(mut self) -> Self {
        let repeat = self.conditions.repeat as usize;
        for outcome in &mut self.outcomes {
            let arrived = outcome.samples.len();
            if outcome.failure.is_none() && arrived < repeat {
                outcome.failure = Some(format!("only {arrived} of {repeat} samples arrived"));
            }
        }
        self
    }

    fn take(&mut self, event: Event) {
        let count = self.outcomes.len();
        match event {
            Event::Done => {}
            Event::Failed { row, detail } => {
                if let Some(outcome) = self.outcomes.get_mut(row) {
                    say(&format!("[{}/{count}] {}: {detail}", row + 1, outcome.row.id()));
                    outcome.failure = Some(detail);
                }
            }
            Event::Measured { row, sample } => {
                if let Some(outcome) = self.outcomes.get_mut(row) {
                    let one = Outcome { samples: vec![sample], ..outcome.clone() };
                    let shown =
                        one.figures().map_or_else(|| "no requests".to_owned(), |figures| figures.to_string());
                    say(&format!("[{}/{count}] {}: {shown}", row + 1, outcome.row.id()));
                    outcome.samples.push(sample);
                }
            }
            Event::Up { kernel } => {
                say(&format!("Linux {kernel} is up"));
                self.conditions.kernel = kernel;
            }
        }
    }
}

fn print(text: &str) {
    // A closed pipe is the reader's choice.
    let _ = io::stdout().write_all(text.as_bytes());
}

fn say(line: &str) {
    // Nobody is left to tell when even this cannot be written.
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Sample;

    #[test]
    fn rows_become_outcomes_and_gaps_become_failures() {
        let rows = select::rows(false, &["close/64".to_owned()]).unwrap();
        let plan = Plan { repeat: 2, rows, servers: Vec::new() };
        let mut run = Progress::new(&plan, Conditions { repeat: 2, ..Conditions::default() });
        let sample = Sample { requests: 1, server: 2, machine: 3, elapsed: 3, ..Sample::default() };
        run.take(Event::Up { kernel: "6.1".into() });
        for row in [0, 0, 1, 99] {
            run.take(Event::Measured { row, sample });
        }
        run.take(Event::Failed { row: 2, detail: "gone".into() });
        let run = run.finish();
        assert_eq!(run.conditions.kernel, "6.1");
        assert!(run.outcomes[0].is_clean());
        let failures: Vec<Option<&str>> =
            run.outcomes.iter().map(|outcome| outcome.failure.as_deref()).collect();
        let expected =
            [None, Some("only 1 of 2 samples arrived"), Some("gone"), Some("only 0 of 2 samples arrived")];
        assert_eq!(failures, expected);
    }
}
