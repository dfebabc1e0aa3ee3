//! The file: a head, an entry for each lever, and where the figures are from. Read, checked, and written again.
//!
//! Does not know about: saved answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::cell::{self, Column, RowKey};
use crate::ablate::{TECHNIQUES, Technique, capital};

/// The section of conditions.
const SOURCES: &str = "Where the figures are from";
/// What every entry says.
const SAID: [&str; 2] = ["Hypothesis: ", "Verdict: **"];
/// Without figures of these there is no verdict.
const KERNELS: [Column; 2] = [Column::Kernel(6, 1), Column::Kernel(6, 12)];

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Book {
    head: String,
    pub(super) entries: Vec<Entry>,
    pub(super) sources: BTreeMap<Column, Source>,
}

/// One lever.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) title: String,
    /// Only of techniques.
    pub(super) figures: BTreeMap<RowKey, BTreeMap<Column, String>>,
    /// What is written beside them.
    text: String,
}

/// The conditions of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) from: String,
    /// How far apart the same server was in several boots, load by load.
    pub(super) repeats: BTreeMap<String, String>,
}

impl Book {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split("\n## ");
        let head = parts.next().unwrap_or_default().trim().to_owned();
        let mut book = Self { head, entries: Vec::new(), sources: BTreeMap::new() };
        for part in parts {
            let (title, body) = part.split_once('\n').unwrap_or((part, ""));
            if title == SOURCES {
                book.sources = sources(body)?;
            } else {
                book.entries.push(Entry::parse(title, body).map_err(|why| format!("{title}: {why}"))?);
            }
        }
        Ok(book)
    }

    pub(super) fn show(&self) -> String {
        let columns: BTreeSet<Column> = self
            .entries
            .iter()
            .flat_map(|entry| entry.figures.values().flat_map(BTreeMap::keys))
            .copied()
            .collect();
        let mut text = format!("{}\n", self.head);
        for entry in &self.entries {
            entry.show(&columns, &mut text);
        }
        if !self.sources.is_empty() {
            put(
                &mut text,
                format_args!(
                    "\n## {SOURCES}\n\n| figures | from | the same server in several boots |\n|---|---|---|"
                ),
            );
            for (column, Source { from, repeats }) in &self.sources {
                let repeats: Vec<String> =
                    repeats.iter().map(|(load, apart)| format!("`{load}` {apart}")).collect();
                row(&mut text, &[column.to_string(), from.clone(), repeats.join(", ")]);
            }
        }
        text
    }

    /// What is missing, or does not agree with itself.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let found: Vec<&str> =
            self.entries.iter().filter_map(Entry::technique).map(|known| known.name).collect();
        let expected: Vec<&str> = TECHNIQUES.iter().map(|known| known.name).collect();
        if found != expected {
            problems.push(format!("its techniques are {found:?} and those of the rig {expected:?}"));
        }
        for entry in &self.entries {
            problems
                .extend(entry.problems().into_iter().map(|problem| format!("{}: {problem}", entry.title)));
        }
        let measured = self.entries.iter().flat_map(|entry| entry.figures.values().flat_map(BTreeMap::keys));
        let unsaid: BTreeSet<&Column> =
            measured.filter(|column| !self.sources.contains_key(column)).collect();
        problems.extend(unsaid.iter().map(|column| format!("it does not say where {column} is from")));
        problems
    }
}

impl Entry {
    /// The technique it is about; some levers have no switch.
    pub(super) fn technique(&self) -> Option<&'static Technique> {
        TECHNIQUES.iter().find(|technique| capital(technique.name) == self.title)
    }

    fn parse(title: &str, body: &str) -> Result<Self, String> {
        let mut entry =
            Self { title: title.to_owned(), figures: BTreeMap::new(), text: body.trim().to_owned() };
        if entry.technique().is_some() {
            let is_table = |line: &&str| line.starts_with('|');
            let is_ours = |line: &&str| is_table(line) || line.starts_with("On: `");
            entry.figures = figures(body.lines().filter(is_table))?;
            let rest: Vec<&str> = body.lines().filter(|line| !is_ours(line)).collect();
            rest.join("\n").trim().clone_into(&mut entry.text);
        }
        Ok(entry)
    }

    fn show(&self, columns: &BTreeSet<Column>, text: &mut String) {
        put(text, format_args!("\n## {}\n", self.title));
        if let Some(technique) = self.technique() {
            put(text, format_args!("On: `{}`. Off: `{}`.\n", technique.on(), technique.off()));
        }
        if !self.figures.is_empty() {
            let names = columns.iter().map(Column::to_string);
            let heads: Vec<String> =
                ["driver", "load", "set"].map(str::to_owned).into_iter().chain(names).collect();
            row(text, &heads);
            put(text, format_args!("|{}", "---|".repeat(heads.len())));
            for (key, cells) in &self.figures {
                let figures = columns.iter().map(|column| cells.get(column).cloned().unwrap_or_default());
                row(text, &key.cells().into_iter().chain(figures).collect::<Vec<_>>());
            }
            text.push('\n');
        }
        put(text, format_args!("{}", self.text));
    }

    fn problems(&self) -> Vec<String> {
        let missing = SAID.iter().filter(|&&said| !self.text.lines().any(|line| line.starts_with(said)));
        let mut problems: Vec<String> = missing.map(|said| format!("no line begins with {said:?}")).collect();
        if self.technique().is_some() {
            let has = |column| self.figures.values().any(|cells| cells.contains_key(column));
            problems.extend(
                KERNELS.iter().filter(|column| !has(column)).map(|column| format!("no figures of {column}")),
            );
        }
        let cells = self.figures.values().flatten();
        problems.extend(cells.filter_map(|(column, cell)| cell::problem(*column, cell)));
        problems
    }
}

fn figures<'a>(
    mut lines: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<RowKey, BTreeMap<Column, String>>, String> {
    let Some(heads) = lines.next() else { return Ok(BTreeMap::new()) };
    let columns = cells(heads).skip(3).map(str::parse).collect::<Result<Vec<Column>, String>>()?;
    let rows = lines.skip(1).map(|line| {
        let cells: Vec<&str> = cells(line).collect();
        let [driver, load, set, figures @ ..] = cells.as_slice() else {
            return Err(format!("{line:?} is short"));
        };
        let figures = columns.iter().zip(figures).filter(|(_, cell)| !cell.is_empty());
        let figures = figures.map(|(column, cell)| (*column, (*cell).to_owned()));
        Ok((RowKey::parse(driver, load, set)?, figures.collect()))
    });
    rows.collect()
}

fn sources(body: &str) -> Result<BTreeMap<Column, Source>, String> {
    let lines = body.lines().filter(|line| line.starts_with('|')).skip(2);
    let parsed = lines.map(|line| {
        let cells: Vec<&str> = cells(line).collect();
        let [column, from, repeats] = cells[..] else { return Err(format!("{line:?} has not three cells")) };
        let repeats = repeats.split(", ").filter_map(|one| one.strip_prefix('`')?.split_once("` "));
        let repeats = repeats.map(|(load, apart)| (load.to_owned(), apart.to_owned())).collect();
        Ok((column.parse()?, Source { from: from.to_owned(), repeats }))
    });
    parsed.collect()
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    let inner = line.strip_prefix('|').unwrap_or(line);
    inner.strip_suffix('|').unwrap_or(inner).split('|').map(str::trim)
}

fn row(text: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") })
        .collect();
    put(text, format_args!("|{}", cells.concat()));
}

fn put(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string takes everything");
}
