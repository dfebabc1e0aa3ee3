//! The command tree: adjustments that clap's derive cannot express.

use super::args::Cli;
use super::operate::OperateCommand;
use clap::builder::{EnumValueParser, Resettable, ValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ColorChoice, Command, CommandFactory as _, Id, Subcommand as _};
use doorbell_proxy_config::model::{LogFormat, LogLevel};
use std::ffi::OsString;
use std::path::PathBuf;

/// Commands for which `-c` is an error, by their path in the command tree.
const WITHOUT_CONFIG: [&[&str]; 11] = [
    &["await"],
    &["completions"],
    &["config", "convert"],
    &["config", "diff"],
    &["config", "init"],
    &["config", "schema"],
    &["doctor"],
    &["man"],
    &["probe"],
    &["redirect"],
    &["version"],
];

/// Commands that write no log, in addition to those of [`OperateCommand`].
const WITHOUT_LOG: [&str; 11] = [
    "await",
    "completions",
    "config",
    "doctor",
    "fleet",
    "healthcheck",
    "history",
    "man",
    "probe",
    "validate",
    "version",
];

/// Commands and options of other programs and earlier versions, with a suggestion for each.
const SUGGESTIONS: [(&str, &str); 13] = [
    ("--engine", "`--driver`"),
    ("bench", "`doorbell-load`, a separate program, generates load"),
    (
        "check",
        "`doorbell validate FILE` validates a configuration; `doorbell checks` lists the checks of a running instance",
    ),
    (
        "convert",
        "`doorbell config convert blackbox FILE`; for other programs start with `doorbell config init`",
    ),
    ("health", "`doorbell healthcheck` for scripts, `doorbell status` for people"),
    ("lint", "`doorbell validate`"),
    ("logs", "`doorbell events --follow`; the log is written to standard output"),
    ("restart", "`doorbell reload` loads the configuration without a restart"),
    ("start", "`doorbell serve`"),
    ("stop", "`doorbell quit`"),
    ("test", "`doorbell validate`"),
    ("top", "`doorbell status --watch`"),
    ("validate", "`doorbell validate`"),
];

/// Builds the command tree. Reads `--color` from `args` before parsing, because the option also
/// applies to help and parse errors.
pub(super) fn command(args: &[OsString]) -> Command {
    let mut command = without_empty(Cli::command()).color(color(args));
    for path in WITHOUT_CONFIG {
        command = within(command, path);
    }
    let is_silent = |name: &str| WITHOUT_LOG.contains(&name) || OperateCommand::has_subcommand(name);
    command.mut_subcommands(|below| if is_silent(below.get_name()) { without_log(below) } else { below })
}

/// Hides the log options of a command but still accepts them.
fn without_log(command: Command) -> Command {
    let level = Arg::new("log_level").long("log-level").value_parser(EnumValueParser::<LogLevel>::new());
    let format = Arg::new("log_format").long("log-format").value_parser(EnumValueParser::<LogFormat>::new());
    command.args([level.hide(true), format.hide(true)]).mut_subcommands(without_log)
}

/// Rewrites `help` to `--help`, and `help COMMAND` to `COMMAND --help`.
pub(super) fn normalize_help(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|word| word == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// Returns the first argument that names a command.
pub(super) fn first(args: &[OsString]) -> Option<&str> {
    let command = Cli::command();
    args.iter().skip(1).filter_map(|word| word.to_str()).find(|word| command.find_subcommand(word).is_some())
}

/// Returns the value of `--color`, at any position before `--`. The parser reports invalid values
/// later.
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

/// Treats empty environment variables as unset.
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

/// Hidden `--config` that always fails, for commands that read no configuration.
fn refused() -> Arg {
    let refuse = |_: &str| Err::<PathBuf, _>("this command reads no configuration; remove -c");
    Arg::new("config").short('c').long("config").hide(true).value_parser(ValueParser::new(refuse))
}

/// Returns a hint for an unknown argument: its entry in [`SUGGESTIONS`], or `-c` for a file name.
pub(super) fn hint(error: &clap::Error) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    if let Some((_, instead)) = SUGGESTIONS.iter().find(|(name, _)| name == word) {
        return Some(format!("\nhint: {instead}\n"));
    }
    let is_file = word.ends_with(".toml") || !word.starts_with('-') && std::path::Path::new(word).is_file();
    is_file.then(|| format!("\nhint: to use a configuration file, write -c {word}\n"))
}
