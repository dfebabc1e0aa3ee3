//! The command line as a tree: what its derivation cannot say.
//!
//! Does not know about: what the commands do.

use super::args::Cli;
use clap::builder::{Resettable, ValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ColorChoice, Command, CommandFactory as _, Id};
use std::ffi::OsString;
use std::path::PathBuf;

/// Commands to which a configuration means nothing, and how they are reached.
const WITHOUT_CONFIG: [&[&str]; 10] = [
    &["await"],
    &["completions"],
    &["config", "diff"],
    &["config", "init"],
    &["config", "schema"],
    &["doctor"],
    &["man"],
    &["probe"],
    &["redirect"],
    &["version"],
];

/// For these arguments: an option that says how the help looks is known before anything is parsed.
pub(super) fn command(args: &[OsString]) -> Command {
    let mut command = without_empty(Cli::command()).color(color(args));
    for path in WITHOUT_CONFIG {
        command = within(command, path);
    }
    command
}

/// What `--color` says, wherever it stands before a command of somebody else. A wrong word is refused by the parser.
fn color(args: &[OsString]) -> ColorChoice {
    let mut words = args.iter().skip(1).map_while(|word| word.to_str().filter(|word| *word != "--"));
    let mut choice = ColorChoice::Auto;
    while let Some(word) = words.next() {
        let when = match word.strip_prefix("--color") {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        choice = match when {
            Some("always") => ColorChoice::Always,
            Some("never") => ColorChoice::Never,
            _ => choice,
        };
    }
    choice
}

/// Variables that are set and empty count as unset.
fn without_empty(mut command: Command) -> Command {
    let is_empty = |arg: &&Arg| {
        arg.get_env().is_some_and(|name| std::env::var_os(name).is_some_and(|value| value.is_empty()))
    };
    let ids: Vec<Id> = command.get_arguments().filter(is_empty).map(|arg| arg.get_id().clone()).collect();
    for id in ids {
        command = command.mut_arg(id, |arg| arg.env(Resettable::Reset));
    }
    command.mut_subcommands(without_empty)
}

fn within(command: Command, path: &[&str]) -> Command {
    match path.split_first() {
        None => command.arg(refused()),
        Some((first, rest)) => command.mut_subcommand(*first, |below| within(below, rest)),
    }
}

/// In the place of the option that all commands have.
fn refused() -> Arg {
    let refuse = |_: &str| Err::<PathBuf, _>("this command reads no configuration: leave -c out");
    Arg::new("config").short('c').long("config").hide(true).value_parser(ValueParser::new(refuse))
}

/// A file where none can stand was probably meant as the configuration.
pub(super) fn hint(error: &clap::Error) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    let is_file = word.ends_with(".toml") || !word.starts_with('-') && std::path::Path::new(word).is_file();
    is_file.then(|| format!("\nA configuration is named with -c: -c {word}\n"))
}
