//! Problems of a configuration file, and their output: as marked excerpts, JSON or SARIF.

use crate::clean::Unquotable;
use crate::overrides::Environment;
use crate::secret::mask;
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of problems in a report. Others are only counted.
const SHOWN_MAX: usize = 50;

/// The text of a configuration file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name given by the user.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// Whether a problem prevents the use of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not do what the user intended.
    Warning,
}

/// One problem of a file.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Whether the problem prevents the use of the file.
    pub severity: Severity,
    /// A short fixed name, for programs.
    pub code: &'static str,
    /// The problem in one sentence.
    pub message: String,
    /// The byte range in the file.
    pub span: Range<usize>,
    /// Text under the marked bytes; may be empty.
    pub label: String,
    /// Other relevant places, each with its label.
    pub related: Vec<(Range<usize>, String)>,
    /// How to fix the problem.
    pub help: Option<String>,
    /// Secrets in clear text, which are masked in the lines shown. In order, without overlaps.
    pub(crate) hidden: Arc<[Range<usize>]>,
    /// Environment variables that replace keys. A span that starts at or after
    /// [`Environment::base`] lies in the text of these variables.
    pub(crate) environment: Option<Arc<Environment>>,
}

/// Collects problems while a file is read.
#[derive(Debug, Default)]
pub struct Problems(RefCell<Vec<Problem>>);

impl Problem {
    /// A problem that prevents the start.
    #[must_use]
    pub fn error(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            span,
            label: String::new(),
            related: Vec::new(),
            help: None,
            hidden: Arc::default(),
            environment: None,
        }
    }

    /// A file that cannot be read.
    #[must_use]
    pub fn unreadable(message: &str) -> Self {
        Self::error("unreadable", 0..0, message)
    }

    /// A problem that does not prevent the start.
    #[must_use]
    pub fn warning(code: &'static str, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    /// Adds the text under the marked bytes.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a help text: how to fix the problem.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds another relevant place.
    #[must_use]
    pub fn also(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }

    /// Removes secrets from the texts: credentials, and quoted parts of a value that contains
    /// another secret. Also removes quoted parts of a value of several lines: if its closing quote is
    /// missing, the value contains the keys below it.
    pub(crate) fn clean(&mut self, source: &Source) {
        let spans = std::iter::once(&self.span).chain(self.related.iter().map(|(span, _)| span));
        let values = spans.filter_map(|span| {
            let environment = self.environment.as_ref().and_then(|all| Some((all, all.place(span)?)));
            let is_in_file = environment.is_none();
            let text = match environment {
                Some((all, place)) => all.given.get(place),
                None => source.text.get(span.clone()),
            };
            let hidden = within(&self.hidden, span);
            let text = text.filter(|text| is_in_file && text.contains('\n') || !hidden.is_empty())?;
            let part = |hidden: &Range<usize>| {
                let end = hidden.end.min(span.end) - span.start;
                text.get(hidden.start.saturating_sub(span.start)..end).unwrap_or(text)
            };
            Some((text, hidden.iter().map(part).collect()))
        });
        let values = Unquotable::new(values);
        let related = self.related.iter_mut().map(|(_, label)| label);
        for text in [&mut self.message, &mut self.label].into_iter().chain(related).chain(&mut self.help) {
            *text = values.clean(text);
        }
    }
}

impl Problems {
    /// Adds a problem.
    pub fn add(&self, problem: Problem) {
        self.0.borrow_mut().push(problem);
    }

    /// Whether an error is reported for exactly this place, which means that the value there is
    /// invalid.
    #[must_use]
    pub fn has_error_at(&self, span: &Range<usize>) -> bool {
        self.0.borrow().iter().any(|problem| problem.severity == Severity::Error && problem.span == *span)
    }

    /// Whether a problem with this code is reported at this place.
    #[must_use]
    pub fn has(&self, code: &str, span: &Range<usize>) -> bool {
        self.0.borrow().iter().any(|problem| problem.code == code && problem.span == *span)
    }

    /// All problems in the order of the file.
    #[must_use]
    pub fn into_sorted(self) -> Vec<Problem> {
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
        let (shown, more) = shown(problems);
        let reports = shown.into_iter().map(|problem| renderer.render(&self.report(problem)) + "\n");
        reports.chain((more > 0).then(|| format!("and {more} more\n"))).collect()
    }

    /// Problems as JSON.
    #[must_use]
    pub fn to_json(&self, problems: &[Problem]) -> Value {
        let place = |problem: &Problem, span: &Range<usize>| {
            let environment = problem.environment.as_ref();
            if let Some(variable) = environment.and_then(|environment| environment.variable(span)) {
                return json!({ "variable": variable });
            }
            let ((line, column), (end_line, end_column)) =
                (self.position(span.start), self.position(span.end));
            json!({ "line": line, "column": column, "end_line": end_line, "end_column": end_column })
        };
        let (shown, more) = shown(problems);
        let list = shown.into_iter().map(|problem| {
            let related = problem.related.iter().map(|(span, label)| json!({ "at": place(problem, span), "label": label }));
            json!({
                "severity": match problem.severity { Severity::Error => "error", Severity::Warning => "warning" },
                "code": problem.code,
                "message": problem.message,
                "at": place(problem, &problem.span),
                "label": problem.label,
                "related": related.collect::<Vec<_>>(),
                "help": problem.help,
            })
        });
        let mut report = json!({
            "file": self.name,
            "valid": problems.iter().all(|problem| problem.severity == Severity::Warning),
            "problems": list.collect::<Vec<_>>(),
        });
        if more > 0 {
            report["more"] = more.into();
        }
        report
    }

