//! Reads a whole file: from TOML to values and problems.

use crate::broken_lines::broken_spans;
use crate::expand::{Env, ReadSecret};
use crate::overrides::{Environment, Overrides};
use crate::place::{At, Places};
use crate::problem::{Problem, Problems, Severity, Source};
use crate::program::Program;
use crate::secret::merged;
use crate::secret_places::secret_spans;
use crate::section::{Reading, Section};
use crate::table::Table;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use toml::de::DeTable;

/// Sources of values that are not in the file.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "functions have nothing to show")]
pub struct ExternalValues<'a> {
    /// Looks up `${NAME}`.
    pub env: Env<'a>,
    /// Reads `${file:PATH}`.
    pub read_secret: ReadSecret<'a>,
    /// Environment variables that replace keys.
    pub overrides: &'a Overrides,
}

/// A file whose tables have been read.
#[derive(Debug)]
pub struct Document {
    /// The place of each key.
    pub places: Places,
    /// Files that contain secrets.
    pub secret_files: Vec<At<PathBuf>>,
}

/// The result of reading a file.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The values that could be read despite problems; `None` if the file is not TOML.
    pub value: Option<T>,
    /// All problems, in the order of the file.
    pub problems: Vec<Problem>,
}

impl<T> Outcome<T> {
    /// Whether the file can be used: all problems are warnings.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity == Severity::Warning)
    }
}

/// Reads a file whose root table is a `T`.
pub fn load<T: Table>(program: Program, source: &Source, external: ExternalValues<'_>) -> Outcome<T> {
    read(program, source, external, crate::table::read, |file, _, _| file)
}

/// Reads a file: `tables` reads every table from the root, and `build` combines them.
pub fn read<T, U>(
    program: Program,
    source: &Source,
    external: ExternalValues<'_>,
    tables: impl FnOnce(Section<'_>) -> T,
    build: impl FnOnce(T, Document, &Problems) -> U,
) -> Outcome<U> {
    let environment = Arc::new(Environment::of(program, external.overrides, source.text.len() + 1));
    let (mut table, syntax) = DeTable::parse_recoverable(&source.text);
    let (problems, muted) = (Problems::default(), Problems::default());
    let mut hidden = environment.apply(table.get_mut(), &problems);
    let secret_files = RefCell::default();
    let root = table.get_ref();
    let reading = Reading {
        problems: &problems,
        muted: &muted,
        is_broken: !syntax.is_empty(),
        root: Some(root),
        env: external.env,
        read_secret: external.read_secret,
        secret_files: &secret_files,
        program: &program,
    };
    let read = tables(Section::root(root, reading));
    let mut outcome = if syntax.is_empty() {
        let document = Document { places: Places::of(root), secret_files: secret_files.take() };
        let built = build(read, document, &problems);
        Outcome { value: Some(built), problems: problems.into_sorted() }
    } else {
        Outcome { value: None, problems: with_syntax(source, &syntax, problems.into_sorted()) }
    };
    // A secret in clear text is permitted in an environment variable.
    outcome
        .problems
        .retain(|problem| problem.code != "clear-secret" || problem.span.start < environment.base);
    if outcome.problems.is_empty() {
        return outcome;
    }
    let schema = (program.schema)();
    hidden.extend(secret_spans(&schema, root, &source.text));
    if !syntax.is_empty() {
        hidden.extend(broken_spans(&schema, &source.text));
    }
    let hidden: Arc<[Range<usize>]> = merged(hidden).into();
    for problem in &mut outcome.problems {
        problem.hidden = Arc::clone(&hidden);
        problem.environment = Some(Arc::clone(&environment));
        problem.clean(source);
    }
    outcome
}

/// Adds the syntax errors to the problems of values that could be parsed, and removes such problems
/// on lines with a syntax error.
fn with_syntax(source: &Source, syntax: &[toml::de::Error], mut all: Vec<Problem>) -> Vec<Problem> {
    let ends: Vec<usize> = source.text.match_indices('\n').map(|(at, _)| at).collect();
    let line_of = |start: usize| ends.partition_point(|end| *end < start);
    let broken: BTreeSet<usize> =
        syntax.iter().map(|error| line_of(error.span().map_or(0, |span| span.start))).collect();
    all.retain(|problem| !broken.contains(&line_of(problem.span.start)));
    all.extend(syntax.iter().map(|error| syntax_problem(source, error)));
    all.sort_by_key(|problem| (problem.span.start, problem.span.end));
    all
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
