//! What is wrong with a configuration file, and how it is shown: as a marked excerpt or as JSON.
//!
//! Does not know about: which keys exist, what they mean.

use super::secret::mask;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// A configuration file as it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// As the user named it.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// Whether a problem stops the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not do what was meant.
    Warning,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Whether it stops the start.
    pub severity: Severity,
    /// A short fixed name, for machines.
    pub code: &'static str,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The bytes of the file it is about.
    pub span: Range<usize>,
    /// Written under the marked bytes; may be empty.
    pub label: String,
    /// Other places that matter, each with its label.
    pub related: Vec<(Range<usize>, String)>,
    /// What to do about it.
    pub help: Option<String>,
    /// Secrets in clear text, which are not shown with the lines they stand on.
    pub(crate) hidden: Arc<[Range<usize>]>,
}

/// Collects problems while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Problems(RefCell<Vec<Problem>>);

impl Problem {
    pub(crate) fn error(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            span,
            label: String::new(),
            related: Vec::new(),
            help: None,
            hidden: Arc::default(),
        }
    }

    pub(crate) fn warning(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn also(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }
}

impl Problems {
    pub(crate) fn add(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    pub(crate) fn errors_len(&self) -> usize {
        self.0.borrow().iter().filter(|problem| problem.severity == Severity::Error).count()
    }

    /// All problems in the order of the file.
    pub(crate) fn into_sorted(self) -> Vec<Problem> {
        let mut list = self.0.into_inner();
        list.sort_by_key(|problem| (problem.span.start, problem.span.end));
        list
    }
}

impl Source {
    /// Line and column of a byte, both from 1; columns count characters.
    #[must_use]
    pub fn position(&self, byte: usize) -> (usize, usize) {
        let mut byte = byte.min(self.text.len());
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        let before = &self.text[..byte];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// Problems as text, each with the marked lines.
    #[must_use]
    pub fn render(&self, problems: &[Problem], color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        problems.iter().map(|problem| renderer.render(&self.report(problem)) + "\n").collect()
    }

    /// Problems for machines.
    #[must_use]
    pub fn to_json(&self, problems: &[Problem]) -> Value {
        let place = |span: &Range<usize>| {
            let ((line, column), (end_line, end_column)) =
                (self.position(span.start), self.position(span.end));
            json!({ "line": line, "column": column, "end_line": end_line, "end_column": end_column })
        };
        let list = problems.iter().map(|problem| {
            let related = problem.related.iter().map(|(span, label)| json!({ "at": place(span), "label": label }));
            json!({
                "severity": match problem.severity { Severity::Error => "error", Severity::Warning => "warning" },
                "code": problem.code,
                "message": problem.message,
                "at": place(&problem.span),
                "label": problem.label,
                "related": related.collect::<Vec<_>>(),
                "help": problem.help,
            })
        });
        json!({
            "file": self.name,
            "valid": problems.iter().all(|problem| problem.severity == Severity::Warning),
            "problems": list.collect::<Vec<_>>(),
        })
    }

    fn report<'a>(&'a self, problem: &'a Problem) -> Vec<Group<'a>> {
        let level = match problem.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let span = self.visible(&problem.span);
        let primary = AnnotationKind::Primary.span(span);
        let primary = if problem.label.is_empty() { primary } else { primary.label(&problem.label) };
        let related = problem.related.iter().map(|(span, label)| {
            let place = AnnotationKind::Context.span(self.visible(span));
            if label.is_empty() { place } else { place.label(label) }
        });
        let snippet = Snippet::source(mask(&self.text, &problem.hidden))
            .path(&self.name)
            .annotation(primary)
            .annotations(related.collect::<Vec<_>>());
        let title = level.primary_title(&problem.message).id(problem.code);
        let group = title.element(snippet);
        match &problem.help {
            Some(help) => vec![group.element(Level::HELP.message(help))],
            None => vec![group],
        }
    }

    /// The span, cut to the text and to whole characters, and at most one line long.
    fn visible(&self, span: &Range<usize>) -> Range<usize> {
        let floor = |mut byte: usize| {
            while !self.text.is_char_boundary(byte) {
                byte -= 1;
            }
            byte
        };
        let start = floor(span.start.min(self.text.len()));
        let end = floor(span.end.clamp(start, self.text.len())).max(start);
        let line_len = self.text[start..end].find(['\r', '\n']);
        start..line_len.map_or(end, |len| start + len)
    }
}
