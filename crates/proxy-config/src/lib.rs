//! The configuration of the `doorbell` program: parses its TOML file into a [`Config`], and reports
//! every problem of the file.
//!
//! ```
//! use doorbell_proxy_config::{Severity, Source, parse};
//!
//! let text = "
//! version = 1
//!
//! [check.app]
//! type = 'tcp'
//! address = '127.0.0.1:8000'
//!
//! [health.readyz]
//! require = ['app']
//! ";
//! let file = Source { name: "doorbell.toml".into(), text: text.into() };
//! let parsed = parse(&file, &|variable| std::env::var(variable).ok());
//! assert!(parsed.problems.iter().all(|problem| problem.severity != Severity::Error));
//! assert_eq!(parsed.config.unwrap().checks.len(), 1);
//! ```
//!
//! | items | purpose |
//! |---|---|
//! | [`model`] | the tables, with a field for each key, its documentation, default and range |
//! | [`parse`], [`parse_over`], [`parse_with`], … | from a file to a [`Config`], with the rules between tables |
//! | [`schema`](schema()), [`to_toml`], [`to_json`] | JSON Schema; a configuration with all defaults |
//! | [`convert`] | files of other programs as tables of this configuration |
//! | [`Bind`], [`Schedule`], [`template`] | values that need more than a type of the standard library |
//!
//! Only the `doorbell` program and its fuzzers depend on this crate: its interface
//! changes with every key.
#![forbid(unsafe_code)]

mod addresses;
mod bind;
pub mod convert;
mod defaults;
mod dump;
mod files;
pub mod model;
mod networks;
mod program;
mod resolve;
mod schedule;
mod schema;
pub mod template;

pub use addresses::BoundAddr;
pub use bind::{BIND_FORM, Bind, BindError};
pub use defaults::default_config;
pub use doorbell_config::{
    Env, Overrides, Problem, ReadSecret, Severity, Source, format_duration, parse_duration, parse_size,
};
pub use dump::{to_json, to_toml};
pub use model::{Config, build_redirect};
pub use program::VARIABLES;
pub use schedule::{Schedule, Slot, system_zone};
pub use schema::schema;

use doorbell_config::{Document, Problems, secret};
use program::PROGRAM;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// Result of parsing a configuration file.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The configuration, unless one of the problems is an error.
    pub config: Option<Config>,
    /// All problems, in the order of the file.
    pub problems: Vec<Problem>,
}

/// Environment and files that a configuration refers to.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "contains only functions and a time")]
pub struct Outside<'a> {
    /// Values of `${NAME}`.
    pub env: Env<'a>,
    /// Contents of `${file:PATH}`.
    pub read_secret: ReadSecret<'a>,
    /// Current time in seconds since 1970. With `None`, files are not validated and reply files are
    /// not read.
    pub files_at: Option<i64>,
}

/// Environment variable with the time between SIGTERM and SIGKILL (`terminationGracePeriodSeconds`
/// of a pod). Kubernetes does not set the variable: the manifest has to.
const GRACE_VARIABLE: &str = "TERMINATION_GRACE_PERIOD";

/// The host name, the default name of this instance.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Parses a configuration file and validates the files that it names. Reports every problem, not
/// only the first.
#[must_use]
pub fn parse(source: &Source, env: Env<'_>) -> Parsed {
    parse_over(source, env, &Overrides::default())
}

/// Parses a configuration file as [`parse`] does, with environment variables that override keys.
#[must_use]
pub fn parse_over(source: &Source, env: Env<'_>, overrides: &Overrides) -> Parsed {
    parse_for_serve(source, env, overrides, true)
}

/// Parses a configuration file as [`parse_over`] does. Unless `allow_exec`, also reports checks
/// that `doorbell serve` refuses without `--allow-exec`.
#[must_use]
pub fn parse_for_serve(source: &Source, env: Env<'_>, overrides: &Overrides, allow_exec: bool) -> Parsed {
    let outside = Outside { env, read_secret: &secret::read_file, files_at: Some(files::now()) };
    parse_all(source, outside, overrides, allow_exec).0
}

/// Parses a configuration file as [`parse_over`] does; also returns the paths of secret files and
/// reply files, including unreadable ones.
pub fn parse_with_files(source: &Source, env: Env<'_>, overrides: &Overrides) -> (Parsed, Vec<PathBuf>) {
    let secrets = RefCell::new(Vec::new());
    let read_secret = |path: &Path| {
        secrets.borrow_mut().push(path.to_owned());
        secret::read_file(path)
    };
    let outside = Outside { env, read_secret: &read_secret, files_at: Some(files::now()) };
    let (parsed, valid_part) = parse_all(source, outside, overrides, true);
    let mut files = secrets.into_inner();
    for route in valid_part.iter().flat_map(|config| &config.routes) {
        let file = route.reply.as_ref().and_then(|reply| reply.file.as_ref());
        files.extend(file.map(|file| file.value.clone()));
    }
    (parsed, files)
}

/// Returns the valid part of a file that may contain errors, or `None` if the file is not TOML. For
/// commands that contact an instance that runs with this file.
pub fn parse_valid_part(source: &Source, env: Env<'_>, overrides: &Overrides) -> Option<Config> {
    let outside = Outside { env, read_secret: &secret::read_file, files_at: None };
    parse_all(source, outside, overrides, true).1
}

/// Parses a configuration file as [`parse`] does, with the environment, secrets and time in
/// `outside`.
#[must_use]
pub fn parse_with(source: &Source, outside: Outside<'_>) -> Parsed {
    parse_all(source, outside, &Overrides::default(), true).0
}

/// Parses a file; also returns the valid part of an invalid file.
fn parse_all(
    source: &Source,
    outside: Outside<'_>,
    overrides: &Overrides,
    allow_exec: bool,
) -> (Parsed, Option<Config>) {
    let Outside { env, read_secret, files_at } = outside;
    let grace = env(GRACE_VARIABLE);
    let build = |mut config: Config, document: Document, problems: &Problems| {
        resolve::resolve(&mut config, &document.places, grace.as_deref(), problems);
        if !allow_exec {
            resolve::report_exec(&config, &document.places, problems);
        }
        if let Some(unix_secs) = files_at {
            files::read_replies(&mut config, problems);
            files::check(&config, &document.places, unix_secs, problems);
            files::check_secrets(&document.secret_files, problems);
        }
        config
    };
    let outside = doorbell_config::ExternalValues { env, read_secret, overrides };
    let outcome = doorbell_config::read(PROGRAM, source, outside, |at| at.into_table(), build);
    let is_valid = outcome.is_valid();
    let config = outcome.value;
    (Parsed { config: config.clone().filter(|_| is_valid), problems: outcome.problems }, config)
}
