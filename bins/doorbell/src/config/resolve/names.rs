//! Tables that others name: from a name to a position, or to a problem with a proposal.
//!
//! Does not know about: what is in the tables.

use super::super::model::Health;
use doorbell_config::{At, Problem, Problems, did_you_mean, quoted};

/// The names of all tables of one kind.
pub(super) struct Names<'a> {
    /// `tls`, `auth` or `limit`, as in the file.
    pub(super) kind: &'static str,
    pub(super) known: Vec<&'a str>,
    pub(super) problems: &'a Problems,
}

impl Names<'_> {
    /// Where the table of this name is; without one that is an error.
    pub(super) fn position(&self, name: &At<String>) -> Option<usize> {
        let position = self.known.iter().position(|known| *known == name.value);
        if position.is_none() {
            let (kind, name, span) = (self.kind, &name.value, name.span.clone());
            let help = did_you_mean(name, &self.known).unwrap_or_else(|| match self.known.is_empty() {
                true => format!("add a table [{kind}.{name}]"),
                false => format!("add a table [{kind}.{name}], or name one of {}", quoted(&self.known)),
            });
            let code = match kind {
                "auth" => "unknown-auth",
                "limit" => "unknown-limit",
                _ => "unknown-tls",
            };
            self.problems.add(Problem::error(code, span, format!("there is no [{kind}.{name}]")).help(help));
        }
        position
    }
}

/// Where the health endpoint of this name is; without one that is an error.
pub(super) fn health_position(name: &At<String>, health: &[Health], problems: &Problems) -> Option<usize> {
    let names: Vec<&str> = health.iter().map(|health| &*health.name).collect();
    let position = names.iter().position(|known| *known == name.value);
    if position.is_none() {
        let message = format!("there is no health endpoint `{}`", name.value);
        let help = did_you_mean(&name.value, &names).unwrap_or_else(|| {
            format!("add a table [health.{}], or name one of {}", name.value, quoted(&names))
        });
        problems.add(Problem::error("unknown-health", name.span.clone(), message).help(help));
    }
    position
}
