//! Runs a command line and returns an exit code.

mod args;
mod figures;
mod select;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use args::{AblateArgs, Cli, Command, Common, ContestArgs, Given, MatrixArgs, RunArgs};
use clap::{Parser, ValueEnum};

use crate::error::RigError;
use crate::image::{self, Kernel, OurPrograms, programs};
use crate::report::{Outcome, across, down};
use crate::session::say;
use crate::{ablate, gate, guest, guest_program, matrix, native, tls};

/// Output of a command, and whether it succeeded.
type Done = Result<(String, bool), RigError>;

/// Runs one command.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A failure to write to standard error cannot be reported.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    match execute(cli.command) {
        Ok((text, good)) => {
            // The write fails if the reader has closed the pipe.
            let _ = io::stdout().write_all(text.as_bytes());
            if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            say(&format!("doorbell-rig: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> Done {
    match command {
        Command::Ablate(args) => ablate(&args),
        Command::Chart { report } => figures::chart(&report).map(|text| (text, true)),
        Command::Compare(args) => measure(&args, true),
        Command::Datagrams(session) => guest_program::run(&guest_program::DATAGRAMS, &session),
        Command::Gate(args) => {
            let mut ours = args.given.programs()?;
            if let Some(base) = &args.base.base {
                return gate::base::run(&mut ours, base, &args.base);
            }
            let file = args.figures.unwrap_or_else(gate::default_file);
            gate::run(&mut ours, &file, args.write)
        }
        Command::Guest { plan } => guest::run(&plan)
            .map(|()| (String::new(), true))
            .map_err(|why| RigError::Guest { detail: format!("cannot continue: {why}") }),
        Command::GuestCapabilities => Ok((format!("{}\n", guest::capabilities()), true)),
        Command::GuestDeny { errno, command } => Ok((guest::denied(errno, &command) + "\n", false)),
        Command::GuestSmoke { command } => {
            let (said, good) = guest::smoke(&command);
            Ok((format!("{said}\n"), good))
        }
        Command::Latency { seconds, contest: ContestArgs { only, rules, common } } => {
            common.give_contests(&native::latency(&only, seconds, &rules, || common.given.programs())?)
        }
        Command::List => Ok((select::list(), true)),
        Command::Matrix(args) => matrix(&args),
        Command::Native { turn, contest: ContestArgs { only, rules, common } } => {
            common.give_contests(&native::cpu(&only, turn.requests, &rules, || common.given.programs())?)
        }
        Command::Rows(args) => measure(&args, false),
        Command::Table { report } => figures::table(&report).map(|text| (text, true)),
        Command::Tls { turn, contest: ContestArgs { only, rules, common } } => {
            let contests = tls::contests(&only)?;
            // This process is the client, so no load generator is needed.
            let mut ours = programs::build(common.given.doorbell.clone(), Some(PathBuf::new()))?;
            common.give_contests(&tls::run(&contests, turn.requests, &rules, &mut ours)?)
        }
        Command::Wakes(session) => guest_program::run(&guest_program::WAKES, &session),
    }
}

/// Builds the programs, boots the guest and reports. Servers that are not available are reported as
/// failed. If no server is available, returns the error of the first server.
fn measure(args: &RunArgs, with_peers: bool) -> Done {
    let rows = select::rows(with_peers, &args.only)?;
    let mut ours = args.common.given.programs()?;
    let (plan, contents, mut missing) = image::plan(rows.clone(), args.repeat, &mut ours);
    if plan.servers.is_empty() && !missing.is_empty() {
        return Err(missing.remove(0).1);
    }
    for (name, error) in &missing {
        say(&format!("SKIP {name}: {error}"));
    }
    let mut run = args.session.run(&plan, &contents)?;
    for row in rows {
        if let Some((_, error)) = missing.iter().find(|(name, _)| *name == row.server) {
            run.rows.push(Outcome::failed(row, format!("skipped: {error}")));
        }
    }
    if let (true, Some(stem)) = (with_peers, &args.common.save) {
        figures::save_picture(stem, &run)?;
    }
    let text = args.common.give(&run, || if with_peers { across(&run) } else { down(&run) })?;
    Ok((text, run.is_clean()))
}

fn ablate(AblateArgs { native, question, common, turn, rules }: &AblateArgs) -> Done {
    let programs = || common.given.programs();
    if *native {
        return common.give_contests(&ablate::run_native(question, turn.requests, rules, programs)?);
    }
    let answers = ablate::run(question, &programs()?)?;
    Ok((common.give(&answers, || ablate::page(&answers))?, answers.iter().all(ablate::Answer::is_clean)))
}

fn matrix(MatrixArgs { kernel, cpu, common }: &MatrixArgs) -> Done {
    let kernels = if kernel.is_empty() { Kernel::value_variants() } else { kernel };
    let answers = matrix::run(kernels, cpu, &common.given.programs()?)?;
    Ok((common.give(&answers, || matrix::page(&answers))?, answers.iter().all(matrix::Answer::is_good)))
}

impl Common {
    fn give_contests(&self, report: &native::Report) -> Done {
        Ok((self.give(report, || report.page())?, report.is_complete()))
    }
}

impl Given {
    fn programs(&self) -> Result<OurPrograms, RigError> {
        programs::build(self.doorbell.clone(), self.load.clone())
    }
}
