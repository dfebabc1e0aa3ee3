//! Loads the configuration from a file, the environment and the command line.

use super::options::{AdminArg, Global, ServeArgs, parse_admin, parse_bind};
use super::output::{print_error, print_problems};
use clap::ValueEnum;
use doorbell_checks::options::{Check, CheckKind};
use doorbell_health::Severity;
use doorbell_proxy_config::model::{Admin, CHECKS_MAX, CheckUse, Listener, LogLevel};
use doorbell_proxy_config::{
    Bind, Config, Outside, Overrides, Problem, Source, VARIABLES, default_config, parse_with,
};
use doorbell_proxy_server::Reading;
use doorbell_proxy_server::exit::{Exit, Failure};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Maximum size of a configuration file, so that a disk image is rejected before it is read
/// completely.
const FILE_LEN_MAX: u64 = 4 << 20;

/// Suffix of the error message for an invalid configuration; commands that start no server replace
/// the suffix.
pub(super) const NOT_STARTED: &str = "; nothing was started";

/// Name of the source if no file is given.
pub(super) const BUILT_IN: &str = "built-in defaults";

/// The file given with `--config`.
pub(super) fn source(global: &Global) -> Result<Option<Source>, Failure> {
    global.config.as_deref().map(read_source).transpose()
}

/// Reads a file, or standard input for `-`.
pub(super) fn read_source(path: &Path) -> Result<Source, Failure> {
    let (name, bytes) = match path.to_str() {
        Some("-") => ("<stdin>".to_owned(), read(std::io::stdin().lock())),
        _ => (path.display().to_string(), std::fs::File::open(path).and_then(read)),
    };
    let bytes = bytes.map_err(|error| Failure::new(Exit::BadConfig, cannot_read(path, &error)))?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(Failure::new(
            Exit::BadConfig,
            format!("{name} is larger than 4 MiB, the limit for a configuration file"),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(Exit::BadConfig, format!("{name} is not valid UTF-8 at byte {at}"))
    })?;
    Ok(Source { name, text })
}

/// The file given with `--config`, or the built-in configuration if variables override its keys.
pub(super) fn source_or_built_in(global: &Global) -> Result<Option<Source>, Failure> {
    match source(global)? {
        None if !overrides()?.is_empty() => Ok(Some(built_in())),
        source => Ok(source),
    }
}

/// The source to which overrides apply without a configuration file.
fn built_in() -> Source {
    Source { name: BUILT_IN.into(), text: "version = 1\n".into() }
}

/// The configuration without a file, with overrides applied.
pub(super) fn without_file(global: &Global) -> Result<Config, Failure> {
    if overrides()?.is_empty() { Ok(default_config()) } else { config(&built_in(), global) }
}

/// Configuration without a file, with overrides applied, and with a listener at this address unless
/// overrides configure listeners.
pub(super) fn with_listener(global: &Global, bind: &str) -> Result<Config, Failure> {
    let mut source = built_in();
    if !std::env::vars_os().any(|(name, _)| overrides_listener(&name)) {
        source.text += &format!("listener = {{ default = {{ bind = \"{bind}\", http2 = true }} }}\n");
    }
    config(&source, global)
}

/// Whether a variable overrides a key of a listener.
pub(super) fn overrides_listener(name: &OsStr) -> bool {
    name.as_encoded_bytes().to_ascii_uppercase().starts_with(b"DOORBELL__LISTENER__")
}

/// The configuration of the given file or, without one, the built-in one, for a command that does
/// not serve: `ending` replaces [`NOT_STARTED`] in an error message.
pub(super) fn for_command(global: &Global, ending: &str) -> Result<Config, Failure> {
    let config = match source(global)? {
        Some(source) => config(&source, global),
        None => without_file(global),
    };
    config.map_err(|failure| Failure { message: failure.message.replace(NOT_STARTED, ending), ..failure })
}

/// The error for a command whose table the configuration does not have.
pub(super) fn no_table(name: &str, global: &Global) -> Failure {
    let text = match &global.config {
        Some(path) => format!("{} has no [{name}]", path.display()),
        None => format!("the configuration has no [{name}]: name a file with -c"),
    };
    Failure::new(Exit::BadConfig, text)
}

/// The absolute path of the configuration file.
pub(super) fn origin(global: &Global) -> Option<PathBuf> {
    let path = global.config.as_ref().filter(|path| path.as_os_str() != "-")?;
    Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
}

/// Environment variables that override keys.
pub(super) fn overrides() -> Result<Overrides, Failure> {
    let ours =
        std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(VARIABLES.as_bytes()));
    let text = |(name, value): (OsString, OsString)| {
        let shown = name.to_string_lossy().into_owned();
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => Ok((name, value)),
            _ => Err(Failure::new(
                Exit::BadConfig,
                format!("the environment variable {shown} is not valid UTF-8"),
            )),
        }
    };
    Ok(Overrides::of(VARIABLES, ours.map(text).collect::<Result<Vec<_>, _>>()?))
}

