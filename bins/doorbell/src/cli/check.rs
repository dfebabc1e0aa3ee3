//! `doorbell check`: is a configuration good?
//!
//! Does not know about: what makes it good.

use super::args::{CheckArgs, Global, ReportForm};
use super::{load, print, print_error, print_problems};
use crate::config::{Severity, Source, default_config, parse, to_toml};
use crate::exit::{Exit, Failure};

pub(super) fn run(args: &CheckArgs, global: &Global) -> Result<Exit, Failure> {
    let source = match load::source(global).map_err(|failure| Failure { exit: Exit::Failure, ..failure })? {
        Some(source) => source,
        None => built_in()?,
    };
    let problems = parse(&source, &|name| std::env::var(name).ok()).problems;
    let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    match args.output {
        ReportForm::Json => print(&format!("{:#}\n", source.to_json(&problems))),
        ReportForm::Text => {
            print_problems(&source, &problems, global.color);
            let name = &source.name;
            match (errors, warnings) {
                (0, 0) if global.quiet => {}
                (0, 0) => print(&format!("{name}: the configuration is valid\n")),
                (0, _) => print_error(&format!("\n{name}: valid, with {}\n", plural(warnings, "warning"))),
                (_, 0) => print_error(&format!("\n{name}: not valid, {}\n", plural(errors, "error"))),
                _ => {
                    let (errors, warnings) = (plural(errors, "error"), plural(warnings, "warning"));
                    print_error(&format!("\n{name}: not valid, {errors} and {warnings}\n"));
                }
            }
        }
    }
    Ok(match (errors, warnings) {
        (0, 0) => Exit::Success,
        (0, _) if !args.strict => Exit::Lints,
        _ => Exit::Failure,
    })
}

/// Without a file the built-in configuration is checked, so that the command also answers then.
fn built_in() -> Result<Source, Failure> {
    let text = to_toml(&default_config(), true).map_err(|error| {
        Failure::new(Exit::Failure, format!("the built-in configuration is broken: {error}"))
    })?;
    Ok(Source { name: "built-in defaults".into(), text })
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
