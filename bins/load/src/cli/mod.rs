//! The command line: reads it, runs the load, prints the report.
//!
//! Does not know about: how load is made. The name of a command can never be a URL with a scheme, so commands other than the
//! load itself find their place in [`run`].

mod args;
mod build;
mod progress;
mod units;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::Parser;

pub use args::{CheckArg, CloseArg, LoadArgs, OutputArg};

use crate::engine;
use crate::exit::{Exit, Failure};
use crate::report::Report;

/// Runs the program.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args = match LoadArgs::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Clean };
            // Nobody is left to tell if even this cannot be written.
            let _ = error.print();
            return exit;
        }
    };
    match load(&args) {
        Ok(exit) => exit,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "doorbell-load: {failure}");
            failure.exit
        }
    }
}

fn load(args: &LoadArgs) -> Result<Exit, Failure> {
    let plan = build::plan(args)?;
    let outcome = engine::run(&plan, &mut progress::Line::new(&plan, args.quiet))?;
    let report = Report::new(&plan, &outcome);
    let text = match args.output {
        OutputArg::Json => report.to_json(),
        OutputArg::Text => report.to_text(),
    };
    let written = io::stdout().lock().write_all(text.as_bytes());
    written
        .map_err(|error| Failure::new(Exit::Failures, format!("the report cannot be written: {error}")))?;
    Ok(if report.is_clean() { Exit::Clean } else { Exit::Failures })
}
