//! Configuration files: TOML in, a [`Config`] or every problem of the file out.
//!
//! Does not know about: sockets, command lines. Entry: [`parse`].
//!
//! [`model`] has the tables, each key a field; `resolve` resolves names and validates tables
//! against each other. Nothing runs before all of this is complete.

mod bind;
mod defaults;
mod dump;
mod files;
pub mod model;
mod networks;
mod program;
mod resolve;
mod schedule;
mod schema;
pub(crate) mod template;

pub use bind::{Bind, BindError};
pub use defaults::default_config;
pub use doorbell_config::{
    Env, Overrides, Problem, ReadSecret, Severity, Source, format_duration, format_size, parse_duration,
    parse_size,
};
pub use dump::{to_json, to_toml};
pub use model::Config;
pub use schedule::Schedule;
pub(crate) use schedule::system_zone;
pub use schema::schema;

pub(crate) use bind::BIND_FORM;
pub(crate) use doorbell_config::is_credential;
pub(crate) use model::build_redirect;
pub(crate) use program::VARIABLES;
pub(crate) use schedule::Slot;

use doorbell_config::{Document, Problems, secret};
use program::PROGRAM;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// Result of a file.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The configuration, unless one of the problems is an error.
    pub config: Option<Config>,
    /// All problems, in the order of the file.
    pub problems: Vec<Problem>,
}

/// Environment and files that a configuration refers to.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions have nothing to show")]
pub struct Outside<'a> {
    /// `${NAME}`
    pub env: Env<'a>,
    /// `${file:PATH}`
    pub read_secret: ReadSecret<'a>,
    /// Time in seconds since 1970 for validating certificates and keys; `None` skips them.
    pub files_at: Option<i64>,
}

/// Seconds between SIGTERM and SIGKILL: `terminationGracePeriodSeconds` of a pod, which Kubernetes
/// does not pass to the process itself.
const GRACE_VARIABLE: &str = "TERMINATION_GRACE_PERIOD";

/// Reads a file and the files it names. Every problem is reported, not only the first.
#[must_use]
pub fn parse(source: &Source, env: Env<'_>) -> Parsed {
    parse_over(source, env, &Overrides::default())
}

/// The same with variables that override keys.
#[must_use]
pub fn parse_over(source: &Source, env: Env<'_>, overrides: &Overrides) -> Parsed {
    let outside = Outside { env, read_secret: &secret::read_file, files_at: Some(files::now()) };
    parse_all(source, outside, overrides).0
}

/// The same, and the files with secrets and contents of replies, readable or not.
pub(crate) fn parse_and_list(source: &Source, env: Env<'_>, overrides: &Overrides) -> (Parsed, Vec<PathBuf>) {
    let secrets = RefCell::new(Vec::new());
    let read_secret = |path: &Path| {
        secrets.borrow_mut().push(path.to_owned());
        secret::read_file(path)
    };
    let outside = Outside { env, read_secret: &read_secret, files_at: Some(files::now()) };
    let (parsed, gleaned) = parse_all(source, outside, overrides);
    let mut files = secrets.into_inner();
    for route in gleaned.iter().flat_map(|config| &config.routes) {
        let file = route.reply.as_ref().and_then(|reply| reply.file.as_ref());
        files.extend(file.map(|file| file.value.clone()));
    }
    (parsed, files)
}

/// The readable part of a file, in spite of other errors: for commands that look for an instance
/// with this file and start none. `None` if it is not TOML.
pub(crate) fn glean(source: &Source, env: Env<'_>, overrides: &Overrides) -> Option<Config> {
    let outside = Outside { env, read_secret: &secret::read_file, files_at: None };
    parse_all(source, outside, overrides).1
}

/// The same as [`parse`], with another environment.
#[must_use]
pub fn parse_with(source: &Source, outside: Outside<'_>) -> Parsed {
    parse_all(source, outside, &Overrides::default()).0
}

/// Also returns the readable part of an invalid file.
fn parse_all(source: &Source, outside: Outside<'_>, overrides: &Overrides) -> (Parsed, Option<Config>) {
    let Outside { env, read_secret, files_at } = outside;
    let grace = env(GRACE_VARIABLE);
    let build = |mut config: Config, document: Document, problems: &Problems| {
        resolve::resolve(&mut config, &document.places, grace.as_deref(), problems);
        if let Some(unix_secs) = files_at {
            files::fill_replies(&mut config, problems);
            files::check(&config, &document.places, unix_secs, problems);
            files::check_secrets(&document.secret_files, problems);
        }
        config
    };
    let outside = doorbell_config::Outside { env, read_secret, overrides };
    let outcome = doorbell_config::read(PROGRAM, source, outside, |at| at.into_table(), build);
    let is_valid = outcome.is_valid();
    let config = outcome.gleaned;
    (Parsed { config: config.clone().filter(|_| is_valid), problems: outcome.problems }, config)
}