/// The value of an environment variable, for `${NAME}`.
pub(super) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The valid part of a file that may contain errors, or `None` if the file is not TOML.
pub(super) fn valid_part(source: &Source) -> Result<Option<Config>, Failure> {
    let overrides = overrides()?;
    let outside = Outside { overrides: &overrides, files_at: None, ..Outside::new(&env) };
    Ok(parse_with(source, outside).valid_part())
}

/// Parses a source and prints its problems. Fails if one of them is an error.
pub(super) fn config(source: &Source, global: &Global) -> Result<Config, Failure> {
    let parsed = parse_with(source, Outside { overrides: &overrides()?, ..Outside::new(&env) });
    let shown: Vec<_> = parsed
        .problems
        .into_iter()
        .filter(|problem| problem.severity == doorbell_proxy_config::Severity::Error || !global.quiet)
        .collect();
    if !shown.is_empty() {
        print_problems(source, &shown, global.color);
        print_error("\n");
    }
    parsed.config.ok_or_else(|| {
        Failure::new(Exit::BadConfig, format!("{} has {}{NOT_STARTED}", source.name, count_errors(&shown)))
    })
}

/// Reads the configuration for a reload. Returns problems as text instead of printing them, and the
/// paths of the files that were read.
pub(super) fn reread(global: &Global, args: &ServeArgs) -> Reading {
    let mut files: Vec<PathBuf> = global.config.iter().cloned().collect();
    let sources = source(global).and_then(|source| Ok((source, overrides()?)));
    let config = sources.map_err(|failure| failure.to_string()).and_then(|(source, overrides)| {
        let source = source.ok_or_else(|| "no configuration file to read".to_owned())?;
        let parsed = parse_with(&source, Outside { overrides: &overrides, ..Outside::new(&env) });
        files.extend(parsed.files);
        let is_error = |problem: &&Problem| problem.severity == doorbell_proxy_config::Severity::Error;
        let errors: Vec<Problem> = parsed.problems.iter().filter(is_error).cloned().collect();
        let config = parsed.config.ok_or_else(|| {
            format!("{} has {}\n{}", source.name, count_errors(&errors), source.render(&errors, false))
        })?;
        let config = with_args(config, args.clone()).map_err(|failure| failure.to_string())?;
        Ok(with_state(with_global(config, global)))
    });
    Reading { config, files }
}

fn count_errors(problems: &[Problem]) -> String {
    let errors =
        problems.iter().filter(|problem| problem.severity == doorbell_proxy_config::Severity::Error).count();
    if errors == 1 { "an error".to_owned() } else { format!("{errors} errors") }
}

/// Applies the options of `serve`, and the variables `DOORBELL_ADMIN` and `DOORBELL_LISTEN`.
pub(super) fn with_args(mut config: Config, args: ServeArgs) -> Result<Config, Failure> {
    config.runtime.driver = args.driver.unwrap_or(config.runtime.driver);
    config.runtime.workers = args.workers.or(config.runtime.workers);
    match admin(&args)? {
        Some(AdminArg::At(bind)) => {
            let admin = config.admin.take().unwrap_or_default();
            config.admin = Some(Admin { bind, open: false, is_implicit: false, ..admin });
        }
        Some(AdminArg::Off) => config.admin = None,
        None => {}
    }
    config.allow_exec = args.allow_exec;
    add_checks(&mut config, args.check)?;
    let listen = listen(&args.listen)?;
    if listen.is_empty() {
        return Ok(config);
    }
    let http1 = |listener: &&mut Listener| listener.is_http();
    let mut candidates: Vec<_> = config.listeners.iter_mut().filter(http1).collect();
    match candidates.as_mut_slice() {
        [only] => only.binds = listen.into_iter().map(Into::into).collect(),
        _ => {
            let message = "--listen or DOORBELL_LISTEN is ambiguous: the file has no HTTP listener or more than one; set `bind` in the file";
            return Err(Failure::new(Exit::Usage, message));
        }
    }
    Ok(config)
}

/// Environment variables that are named like options and are not read, each with the option or
/// variable to use instead.
const UNREAD: [(&str, &str); 6] = [
    ("DOORBELL_ALLOW_EXEC", "--allow-exec"),
    ("DOORBELL_CHECK", "--check"),
    ("DOORBELL_DRIVER", "--driver or DOORBELL__RUNTIME__DRIVER"),
    ("DOORBELL_LOG_FORMAT", "--log-format or DOORBELL__LOG__FORMAT"),
    ("DOORBELL_LOG_LEVEL", "--log-level or DOORBELL_LOG"),
    ("DOORBELL_WORKERS", "--workers or DOORBELL__RUNTIME__WORKERS"),
];

