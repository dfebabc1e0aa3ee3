//! Commands: parses the command line, runs one command and returns its exit code.

mod about;
pub mod args;
mod command;
mod convert;
mod diff;
mod doctor;
mod fleet;
mod healthcheck;
mod history;
mod init;
mod load;
pub mod manual;
pub mod operate;
pub mod options;
mod output;
mod probe;
mod redirect;
mod report;
mod run;
mod signals;
mod trust;
mod until;
mod validate;

use args::{Cli, Command, ConfigCommand, DumpArgs, DumpForm};
use clap::error::ErrorKind;
use clap::{ArgMatches, FromArgMatches as _};
use doorbell_proxy_config::model::Admin;
use doorbell_proxy_config::{Config, schema, to_json, to_toml};
use doorbell_proxy_server::exit::{Exit, Failure};
use doorbell_proxy_server::{Program, Read};
use options::{Global, ServeArgs};
use output::{colored, print, print_error};
use std::ffi::OsString;

/// The whole command line, as `doorbell` parses it.
#[must_use]
pub fn command_line() -> clap::Command {
    command::command(&[])
}

/// Runs one command. The first element of `args` is the name of the program.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args = command::normalize_help(args.into_iter().collect());
    let matches = command::command(&args).try_get_matches_from(&args);
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error, &args),
    };
    match dispatch(cli, &matches) {
        Ok(exit) => exit,
        Err(failure) => {
            print_error(&format!("doorbell: {failure}\n"));
            failure.exit
        }
    }
}

/// Prints a parse error or help. `healthcheck` and `probe` do not exit with 2 here: for
/// `healthcheck`, Docker reserves this code, and for `probe` it means that the connection failed.
fn refuse(error: &clap::Error, args: &[OsString]) -> Exit {
    // A failure to write the error cannot be reported.
    let _ = error.print();
    if let Some(hint) = command::hint(error) {
        print_error(&hint);
    }
    let is_probe_command = command::first(args).is_some_and(|name| name == "healthcheck" || name == "probe");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Success,
        _ if is_probe_command => Exit::Failure,
        _ => Exit::Usage,
    }
}

/// Runs a command; `given` are the arguments as clap has parsed them.
fn dispatch(mut cli: Cli, given: &ArgMatches) -> Result<Exit, Failure> {
    if matches!(cli.command, None | Some(Command::Redirect(_) | Command::Run(_) | Command::Serve(_))) {
        load::with_log_level(&mut cli.global)?;
    }
    let global = &cli.global;
    let Some(command) = cli.command else {
        return match cli.test {
            true => validate::run(&validate::ValidateArgs::new(cli.serve.allow_exec), global),
            false => serve_file(cli.serve, global),
        };
    };
    let top = &cli.serve;
    let has_list = !top.listen.is_empty() || !top.check.is_empty();
    let has_value = top.admin.is_some() || top.driver.is_some() || top.workers.is_some();
    if cli.test || has_list || has_value || top.allow_exec {
        let message = "options of serve must follow the command, as in `doorbell serve --listen :8080`";
        return Err(Failure::new(Exit::Usage, message));
    }
    match command {
        Command::Await(args) => until::run(args, global),
        Command::Completions(args) => print_text(&about::completions(&args)),
        Command::Config { command: ConfigCommand::Convert(args) } => convert::run(&args),
        Command::Config { command: ConfigCommand::Diff(args) } => diff::run(&args, global),
        Command::Config { command: ConfigCommand::Dump(args) } => dump(&args, global),
        Command::Config { command: ConfigCommand::Init(args) } => print_text(init::text(&args)),
        Command::Config { command: ConfigCommand::Schema } => print_text(&format!("{:#}\n", schema())),
        Command::Doctor(args) => doctor::run(&args, global),
        Command::Fleet(args) => fleet::run(&args, global),
        Command::Healthcheck(args) => Ok(healthcheck::run(&args, global)),
        Command::History { command } => history::run(&command, global),
        Command::Man(args) => print_text(&about::man(&args)?),
        Command::Probe(args) => probe::run(args, global),
        Command::Operate(command) => operate::run(&command, global),
        Command::Redirect(args) => start(redirect::config(&args, global)?, global, "the command line", None),
        Command::Run(args) => run::run(&args, global, given.subcommand_matches("run").unwrap_or(given)),
        Command::Serve(args) => serve_file(args, global),
        Command::Validate(args) => validate::run(&args, global),
        Command::Version(args) => print_text(&about::version(&args)),
    }
}

fn print_text(text: &str) -> Result<Exit, Failure> {
    print(text)?;
    Ok(Exit::Success)
}

fn serve_file(args: ServeArgs, global: &Global) -> Result<Exit, Failure> {
    let (config, origin) = match load::source(global)? {
        Some(source) => {
            let name = load::origin(global).map(|path| path.display().to_string());
            (load::config(&source, global)?, name.unwrap_or(source.name))
        }
        None => {
            let mut config = load::without_file(global)?;
            config.admin.get_or_insert_with(Admin::implicit);
            (config, load::BUILT_IN.to_owned())
        }
    };
    // Standard input can be read only once, so it cannot be reloaded.
    let reread = global.config.as_ref().filter(|path| path.as_os_str() != "-").map(|_| {
        let (global, args) = (global.clone(), args.clone());
        Box::new(move || load::reread(&global, &args)) as Read
    });
    start(load::with_args(config, args)?, global, &origin, reread)
}

fn start(config: Config, global: &Global, origin: &str, reread: Option<Read>) -> Result<Exit, Failure> {
    let config = load::with_state(load::with_global(config, global));
    let logging = doorbell_proxy_server::log::init(&config.log, colored(global.color, &std::io::stdout()));
    let _until_the_end = logging
        .map_err(|error| Failure::new(Exit::Failure, format!("cannot start the log thread: {error}")))?;
    load::warn_of_unread();
    doorbell_proxy_server::parent::exit_with_parent();
    // Set by `build.rs`.
    let program = Program { revision: env!("DOORBELL_REVISION"), rustc: env!("DOORBELL_RUSTC") };
    doorbell_proxy_server::run(config, origin, reread, program)
}

fn dump(args: &DumpArgs, global: &Global) -> Result<Exit, Failure> {
    let config = load::for_command(global, "; nothing was written")?;
    let text = match args.output {
        DumpForm::Json => format!("{:#}\n", to_json(&config, args.with_defaults)),
        DumpForm::Toml => to_toml(&config, args.with_defaults).map_err(|error| {
            Failure::new(Exit::Failure, format!("cannot serialize the configuration: {error}"))
        })?,
    };
    print(&text)?;
    Ok(Exit::Success)
}
