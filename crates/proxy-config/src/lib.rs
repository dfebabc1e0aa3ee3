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
//! | [`parse`], [`parse_with`] | from a file to a [`Config`], with the rules between tables |
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
pub use dump::{to_json, to_sorted, to_toml};
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
    /// The valid part of a file with errors.
    invalid: Option<Config>,
    /// All problems, in the order of the file.
    pub problems: Vec<Problem>,
    /// Paths of secret files and reply files, including unreadable ones.
    pub files: Vec<PathBuf>,
}

impl Parsed {
    /// The configuration, or the valid part of a file with errors; `None` if the file is not TOML.
    /// For commands that contact an instance that runs with this file.
    #[must_use]
    pub fn valid_part(self) -> Option<Config> {
        self.config.or(self.invalid)
    }
}

/// Environment and files that a configuration refers to.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "contains only functions and a time")]
pub struct Outside<'a> {
    /// Values of `${NAME}`.
    pub env: Env<'a>,
    /// Environment variables that override keys.
    pub overrides: &'a Overrides,
    /// Contents of `${file:PATH}`.
    pub read_secret: ReadSecret<'a>,
    /// Current time in seconds since 1970. With `None`, files are not validated and reply files are
    /// not read.
    pub files_at: Option<i64>,
    /// With `false`, checks that `doorbell serve` refuses without `--allow-exec` are reported.
    pub allow_exec: bool,
}

impl<'a> Outside<'a> {
    /// The files of this machine, and no overrides.
    #[must_use]
    pub fn new(env: Env<'a>) -> Self {
        static NO_OVERRIDES: Overrides = Overrides::NONE;
        Self {
            env,
            overrides: &NO_OVERRIDES,
            read_secret: &secret::read_file,
            files_at: Some(files::now()),
            allow_exec: true,
        }
    }
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
    parse_with(source, Outside::new(env))
}

/// Parses a configuration file as [`parse`] does, with what `outside` sets.
#[must_use]
pub fn parse_with(source: &Source, outside: Outside<'_>) -> Parsed {
    let Outside { env, overrides, read_secret, files_at, allow_exec } = outside;
    let secrets = RefCell::new(Vec::new());
    let read_secret = |path: &Path| {
        secrets.borrow_mut().push(path.to_owned());
        read_secret(path)
    };
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
    let external = doorbell_config::ExternalValues { env, read_secret: &read_secret, overrides };
    let outcome = doorbell_config::read(PROGRAM, source, external, |at| at.into_table(), build);
    let is_valid = outcome.is_valid();
    let mut files = secrets.into_inner();
    for route in outcome.value.iter().flat_map(|config| &config.routes) {
        let file = route.reply.as_ref().and_then(|reply| reply.file.as_ref());
        files.extend(file.map(|file| file.value.clone()));
    }
    let (config, invalid) = if is_valid { (outcome.value, None) } else { (None, outcome.value) };
    Parsed { config, invalid, problems: outcome.problems, files }
}
