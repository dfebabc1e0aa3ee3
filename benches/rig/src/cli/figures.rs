//! Reports as files, and the commands that convert a saved report to a chart or a table.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::args::Common;
use crate::chart;
use crate::error::RigError;
use crate::report::{Form, Page, Run, across, show};

impl Common {
    /// Formats the report as requested. With `--save` the report is also written as JSON and as
    /// Markdown.
    pub(super) fn give(&self, data: &impl Serialize, page: impl Fn() -> Page) -> Result<String, RigError> {
        let shown = |form| show(form, data, &page);
        if let Some(stem) = &self.save {
            write(stem, "json", &shown(Form::Json))?;
            write(stem, "md", &shown(Form::Markdown))?;
        }
        Ok(shown(self.output))
    }
}

/// Draws the chart of a saved report.
pub(super) fn chart(file: &Path) -> Result<String, RigError> {
    picture(&read(file)?, file)
}

/// Formats the table of a saved report.
pub(super) fn table(file: &Path) -> Result<String, RigError> {
    let run = read(file)?;
    Ok(show(Form::Markdown, &run, || across(&run)))
}

/// Writes the chart of a comparison next to its report.
pub(super) fn save_picture(stem: &Path, run: &Run) -> Result<(), RigError> {
    write(stem, "svg", &picture(run, stem)?)
}

fn write(stem: &Path, extension: &str, text: &str) -> Result<(), RigError> {
    let path = PathBuf::from(format!("{}.{extension}", stem.display()));
    fs::write(&path, text).map_err(RigError::io(&path))
}

fn picture(run: &Run, path: &Path) -> Result<String, RigError> {
    chart::render(run)
        .ok_or_else(|| wrong(path, "has no row with the load close/64 or free/64, which the chart needs"))
}

fn read(path: &Path) -> Result<Run, RigError> {
    let text = fs::read_to_string(path).map_err(RigError::io(path))?;
    serde_json::from_str(&text).map_err(|error| wrong(path, error))
}

fn wrong(path: &Path, detail: impl ToString) -> RigError {
    RigError::Figures { path: path.to_owned(), detail: detail.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::args::Given;
    use super::*;
    use crate::report::json;

    /// To update the committed figures: `doorbell-rig compare --save
    /// benches/rig/figures/compare-6.12`.
    const FIGURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/figures/compare-6.12");
    const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/book/src/performance.md");

    /// The rows of the README's table, and the server of each row.
    const IN_README: [(&str, &str); 8] = [
        ("bare `accept4`, `recv`, `send`, `close` loop, no HTTP", "bare"),
        ("**doorbell**, io_uring", "doorbell-uring"),
        ("**doorbell**, epoll", "doorbell-epoll"),
        ("nginx", "nginx"),
        ("gnet", "gnet"),
        ("hyper", "hyper"),
        ("HAProxy", "haproxy"),
        ("Go net/http", "go-nethttp"),
    ];

    fn text(extension: &str) -> String {
        fs::read_to_string(format!("{FIGURES}.{extension}")).unwrap()
    }

    fn committed() -> PathBuf {
        format!("{FIGURES}.json").into()
    }

    #[test]
    fn the_committed_picture_and_table_are_those_of_the_committed_report() {
        assert!(
            chart(&committed()).unwrap() == text("svg"),
            "the committed chart differs from `doorbell-rig chart`"
        );
        assert_eq!(table(&committed()).unwrap(), text("md"));
        assert_eq!(json(&read(&committed()).unwrap()), text("json"));
    }

    #[test]
    fn every_committed_row_is_clean() {
        let outcomes = read(&committed()).unwrap().rows;
        for outcome in &outcomes {
            assert!(outcome.is_clean(), "{}: {:?}", outcome.row.id(), outcome.failure);
        }
        let peers = [
            "bare",
            "nginx",
            "haproxy",
            "h2o",
            "go-nethttp",
            "go-goroutine",
            "gnet",
            "hyper",
            "axum",
            "monoio",
            "compio",
        ];
        for server in peers.into_iter().chain(["doorbell-uring", "doorbell-epoll"]) {
            assert!(outcomes.iter().any(|outcome| outcome.row.server == server), "{server}");
        }
    }

    #[test]
    fn the_book_shows_the_committed_table() {
        let book = fs::read_to_string(BOOK).unwrap();
        for line in text("md").lines().filter(|line| line.starts_with('|')) {
            assert!(book.contains(line), "deploy/book/src/performance.md lacks\n{line}");
        }
    }

    #[test]
    fn the_readme_shows_figures_of_the_committed_table() {
        let (readme, table) = (fs::read_to_string(README).unwrap(), text("md"));
        for (label, server) in IN_README {
            let row = table.lines().find_map(|line| line.strip_prefix(&format!("| {server} | "))).unwrap();
            let close = row.split(' ').next().unwrap();
            let line = format!("\n| {label} | {close} |\n");
            assert!(readme.contains(&line), "the README does not contain{line}");
        }
    }

    #[test]
    fn a_file_that_is_no_report_is_named() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let error = table(&file).unwrap_err().to_string();
        assert!(error.contains("Cargo.toml"), "{error}");
    }

    #[test]
    fn three_files_are_saved_and_read_again() {
        let run = read(&committed()).unwrap();
        let folder = std::env::temp_dir().join(format!("doorbell-rig-figures-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let stem = folder.join("x-6.1");
        let given = Given { doorbell: None, load: None };
        let common = Common { output: Form::Markdown, save: Some(stem.clone()), given };
        let saved = common.give(&run, || across(&run));
        let drawn = save_picture(&stem, &run);
        let texts = ["json", "md", "svg"]
            .map(|extension| fs::read_to_string(folder.join(format!("x-6.1.{extension}"))));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(saved.unwrap(), text("md"));
        drawn.unwrap();
        let expected = ["json", "md", "svg"].map(text);
        assert!(texts.map(Result::unwrap) == expected);
    }
}
