//! From the command line to an exit code.
//!
//! Does not know about: how a guest measures.

mod args;
mod figures;
mod lab;
mod native;
mod select;
mod tls;

use std::io::{self, Write};
use std::process::ExitCode;

use args::{Cli, Command, OutputArg, RunArgs};
use clap::Parser;

use crate::error::RigError;
use crate::guest;
use crate::image::{Contents, OurPrograms, programs};
use crate::plan::{Plan, Row};
use crate::report::{self, Outcome};
use crate::session::{Session, say};
use crate::wakes;

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
        Command::Ablate(args) => lab::ablate(&args),
        Command::Chart(args) => figures::chart(&args).map(|text| (text, true)),
        Command::Compare(args) => measure(&args, true),
        Command::Gate(args) => lab::gate(&args),
        Command::Guest { plan } => return agent(&plan),
        Command::GuestCapabilities => Ok((format!("{}\n", guest::capabilities()), true)),
        Command::GuestDeny { errno, command } => Ok((guest::denied(errno, &command) + "\n", false)),
        Command::GuestSmoke { command } => {
            let (said, good) = guest::smoke(&command);
            Ok((format!("{said}\n"), good))
        }
        Command::Latency(args) => native::latency(&args),
        Command::List => Ok((select::list(), true)),
        Command::Matrix(args) => lab::matrix(&args),
        Command::Native(args) => native::native(&args),
        Command::Rows(args) => measure(&args, false),
        Command::Table(args) => figures::table(&args).map(|text| (text, true)),
        Command::Tls(args) => tls::tls(&args),
        Command::Wakes(args) => wakes::run(&Session { kernel: args.kernel, cpu: args.cpu }),
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
    let mut ours = programs::build(args.doorbell.clone(), args.load.clone())?;
    let (plan, skipped) = planned(rows, args.repeat, &mut ours)?;
    let contents = Contents::of_catalogue(&plan, &ours)?;
    let session = Session { kernel: args.kernel, cpu: args.cpu.clone() };
    let (mut outcomes, conditions) = session.run(&plan, &contents)?;
    outcomes.extend(skipped);
    if let Some(stem) = &args.save {
        figures::save(stem, &outcomes, &conditions)?;
    }
    let text = match args.output {
        OutputArg::Json => report::json(&outcomes, &conditions),
        OutputArg::Table if with_peers => report::across(&outcomes, &conditions),
        OutputArg::Table => report::down(&outcomes, &conditions),
    };
    Ok((text, outcomes.iter().all(Outcome::is_clean)))
}

/// The plan for the servers that can be had, and the rows of those that cannot, which are said and reported as failed. Without
/// any server the first reason is the error.
fn planned(rows: Vec<Row>, repeat: u32, ours: &mut OurPrograms) -> Result<(Plan, Vec<Outcome>), RigError> {
    let mut servers = Vec::new();
    let mut missing = Vec::new();
    for (entry, server) in select::servers(&rows, ours) {
        match server {
            Ok(server) => servers.push(server),
            Err(error) => missing.push((entry.name, error)),
        }
    }
    if servers.is_empty() && !missing.is_empty() {
        return Err(missing.remove(0).1);
    }
    for (name, error) in &missing {
        say(&format!("SKIP {name}: {error}"));
    }
    let why = |row: &Row| missing.iter().find(|(name, _)| *name == row.server).map(|(_, error)| error);
    let skipped = rows.iter().filter_map(|row| {
        let failure = Some(format!("skipped: {}", why(row)?));
        Some(Outcome { row: row.clone(), samples: Vec::new(), failure })
    });
    let skipped = skipped.collect();
    let rows = rows.iter().filter(|row| why(row).is_none()).cloned().collect();
    Ok((Plan { repeat, rows, servers, checks: Vec::new() }, skipped))
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

fn print(text: &str) {
    // A closed pipe is the reader's choice.
    let _ = io::stdout().write_all(text.as_bytes());
}
