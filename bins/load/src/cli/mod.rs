//! The command line: reads it, runs the load, prints the report.
//!
//! No command name is a URL with a scheme, so [`run`] can distinguish commands from URLs.

mod args;
mod build;
mod connect;
mod progress;
mod units;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::Parser;

pub use args::{CheckArg, CloseArg, LoadArgs, OutputArg};

use crate::connect::helper;
use crate::engine;
use crate::exit::{Exit, Failure};
use crate::report::Report;

/// Runs the program.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    match args.get(1).and_then(|arg| arg.to_str()) {
        Some("connect") => connect(&args[2..]),
        Some(helper::NAME) => report(helper::run(&args[2..], connect)),
        _ => match LoadArgs::try_parse_from(args) {
            Ok(args) => report(load(&args)),
            Err(error) => report_usage(&error),
        },
    }
}

/// Runs `doorbell-load connect` with the arguments after its name.
fn connect(args: &[OsString]) -> Exit {
    report(connect::run(args))
}

/// Prints the output of the argument parser: help, or an error.
fn report_usage(error: &clap::Error) -> Exit {
    // A failure to write to standard error cannot be reported.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Clean }
}

fn report(result: Result<Exit, Failure>) -> Exit {
    result.unwrap_or_else(|failure| {
        let _ = writeln!(io::stderr(), "doorbell-load: {failure}");
        failure.exit
    })
}

/// Writes a report to standard output.
fn print(report: &str) -> Result<(), Failure> {
    let written = io::stdout().lock().write_all(report.as_bytes());
    written.map_err(|error| Failure::new(Exit::Failures, format!("the report cannot be written: {error}")))
}

fn load(args: &LoadArgs) -> Result<Exit, Failure> {
    let plan = build::plan(args)?;
    let outcome = engine::run(&plan, &mut progress::Line::new(&plan, args.quiet))?;
    let report = Report::new(&plan, &outcome);
    let text = match args.output {
        OutputArg::Json => report.to_json(),
        OutputArg::Text => report.to_text(),
    };
    print(&text)?;
    Ok(if report.is_clean() { Exit::Clean } else { Exit::Failures })
}

#[cfg(test)]
mod tests {
    /// Longer lines would be split in the middle, because help is wrapped at 100 columns.
    #[test]
    fn lines_of_the_help_are_short() {
        for line in [super::args::EXAMPLES, super::connect::EXAMPLES].iter().flat_map(|text| text.lines()) {
            assert!(line.len() <= 100, "{line}");
        }
    }
}
