//! Configuration files: TOML in, a [`Config`] or every problem of the file out.
//!
//! Does not know about: sockets, command lines. Entry: [`parse`].
//!
//! Two layers: `written` is the file as it stands, each value with its place; [`model`] is what can be used. Between
//! them `resolve` fills in defaults and checks names against each other. Nothing runs before all of it is done.

mod bind;
mod defaults;
mod dump;
mod expand;
mod files;
mod keys;
mod likeness;
pub mod model;
mod overrides;
mod problem;
mod resolve;
mod schedule;
mod schema;
mod secret;
mod section;
mod statuses;
pub(crate) mod template;
mod tuning;
mod units;
mod written;

pub use bind::{Bind, BindError};
pub use defaults::default_config;
pub use dump::{to_json, to_toml};
pub use expand::{Env, ReadSecret};
pub use model::Config;
pub use overrides::Overrides;
pub use problem::{Problem, Severity, Source};
pub use schedule::Schedule;
pub(crate) use schedule::system_zone;
pub use schema::schema;
pub use units::{format_duration, format_size, parse_duration, parse_size};

pub(crate) use bind::BIND_FORM;
pub(crate) use likeness::is_credential;
pub(crate) use resolve::{build_redirect, default_methods};
pub(crate) use schedule::Slot;

use overrides::Environment;
use problem::Problems;
use section::{Reading, Section};
use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::de::DeTable;

/// What came of a file.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The configuration, unless one of the problems is an error.
    pub config: Option<Config>,
    /// All problems, in the order of the file.
    pub problems: Vec<Problem>,
}

/// What a file may refer to outside of itself.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions have nothing to show")]
pub struct Outside<'a> {
    /// `${NAME}`
    pub env: Env<'a>,
    /// `${file:PATH}`
    pub read_secret: ReadSecret<'a>,
    /// The time in seconds since 1970 at which certificates and keys are looked at; `None` leaves them alone.
    pub files_at: Option<i64>,
}

/// How long whoever ends us waits before it kills, in seconds: what `terminationGracePeriodSeconds` of a pod says, which Kubernetes itself does
/// not tell.
const GRACE_VARIABLE: &str = "TERMINATION_GRACE_PERIOD";

/// Reads a file, and looks at the files it names. Every problem is reported, not only the first.
#[must_use]
pub fn parse(source: &Source, env: Env<'_>) -> Parsed {
    parse_over(source, env, &Overrides::default())
}

/// The same with variables that stand in for keys.
#[must_use]
pub fn parse_over(source: &Source, env: Env<'_>, overrides: &Overrides) -> Parsed {
    let outside = Outside { env, read_secret: &secret::read_file, files_at: Some(files::now()) };
    parse_all(source, outside, overrides).0
}

/// The same, and the files that secrets and contents of replies were taken from, whether they could be read or not.
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
        if let model::Action::Reply(model::Reply { file: Some(file), .. }) = &route.action {
            files.push(file.path.clone());
        }
    }
    (parsed, files)
}

/// What a file says as far as it can be read, whatever else is wrong with it: for whoever looks for a doorbell that runs with it, and
/// starts none. `None` for what is no TOML, of which nobody can tell where anything belongs.
pub(crate) fn glean(source: &Source, env: Env<'_>, overrides: &Overrides) -> Option<Config> {
    let outside = Outside { env, read_secret: &secret::read_file, files_at: None };
    parse_all(source, outside, overrides).1
}

/// The same as [`parse`], with something else around the file.
#[must_use]
pub fn parse_with(source: &Source, outside: Outside<'_>) -> Parsed {
    parse_all(source, outside, &Overrides::default()).0
}

/// Also what the file says where some of it cannot be used.
fn parse_all(source: &Source, outside: Outside<'_>, overrides: &Overrides) -> (Parsed, Option<Config>) {
    let environment = Arc::new(Environment::of(overrides, source.text.len() + 1));
    let (mut table, syntax) = DeTable::parse_recoverable(&source.text);
    let problems = Problems::default();
    environment.apply(table.get_mut(), &problems);
    let (mut list, config) = read(source, table.get_ref(), &syntax, outside, problems);
    // Where it is set is where it belongs.
    list.retain(|problem| problem.code != "clear-secret" || problem.span.start < environment.base);
    let mut hidden = secret::clear_spans(table.get_ref());
    hidden.extend(syntax.iter().filter_map(|error| likeness::broken_span(&source.text, error.span()?.start)));
    hidden.extend(environment.secrets());
    let is_valid = list.iter().all(|problem| problem.severity == Severity::Warning);
    if !is_valid {
        hidden.extend(secret::unknown_spans(table.get_ref()));
    }
    hidden.sort_unstable_by_key(|span| span.start);
    let hidden: Arc<[Range<usize>]> = hidden.into();
    for problem in &mut list {
        problem.hidden = Arc::clone(&hidden);
        problem.environment = Some(Arc::clone(&environment));
    }
    (Parsed { config: config.clone().filter(|_| is_valid), problems: list }, config)
}

/// Every problem, and what can be understood; nothing where it is not TOML.
fn read(
    source: &Source,
    root: &DeTable<'_>,
    syntax: &[toml::de::Error],
    outside: Outside<'_>,
    problems: Problems,
) -> (Vec<Problem>, Option<Config>) {
    let Outside { env, read_secret, files_at } = outside;
    let secret_files = RefCell::default();
    let reading =
        Reading { problems: &problems, env, read_secret, secret_files: &secret_files, recorder: None };
    let file = written::File::read(Section::root(root, reading));
    if syntax.is_empty() {
        let mut config = resolve::resolve(&file, env(GRACE_VARIABLE).as_deref(), &problems);
        if let Some(unix_secs) = files_at {
            files::fill_replies(&file, &mut config, &problems);
            files::check(&file, &config.log.access.file, unix_secs, &problems);
            files::check_secrets(&secret_files.into_inner(), &problems);
        }
        return (problems.into_sorted(), Some(config));
    }
    // What the reader could make of the rest is checked key by key, but not against each other: a table may be
    // missing only because its header is broken.
    let broken: Vec<usize> = syntax.iter().map(|error| line_of(source, error.span())).collect();
    let mut all: Vec<Problem> = problems.into_sorted();
    all.retain(|problem| {
        problem.code != "missing-version" && !broken.contains(&source.position(problem.span.start).0)
    });
    all.extend(syntax.iter().map(|error| syntax_problem(source, error)));
    all.sort_by_key(|problem| (problem.span.start, problem.span.end));
    (all, None)
}

fn line_of(source: &Source, span: Option<Range<usize>>) -> usize {
    source.position(span.map_or(0, |span| span.start)).0
}

fn syntax_problem(source: &Source, error: &toml::de::Error) -> Problem {
    let message = error.message();
    let span = error.span().unwrap_or(0..0);
    let problem = Problem::error("syntax", span.clone(), format!("not TOML: {message}"));
    let line = source.text[..span.start.min(source.text.len())].rsplit('\n').next().unwrap_or_default();
    if message == "duplicate key" {
        problem.help("remove one of the two, or give it another name")
    } else if message.contains("must be quoted") {
        problem.help("write strings in quotes, as in bind = \":8080\"")
    } else if line.contains('"') {
        problem.help("a string ends on the line where it begins")
    } else if line.starts_with('[') {
        problem.help("a table begins with [name] on a line of its own")
    } else {
        problem.help("a line is `key = value`, `[table]` or a `# comment`")
    }
}
