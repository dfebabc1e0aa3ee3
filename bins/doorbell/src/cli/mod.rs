//! From the command line to an exit code.
//!
//! Does not know about: how a configuration is read, how requests are served.

mod about;
pub mod args;
mod check;
mod command;
mod diff;
mod doctor;
mod healthcheck;
mod init;
mod load;
mod manual;
pub mod operate;
mod probe;
mod redirect;
mod run;
mod trust;
mod until;

use crate::config::model::Admin;
use crate::config::{self, Config, Source, to_json, to_toml};
use crate::exit::{Exit, Failure};
use crate::reload::Read;
use crate::serve;
use args::{CheckArgs, Cli, ColorWhen, Command, ConfigCommand, DumpArgs, DumpForm, Global};
use clap::FromArgMatches as _;
use clap::error::ErrorKind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};

/// How long whoever reads standard error may hang.
const READER_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Runs one command to its end. `args` begins with the name of the program.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args = command::asked_for_help(args.into_iter().collect());
    let matches = command::command(&args).try_get_matches_from(&args);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
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
    if let Some(hint) = command::hint(error) {
        print_error(&hint);
    }
    let asked_health = command::first(args).is_some_and(|name| name == "healthcheck" || name == "probe");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Success,
        _ if asked_health => Exit::Failure,
        _ => Exit::Usage,
    }
}

fn dispatch(mut cli: Cli) -> Result<Exit, Failure> {
    if matches!(cli.command, None | Some(Command::Redirect(_) | Command::Run(_) | Command::Serve(_))) {
        load::with_log_level(&mut cli.global)?;
    }
    let global = &cli.global;
    let Some(command) = cli.command else {
        return match cli.test {
            true => check::run(&CheckArgs::default(), global),
            false => serve_file(cli.serve, global),
        };
    };
    let top = &cli.serve;
    let is_for_serve = !top.listen.is_empty() || !top.check.is_empty() || top.admin.is_some();
    if cli.test || is_for_serve || top.engine.is_some() || top.workers.is_some() {
        let message = "options of serve come after the command, as in `doorbell serve --listen :8080`";
        return Err(Failure::new(Exit::Usage, message));
    }
    match command {
        Command::Await(args) => until::run(args, global),
        Command::Check(args) => check::run(&args, global),
        Command::Completions(args) => say(&about::completions(&args)),
        Command::Config { command: ConfigCommand::Diff(args) } => diff::run(&args),
        Command::Config { command: ConfigCommand::Dump(args) } => dump(&args, global),
        Command::Config { command: ConfigCommand::Init(args) } => say(init::text(&args)),
        Command::Config { command: ConfigCommand::Schema } => say(&format!("{:#}\n", config::schema())),
        Command::Doctor(args) => doctor::run(&args, global),
        Command::Healthcheck(args) => Ok(healthcheck::run(&args, global)),
        Command::Man(args) => say(&about::man(&args)?),
        Command::Probe(args) => probe::run(args, global),
        Command::Operate(command) => operate::run(&command, global),
        Command::Redirect(args) => start(redirect::config(&args, global)?, global, "the command line", None),
        Command::Run(args) => run::run(&args, global),
        Command::Serve(args) => serve_file(args, global),
        Command::Version(args) => say(&about::version(&args)),
    }
}

fn say(text: &str) -> Result<Exit, Failure> {
    print(text)?;
    Ok(Exit::Success)
}

fn serve_file(args: args::ServeArgs, global: &Global) -> Result<Exit, Failure> {
    let (config, origin) = match load::source(global)? {
        Some(source) => {
            let name = load::origin(global).map(|path| path.display().to_string());
            (load::config(&source, global)?, name.unwrap_or(source.name))
        }
        None => {
            let mut config = load::without_file(global)?;
            config.admin.get_or_insert_with(Admin::by_itself);
            (config, load::BUILT_IN.to_owned())
        }
    };
    // Standard input can be read once only.
    let again = global.config.as_ref().filter(|path| path.as_os_str() != "-").map(|_| {
        let (global, args) = (global.clone(), args.clone());
        Box::new(move || load::again(&global, &args)) as Read
    });
    start(load::with_args(config, args)?, global, &origin, again)
}

fn start(config: Config, global: &Global, origin: &str, again: Option<Read>) -> Result<Exit, Failure> {
    let config = load::with_state(load::with_global(config, global));
    let logging = crate::log::init(&config.log, colored(global.color, &std::io::stdout()));
    let _until_the_end = logging
        .map_err(|error| Failure::new(Exit::Failure, format!("no thread could be started: {error}")))?;
    load::warn_of_unread();
    crate::parent::follow();
    serve::run(config, origin, again)
}

fn dump(args: &DumpArgs, global: &Global) -> Result<Exit, Failure> {
    let config = match load::source(global)? {
        Some(source) => load::config(&source, global),
        None => load::without_file(global),
    };
    let config = config.map_err(|failure| Failure {
        message: failure.message.replace(load::NOT_STARTED, "; nothing was written"),
        ..failure
    })?;
    let text = match args.output {
        DumpForm::Json => format!("{:#}\n", to_json(&config, args.with_defaults)),
        DumpForm::Toml => to_toml(&config, args.with_defaults).map_err(|error| {
            Failure::new(Exit::Failure, format!("the configuration cannot be written: {error}"))
        })?,
    };
    print(&text)?;
    Ok(Exit::Success)
}

/// What is cut short by a full disk is worse than nothing. A reader that closed its end, as `head` does, is no failure.
fn print(text: &str) -> Result<(), Failure> {
    print_more(text).map(|_| ())
}

/// The same for what has no end: whether anybody still reads it.
fn print_more(text: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(Exit::Failure, format!("standard output cannot be written: {error}"))),
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

fn colored(when: ColorWhen, stream: &impl IsTerminal) -> bool {
    is_colored(when, stream.is_terminal(), |name| std::env::var_os(name))
}

/// <https://no-color.org>: any value but an empty one counts. A terminal that is dumb would show the codes.
fn is_colored(when: ColorWhen, is_terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_off = || env("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = || env("TERM").is_some_and(|value| value == "dumb");
    match when {
        ColorWhen::Always => true,
        ColorWhen::Auto => is_terminal && !is_off() && !is_dumb(),
        ColorWhen::Never => false,
    }
}

fn print_problems(source: &Source, problems: &[config::Problem], color: ColorWhen) {
    print_error(&source.render(problems, colored(color, &std::io::stderr())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_colors_are() {
        use ColorWhen::{Always, Auto, Never};
        for (when, is_terminal, name, value, expected) in [
            (Auto, true, "TERM", "xterm", true),
            (Auto, false, "TERM", "xterm", false),
            (Auto, true, "NO_COLOR", "1", false),
            (Auto, true, "NO_COLOR", "", true),
            (Auto, true, "TERM", "dumb", false),
            (Always, false, "NO_COLOR", "1", true),
            (Always, true, "TERM", "dumb", true),
            (Never, true, "TERM", "xterm", false),
        ] {
            let found = is_colored(when, is_terminal, |asked| (asked == name).then(|| value.into()));
            assert_eq!(found, expected, "{when:?} {is_terminal} {name}={value}");
        }
    }
}
