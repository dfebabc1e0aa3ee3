//! Names of other tables, as in `tls = "NAME"`: resolves a name to a position, or reports a problem
//! with a suggestion.

use crate::entry::Entry;
use crate::place::At;
use crate::problem::{Problem, Problems};
use crate::value::Text;
use crate::words::{did_you_mean, quoted};
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;

/// Maximum number of names that a help text lists.
const SHOWN_MAX: usize = 20;

/// Maximum number of searches for a similar name. A search compares all names, and a report shows
/// no more problems.
const SEARCHES_MAX: usize = 50;

/// The name of another table. Comparisons ignore the position, because it changes when a table is
/// added in front.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// The name in the file.
    pub name: String,
    /// Position among the tables of its kind; set by [`Names::find`].
    pub position: usize,
}

impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Link {}

/// The names of all tables of one kind.
#[derive(Debug)]
pub struct Names<'a> {
    kind: &'static str,
    code: &'static str,
    known: Vec<&'a str>,
    positions: HashMap<&'a str, usize>,
    searches: Cell<usize>,
    /// Collects reports of unknown names.
    pub problems: &'a Problems,
}

impl<'a> Names<'a> {
    /// The names of one kind; `code` is the code of the problem for an unknown name.
    #[must_use]
    pub fn new(
        [kind, code]: [&'static str; 2],
        known: impl Iterator<Item = &'a String>,
        problems: &'a Problems,
    ) -> Self {
        let known: Vec<&str> = known.map(String::as_str).collect();
        let positions = known.iter().enumerate().map(|(position, name)| (*name, position)).collect();
        Self { kind, code, known, positions, searches: Cell::new(0), problems }
    }

    /// The position of the table with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// A suggestion for an unknown name, as a question; only for the first unknown names of a file.
    #[must_use]
    pub fn suggestion(&self, name: &str) -> Option<String> {
        self.searches.set(self.searches.get() + 1);
        (self.searches.get() <= SEARCHES_MAX).then(|| did_you_mean(name, &self.known))?
    }

    /// The first names, as `"a", "b"`.
    #[must_use]
    pub fn listed(&self) -> String {
        match self.known.get(..SHOWN_MAX) {
            Some(first) if first.len() < self.known.len() => format!("{}, ...", quoted(first)),
            _ => quoted(&self.known),
        }
    }

    /// The position of the table with this name; an unknown name is reported.
    #[must_use]
    pub fn position(&self, name: &At<String>) -> Option<usize> {
        let position = self.get(name);
        if position.is_none() {
            let (kind, name, span) = (self.kind, &name.value, name.span.clone());
            // The help lists the names only if they are few: a file may contain thousands of
            // tables.
            let help = self.suggestion(name).unwrap_or_else(|| match self.known.len() {
                1..=SHOWN_MAX => {
                    format!("add a table [{kind}.{name}], or use one of {}", quoted(&self.known))
                }
                _ => format!("add a table [{kind}.{name}]"),
            });
            let message = format!("there is no [{kind}.{name}]");
            self.problems.add(Problem::error(self.code, span, message).help(help));
        }
        position
    }

    /// Sets the position of `link`; returns false if no table has its name.
    pub fn find(&self, link: &mut At<Link>) -> bool {
        let position = self.position(&At { value: link.name.clone(), span: link.span.clone() });
        link.value.position = position.unwrap_or_default();
        position.is_some()
    }
}

impl Text for Link {
    fn parse(text: String, _entry: &Entry<'_>) -> Option<Self> {
        Some(Self { name: text, position: 0 })
    }

    fn blank() -> Self {
        Self::default()
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_unknown_names_are_compared_with_all_names() {
        let known: Vec<String> = (0..21).map(|n| format!("known{n}")).collect();
        let problems = Problems::default();
        let names = Names::new(["check", "unknown-check"], known.iter(), &problems);
        assert_eq!(names.position(&"known7".to_owned().into()), Some(7));
        for _ in 0..60 {
            assert_eq!(names.position(&"knwon7".to_owned().into()), None);
        }
        let listed = names.listed();
        assert!(listed.ends_with("\"known19\", ..."), "{listed}");
        let few = Names::new(["check", "unknown-check"], known[..2].iter(), &problems).listed();
        assert_eq!(few, "\"known0\", \"known1\"");
        let problems = problems.into_sorted();
        let help: Vec<_> = problems.iter().filter_map(|problem| problem.help.as_deref()).collect();
        assert_eq!(help[..50], ["did you mean `known7`?"; 50]);
        assert_eq!(help[50..], ["add a table [check.knwon7]"; 10]);
    }

    #[test]
    fn links_to_the_same_table_are_equal_wherever_it_is() {
        let link = |name: &str, position| Link { name: name.to_owned(), position };
        assert_eq!(link("eu", 1), link("eu", 2));
        assert_ne!(link("eu", 1), link("us", 1));
    }
}
