//! Reports as text, Markdown or JSON. A report is a sequence of paragraphs and tables.

use serde::Serialize;

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// All data, for programs
    Json,
    /// Markdown tables
    Markdown,
    /// Aligned columns, for terminals
    Table,
}

/// A sequence of paragraphs and tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Words(String),
    Table(Table),
}

/// A table with headings and rows. A column with only numbers is aligned to the right.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Formats a report: `data` as JSON, or the page.
pub(crate) fn show(form: Form, data: &impl Serialize, page: impl FnOnce() -> Page) -> String {
    match form {
        Form::Json => json(data),
        Form::Markdown => page().render(Table::markdown),
        Form::Table => page().render(Table::text),
    }
}

/// Formats data as indented JSON.
pub(crate) fn json(data: &impl Serialize) -> String {
    serde_json::to_string_pretty(data).expect("a report is plain data") + "\n"
}

impl Page {
    /// Adds a paragraph, unless it is empty.
    pub(crate) fn words(&mut self, words: impl Into<String>) {
        let words = words.into();
        if !words.is_empty() {
            self.parts.push(Part::Words(words));
        }
    }

    /// Adds a paragraph with a line for each item.
    pub(crate) fn lines(&mut self, lines: impl IntoIterator<Item = String>) {
        self.words(lines.into_iter().collect::<Vec<_>>().join("\n"));
    }

    /// Adds a table, unless it has no rows.
    pub(crate) fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.parts.push(Part::Table(table));
        }
    }

    fn render(&self, table: fn(&Table) -> String) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Words(words) => format!("{words}\n"),
            Part::Table(rows) => table(rows),
        });
        parts.collect::<Vec<_>>().join("\n")
    }
}

impl Table {
    pub(crate) fn new<T: Into<String>>(heads: impl IntoIterator<Item = T>) -> Self {
        Self { heads: heads.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. Characters that would end a cell are replaced by spaces.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| cell.into().replace(['|', '\n'], " ")).collect());
    }

    /// Whether the column has a cell that is not empty, and each of them starts like a number.
    fn is_numbers(&self, column: usize) -> bool {
        let is_number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
        let cells = self.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
        cells.map(is_number).reduce(|all, one| all && one) == Some(true)
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = |column| if self.is_numbers(column) { "---:|" } else { "---|" };
        let rules: String = (0..self.heads.len()).map(rule).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{rules}\n{rows}", line(&self.heads))
    }

    fn text(&self) -> String {
        let lines = || [&self.heads].into_iter().chain(&self.rows);
        let width =
            |column: usize| lines().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let column = |column| (width(column).unwrap_or(0), self.is_numbers(column));
        let columns: Vec<(usize, bool)> = (0..self.heads.len()).map(column).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&columns).map(|(cell, &(width, is_numbers))| {
                if is_numbers { format!("{cell:>width$}") } else { format!("{cell:width$}") }
            });
            format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
        };
        lines().map(line).collect()
    }
}

/// Formats a rounded value, with a comma every three digits.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value <= -0.5 { format!("-{text}") } else { text }
}

/// Formats a value, or a dash if it is missing.
pub(crate) fn or_dash<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas() {
        for (value, expected) in [
            (0.0, "0"),
            (999.4, "999"),
            (999.5, "1,000"),
            (18_499.6, "18,500"),
            (1_234_567.0, "1,234,567"),
            (-1_500.0, "-1,500"),
            (-0.2, "0"),
        ] {
            assert_eq!(thousands(value), expected);
        }
    }

    #[test]
    fn a_page_has_three_forms() {
        let mut page = Page::default();
        page.words("Above.");
        page.words("");
        let mut table = Table::new(["name", "count"]);
        table.row(["a|b", "1,000"]);
        table.row(["longer", "-"]);
        table.row(["none", ""]);
        page.table(table);
        page.table(Table::new(["empty"]));
        page.words("Below.");
        let form = |form| show(form, &["data"], || page.clone());
        assert_eq!(
            form(Form::Markdown),
            "Above.\n\n| name | count |\n|---|---:|\n| a b | 1,000 |\n| longer | - |\n| none |  |\n\nBelow.\n"
        );
        assert_eq!(
            form(Form::Table),
            "Above.\n\nname    count\na b     1,000\nlonger      -\nnone\n\nBelow.\n"
        );
        assert_eq!(form(Form::Json), "[\n  \"data\"\n]\n");
    }
}
