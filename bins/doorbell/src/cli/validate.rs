//! `doorbell validate`: reports the problems of a configuration.

use super::load;
use super::options::Global;
use super::output::{print, print_error, print_problems};
use clap::{Args, ValueEnum};
use doorbell_proxy_config::{Outside, Problem, Severity, Source, default_config, parse_with, to_toml};
use doorbell_proxy_server::exit::{Exit, Failure};
use serde_json::Value;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Examples:
  doorbell validate doorbell.toml
  doorbell validate -c doorbell.toml -o json | jq '.problems[].message'
  cat doorbell.toml | doorbell validate -c -

Exit codes: 0 valid, warnings included, 1 invalid; --strict treats warnings as errors";

/// Options of `validate`.
#[derive(Debug, Default, Args)]
pub struct ValidateArgs {
    /// File to validate, instead of -c
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Validate for `doorbell serve --allow-exec`: do not warn of checks that run programs
    #[arg(long)]
    allow_exec: bool,

    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,

    /// Output format; sarif is for code scanners
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ValidateForm,
}

impl ValidateArgs {
    /// The options of `doorbell -t`.
    pub(super) fn new(allow_exec: bool) -> Self {
        Self { allow_exec, ..Self::default() }
    }
}

/// Output formats of `validate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ValidateForm {
    Json,
    Sarif,
    #[default]
    Text,
}

/// Name and version of the tool in SARIF reports.
const TOOL: [&str; 2] = ["doorbell", env!("CARGO_PKG_VERSION")];

pub(super) fn run(args: &ValidateArgs, global: &Global) -> Result<Exit, Failure> {
    let mut global = global.clone();
    global.config = args.file.clone().or(global.config);
    let read = load::source_or_built_in(&global).and_then(|source| Ok((source, load::overrides()?)));
    let (source, overrides) = match read {
        Ok((Some(source), overrides)) => (source, overrides),
        Ok((None, overrides)) => (built_in()?, overrides),
        Err(failure) => return unreadable(args, &global, failure),
    };
    let outside = Outside { overrides: &overrides, allow_exec: args.allow_exec, ..Outside::new(&load::env) };
    let problems = parse_with(&source, outside).problems;
    let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    match args.output {
        ValidateForm::Json => print(&format!("{:#}\n", source.to_json(&problems)))?,
        ValidateForm::Sarif => print(&format!("{:#}\n", source.to_sarif(&problems, TOOL)))?,
        ValidateForm::Text => {
            print_problems(&source, &problems, global.color);
            print_summary(&source, &problems, &global, (errors, warnings))?;
        }
    }
    let is_good = errors == 0 && (warnings == 0 || !args.strict);
    Ok(if is_good { Exit::Success } else { Exit::Failure })
}

fn print_summary(
    source: &Source,
    problems: &[Problem],
    global: &Global,
    (errors, warnings): (usize, usize),
) -> Result<(), Failure> {
    let name = &source.name;
    match (errors, warnings) {
        (0, 0) if global.quiet => {}
        (0, 0) => print(&format!("{name}: the configuration is valid\n"))?,
        (0, _) => print_error(&format!("\n{name}: valid, with {}\n", plural(warnings, "warning"))),
        (_, 0) => print_error(&format!("\n{name}: not valid, {}\n", plural(errors, "error"))),
        _ => {
            let (errors, warnings) = (plural(errors, "error"), plural(warnings, "warning"));
            print_error(&format!("\n{name}: not valid, {errors} and {warnings}\n"));
        }
    }
    if global.config.is_none() && problems.is_empty() && !global.quiet {
        print_error(
            "no file given: validated the built-in configuration; to validate a file: `doorbell validate doorbell.toml`\n",
        );
    }
    Ok(())
}

/// Reports an unreadable file in the requested format.
fn unreadable(args: &ValidateArgs, global: &Global, failure: Failure) -> Result<Exit, Failure> {
    let file = global.config.as_ref().map(|path| path.display().to_string());
    let source = Source { name: file.clone().unwrap_or_default(), text: String::new() };
    let problems = [Problem::unreadable(&failure.message)];
    match args.output {
        ValidateForm::Json => {
            let mut report = source.to_json(&problems);
            report["file"] = file.into();
            report["problems"][0]["at"] = Value::Null;
            print(&format!("{report:#}\n"))?;
        }
        ValidateForm::Sarif => print(&format!("{:#}\n", source.to_sarif(&problems, TOOL)))?,
        ValidateForm::Text => {}
    }
    Err(Failure { exit: Exit::Failure, ..failure })
}

/// The built-in configuration, which is validated if no file is given.
fn built_in() -> Result<Source, Failure> {
    let text = to_toml(&default_config(), true).map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot serialize the built-in configuration: {error}"))
    })?;
    Ok(Source { name: load::BUILT_IN.into(), text })
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
