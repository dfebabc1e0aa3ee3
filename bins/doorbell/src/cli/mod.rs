//! From the command line to an exit code.
//!
//! Does not know about: how a configuration is read, how requests are served.

mod about;
pub mod args;
mod check;
mod doctor;
mod healthcheck;
mod init;
mod load;
pub mod operate;
mod probe;
mod redirect;
mod run;
mod until;

use crate::config::{self, Config, Source, default_config, to_json, to_toml};
use crate::exit::{Exit, Failure};
use crate::serve;
use args::{CheckArgs, Cli, ColorWhen, Command, ConfigCommand, DumpArgs, DumpForm, Global};
use clap::Parser;
use clap::error::ErrorKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};

/// How long whoever reads standard error may hang.
const READER_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Runs one command to its end. `args` begins with the name of the program.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &args),
    };
    match dispatch(cli) {
        Ok(exit) => exit,
        Err(failure) => {
            print_error(&format!("doorbell: {failure}\n"));
            failure.exit
        }
    }
}

/// Help and version are no failures; and `healthcheck` never ends with 2, which Docker keeps for itself, nor does `probe`, where it
/// means that there is no connection.
fn refuse(error: &clap::Error, args: &[OsString]) -> Exit {
    // Nobody is left to tell when even this cannot be written.
    let _ = error.print();
    let args = args.get(1..).unwrap_or_default();
    let asked_health = args.iter().any(|arg| arg == "healthcheck" || arg == "probe");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Success,
        _ if asked_health => Exit::Failure,
        _ => Exit::Usage,
    }
}

fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let global = &cli.global;
    let Some(command) = cli.command else {
        return match cli.test {
            true => check::run(&CheckArgs::default(), global),
            false => serve_file(cli.serve, global),
        };
    };
    let top = &cli.serve;
    let is_for_serve = !top.listen.is_empty() || !top.check.is_empty();
    if cli.test || is_for_serve || top.engine.is_some() || top.workers.is_some() {
        let message = "options of serve come after the command, as in `doorbell serve --listen :8080`";
        return Err(Failure::new(Exit::Usage, message));
    }
    match command {
        Command::Await(args) => until::run(args, global),
        Command::Check(args) => check::run(&args, global),
        Command::Completions(args) => say(&about::completions(&args)),
        Command::Config { command: ConfigCommand::Dump(args) } => dump(&args, global),
        Command::Config { command: ConfigCommand::Init(args) } => say(init::text(&args)),
        Command::Config { command: ConfigCommand::Schema } => say(&format!("{:#}\n", config::schema())),
        Command::Doctor(args) => doctor::run(&args, global),
        Command::Healthcheck(args) => Ok(healthcheck::run(&args, global)),
        Command::Man(args) => say(&about::man(&args)?),
        Command::Probe(args) => probe::run(args, global),
        Command::Operate(command) => operate::run(&command, global),
        Command::Redirect(args) => start(redirect::config(&args)?, global, "the command line", None),
        Command::Run(args) => run::run(&args, global),
        Command::Serve(args) => serve_file(args, global),
        Command::Version(args) => say(&about::version(&args)),
    }
}

fn say(text: &str) -> Result<Exit, Failure> {
    print_whole(text)?;
    Ok(Exit::Success)
}

fn serve_file(args: args::ServeArgs, global: &Global) -> Result<Exit, Failure> {
    let (config, origin) = match load::source(global)? {
        Some(source) => (load::config(&source, global)?, source.name),
        None => (default_config(), "built-in defaults".to_owned()),
    };
    // Standard input can be read once only.
    let again = global.config.as_ref().filter(|path| path.as_os_str() != "-").map(|_| {
        let (global, args) = (global.clone(), args.clone());
        Box::new(move || load::again(&global, &args)) as serve::Read
    });
    start(load::with_args(config, args)?, global, &origin, again)
}

fn start(config: Config, global: &Global, origin: &str, again: Option<serve::Read>) -> Result<Exit, Failure> {
    let config = load::with_global(config, global);
    let logging = crate::log::init(&config.log, colored(global.color, &std::io::stdout()));
    let _until_the_end = logging
        .map_err(|error| Failure::new(Exit::Failure, format!("no thread could be started: {error}")))?;
    run::follow_parent();
    serve::run(config, origin, again)
}

fn dump(args: &DumpArgs, global: &Global) -> Result<Exit, Failure> {
    let config = match load::source(global)? {
        Some(source) => load::config(&source, global)?,
        None => default_config(),
    };
    let text = match args.output {
        DumpForm::Json => format!("{:#}\n", to_json(&config, args.with_defaults)),
        DumpForm::Toml => to_toml(&config, args.with_defaults).map_err(|error| {
            Failure::new(Exit::Failure, format!("the configuration cannot be written: {error}"))
        })?,
    };
    print_whole(&text)?;
    Ok(Exit::Success)
}

/// A reader that closed its end, as `head` does, is no failure.
fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// What is meant to be kept, as a file: cut short by a full disk it is worse than nothing.
fn print_whole(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failure, format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// When standard error is closed there is nobody to tell; where its reader hangs, nobody waits for it.
fn print_error(text: &str) {
    let mut stderr = std::io::stderr().lock();
    for piece in text.as_bytes().chunks(crate::log::PIECE_LEN) {
        let ready = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&READER_TIMEOUT));
        if ready == Ok(0) || stderr.write_all(piece).is_err() {
            return;
        }
    }
}

/// <https://no-color.org>: any value but an empty one counts.
fn colored(when: ColorWhen, stream: &impl IsTerminal) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Auto => {
            stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
        ColorWhen::Never => false,
    }
}

fn print_problems(source: &Source, problems: &[config::Problem], color: ColorWhen) {
    print_error(&source.render(problems, colored(color, &std::io::stderr())));
}
