//! Names of other tables, as in `tls = "NAME"`: resolves a name to a position, or reports a problem
//! with a suggestion.

use crate::entry::Entry;
use crate::place::At;
use crate::problem::{Problem, Problems};
use crate::value::Text;
use crate::words::{did_you_mean, quoted};
use std::fmt;

/// Maximum number of names that a suggestion lists.
const SHOWN_MAX: usize = 20;

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
        Self { kind, code, known: known.map(String::as_str).collect(), problems }
    }

    /// The position of the table with this name; an unknown name is reported.
    #[must_use]
    pub fn position(&self, name: &At<String>) -> Option<usize> {
        let position = self.known.iter().position(|known| *known == name.value);
        if position.is_none() {
            let (kind, name, span) = (self.kind, &name.value, name.span.clone());
            // The help lists the names only if they are few: a file may contain thousands of
            // tables.
            let help = did_you_mean(name, &self.known).unwrap_or_else(|| match self.known.len() {
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
    fn links_to_the_same_table_are_equal_wherever_it_is() {
        let link = |name: &str, position| Link { name: name.to_owned(), position };
        assert_eq!(link("eu", 1), link("eu", 2));
        assert_ne!(link("eu", 1), link("us", 1));
    }
}