/// The value of an environment variable; `None` if the variable is unset or empty.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// Logs a warning for each variable of [`UNREAD`] that is set.
pub(super) fn warn_of_unread() {
    for (name, instead) in UNREAD.iter().filter(|(name, _)| variable(name).is_some()) {
        tracing::warn!("{name} has no effect: use {instead}");
    }
}

/// Applies `DOORBELL_LOG`, unless `--log-level` is given.
pub(super) fn with_log_level(global: &mut Global) -> Result<(), Failure> {
    let Some(word) = variable("DOORBELL_LOG").filter(|_| global.log_level.is_none()) else { return Ok(()) };
    let level = LogLevel::from_str(&word, true).map_err(|_| {
        let known = LogLevel::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let known: Vec<String> = known.map(|level| level.get_name().to_owned()).collect();
        let text = format!("invalid value {word:?} of DOORBELL_LOG: expected one of {}", known.join(", "));
        Failure::new(Exit::Usage, text)
    })?;
    global.log_level = Some(level);
    Ok(())
}

/// The addresses of `--listen`, or else of `DOORBELL_LISTEN`.
pub(super) fn listen(given: &[Bind]) -> Result<Vec<Bind>, Failure> {
    let Some(value) = variable("DOORBELL_LISTEN").filter(|_| given.is_empty()) else {
        return Ok(given.to_vec());
    };
    let wrong = |fix| Failure::new(Exit::Usage, format!("invalid value {value:?} of DOORBELL_LISTEN: {fix}"));
    value.split(',').map(|text| parse_bind(text.trim()).map_err(wrong)).collect()
}

/// The address of `--admin`, or else of `DOORBELL_ADMIN`.
fn admin(args: &ServeArgs) -> Result<Option<AdminArg>, Failure> {
    if args.admin.is_some() {
        return Ok(args.admin);
    }
    let Some(value) = variable("DOORBELL_ADMIN") else { return Ok(None) };
    let wrong = |fix| Failure::new(Exit::Usage, format!("invalid value {value:?} of DOORBELL_ADMIN: {fix}"));
    parse_admin(&value).map(Some).map_err(wrong)
}

/// Adds a check for each target and makes `readyz` require it.
fn add_checks(config: &mut Config, targets: Vec<CheckKind>) -> Result<(), Failure> {
    for (number, kind) in (1..).zip(targets) {
        if config.checks.len() == CHECKS_MAX {
            return Err(Failure::new(Exit::Usage, format!("too many checks: the maximum is {CHECKS_MAX}")));
        }
        let position = config.checks.len();
        let name = format!("check-{number}");
        if config.checks.iter().any(|check| check.name == name) {
            let message = format!(
                "the name `{name}` of a check given with --check is taken by a check of the file; rename that one"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        config.checks.push(Check::new(name, kind));
        let readyz = config.health.iter_mut().filter(|health| health.name == "readyz");
        readyz.for_each(|health| health.uses.push(CheckUse::new(position, Severity::Required)));
    }
    Ok(())
}

/// Applies `--log-level`, `--log-format` and `--quiet`.
pub(super) fn with_global(mut config: Config, global: &Global) -> Config {
    config.log.level = global.log_level.unwrap_or(config.log.level);
    config.log.format = global.log_format.unwrap_or(config.log.format);
    if global.quiet {
        config.log.level = LogLevel::Error;
    }
    config
}

/// Under systemd the state file defaults to `state` in the unit's state directory
/// (`StateDirectory=` in systemd.exec(5)).
pub(super) fn with_state(mut config: Config) -> Config {
    let path = &mut config.lifecycle.state_file;
    *path = path.take().or_else(|| state_file(&std::env::var_os("STATE_DIRECTORY")?));
    config
}

/// The state file in the first directory of a colon-separated list.
fn state_file(directories: &OsStr) -> Option<PathBuf> {
    let first = directories.as_bytes().split(|byte| *byte == b':').next()?;
    let first = Path::new(OsStr::from_bytes(first));
    first.is_absolute().then(|| first.join("state"))
}

fn read(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn cannot_read(path: &Path, error: &std::io::Error) -> String {
    let path = path.display();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("no such file: {path}; give another with -c, or omit -c")
        }
        std::io::ErrorKind::PermissionDenied => format!("cannot read {path}: permission denied"),
        std::io::ErrorKind::IsADirectory => format!("{path} is a directory; give a file"),
        _ => format!("cannot read {path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_kept_in_the_first_directory() {
        for (given, expected) in [
            ("/var/lib/doorbell", Some("/var/lib/doorbell/state")),
            ("/var/lib/a:/var/lib/b", Some("/var/lib/a/state")),
            ("", None),
            (":/var/lib/b", None),
            ("relative", None),
        ] {
            assert_eq!(state_file(OsStr::new(given)).as_deref(), expected.map(Path::new), "{given}");
        }
    }
}