    /// Problems as SARIF 2.1.0, from a tool of this name and version.
    #[must_use]
    pub fn to_sarif(&self, problems: &[Problem], [tool, version]: [&str; 2]) -> Value {
        let result = |problem: &Problem| {
            let environment = problem.environment.as_ref();
            let ((line, column), (end_line, end_column)) =
                (self.position(problem.span.start), self.position(problem.span.end));
            let region = json!({ "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column });
            let variable = environment.and_then(|environment| environment.variable(&problem.span));
            let region = variable.is_none().then_some(region);
            let place = variable
                .map_or_else(|| problem.message.clone(), |name| format!("{name}: {}", problem.message));
            let text =
                [Some(place), problem.help.clone()].into_iter().flatten().collect::<Vec<_>>().join("; ");
            let level = match problem.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            let mut location = json!({ "artifactLocation": { "uri": self.name } });
            if let Some(region) = region {
                location["region"] = region;
            }
            json!({
                "ruleId": problem.code,
                "level": level,
                "message": { "text": text },
                "locations": [{ "physicalLocation": location }],
            })
        };
        let (shown, more) = shown(problems);
        let mut codes: Vec<&str> = shown.iter().map(|problem| problem.code).collect();
        codes.sort_unstable();
        codes.dedup();
        let rules: Vec<Value> = codes.into_iter().map(|code| json!({ "id": code })).collect();
        let mut report = json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": { "name": tool, "version": version, "rules": rules } },
                "results": shown.into_iter().map(result).collect::<Vec<_>>(),
            }],
        });
        if more > 0 {
            let note = json!({ "level": "note", "message": { "text": format!("and {more} more") } });
            report["runs"][0]["invocations"] =
                json!([{ "executionSuccessful": true, "toolExecutionNotifications": [note] }]);
        }
        report
    }

    fn report<'a>(&'a self, problem: &'a Problem) -> Vec<Group<'a>> {
        let level = match problem.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let environment = problem.environment.as_deref();
        let place = |span: &Range<usize>| environment.and_then(|environment| environment.place(span));
        let (mut here, mut there) = (Vec::new(), Vec::new());
        let primary = std::iter::once((&problem.span, &problem.label, AnnotationKind::Primary));
        let related = problem.related.iter().map(|(span, label)| (span, label, AnnotationKind::Context));
        for (span, label, kind) in primary.chain(related) {
            let (list, span) = match (place(span), environment) {
                (Some(span), Some(environment)) => (&mut there, environment.source.visible(&span)),
                _ => (&mut here, self.visible(span)),
            };
            list.push((span, label.as_str(), kind));
        }
        let mut snippets = Vec::new();
        if !here.is_empty() {
            snippets.push(self.snippet(here, &problem.hidden, 0));
        }
        if let Some(environment) = environment.filter(|_| !there.is_empty()) {
            snippets.push(environment.source.snippet(there, &problem.hidden, environment.base));
        }
        if place(&problem.span).is_some() {
            snippets.reverse();
        }
        let title = level.primary_title(&problem.message).id(problem.code);
        let group = title.elements(snippets);
        match &problem.help {
            Some(help) => vec![group.element(Level::HELP.message(help))],
            None => vec![group],
        }
    }

    /// The lines of these places, with masked secrets. The first byte of the text has offset 0 in
    /// `marks` and offset `base` in `hidden`.
    fn snippet<'a>(
        &'a self,
        marks: Vec<(Range<usize>, &'a str, AnnotationKind)>,
        hidden: &[Range<usize>],
        base: usize,
    ) -> Snippet<'a, Annotation<'a>> {
        let first = marks.iter().map(|(span, ..)| span.start).min().unwrap_or_default();
        let last = marks.iter().map(|(span, ..)| span.end).max().unwrap_or_default();
        // A place at the end of the file is shown at the end of the last line, not on an empty line
        // below it.
        let before = &self.text[..first];
        let before = before.strip_suffix('\n').filter(|_| first == self.text.len()).unwrap_or(before);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[last..].find('\n').map_or(self.text.len(), |at| last + at + 1);
        let shift = |at: usize| at.saturating_sub(base + start);
        let hidden = within(hidden, &(base + start..base + end)).iter();
        let hidden: Vec<_> = hidden.map(|span| shift(span.start)..shift(span.end)).collect();
        let annotations = marks.into_iter().map(|(span, label, kind)| {
            let annotation = kind.span(span.start - start..span.end - start);
            if label.is_empty() { annotation } else { annotation.label(label) }
        });
        Snippet::source(mask(&self.text[start..end], &hidden))
            .line_start(self.text[..start].matches('\n').count() + 1)
            .path(&self.name)
            .annotations(annotations)
    }

    /// The span, limited to the text, to whole characters, and to one line.
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

/// The problems of a report in the order of the file, and the number of omitted problems. Warnings
/// are omitted first.
fn shown(problems: &[Problem]) -> (Vec<&Problem>, usize) {
    let mut all: Vec<_> = problems.iter().enumerate().collect();
    all.sort_by_key(|(_, problem)| problem.severity == Severity::Warning);
    all.truncate(SHOWN_MAX);
    all.sort_by_key(|(at, _)| *at);
    let more = problems.len() - all.len();
    (all.into_iter().map(|(_, problem)| problem).collect(), more)
}

/// The places of secrets that overlap a span.
fn within<'s>(hidden: &'s [Range<usize>], span: &Range<usize>) -> &'s [Range<usize>] {
    let start = hidden.partition_point(|hidden| hidden.end <= span.start);
    let end = hidden.partition_point(|hidden| hidden.start < span.end);
    &hidden[start..end.max(start)]
}
