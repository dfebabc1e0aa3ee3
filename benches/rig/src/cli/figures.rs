//! Commands that turn a saved report into a picture or a table, and the three files of committed figures.
//!
//! Does not know about: how figures are measured.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::chart;
use crate::error::RigError;
use crate::report::{self, Conditions, Outcome};

/// The report that `chart` and `table` read.
#[derive(Debug, Args)]
pub(super) struct SavedArgs {
    /// What `compare -o json` printed, or `compare --save` wrote
    pub(super) report: PathBuf,
}

/// The picture of a saved report.
pub(super) fn chart(args: &SavedArgs) -> Result<String, RigError> {
    let (outcomes, conditions) = read(&args.report)?;
    picture(&outcomes, &conditions, &args.report)
}

/// The table of a saved report.
pub(super) fn table(args: &SavedArgs) -> Result<String, RigError> {
    let (outcomes, conditions) = read(&args.report)?;
    Ok(report::readme(&outcomes, &conditions))
}

/// Writes `stem`.json, `stem`.svg and `stem`.md, the last two made from what the first holds.
pub(super) fn save(stem: &Path, outcomes: &[Outcome], conditions: &Conditions) -> Result<(), RigError> {
    let file = |extension: &str| PathBuf::from(format!("{}.{extension}", stem.display()));
    let write = |path: PathBuf, text: String| fs::write(&path, text).map_err(RigError::io(&path));
    write(file("json"), report::json(outcomes, conditions))?;
    write(file("md"), report::readme(outcomes, conditions))?;
    write(file("svg"), picture(outcomes, conditions, stem)?)
}

fn picture(outcomes: &[Outcome], conditions: &Conditions, path: &Path) -> Result<String, RigError> {
    let detail = "has no row that is drawn: close/64 or free/64";
    chart::render(outcomes, conditions).ok_or_else(|| wrong(path, detail))
}

fn read(path: &Path) -> Result<(Vec<Outcome>, Conditions), RigError> {
    let text = fs::read_to_string(path).map_err(RigError::io(path))?;
    report::parse(&text).map_err(|error| wrong(path, error))
}

fn wrong(path: &Path, detail: impl ToString) -> RigError {
    RigError::Figures { path: path.to_owned(), detail: detail.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE` of the committed figures is `doorbell-rig compare --save benches/rig/figures/compare-6.12`.
    const FIGURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/figures/compare-6.12");
    const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");

    fn text(extension: &str) -> String {
        fs::read_to_string(format!("{FIGURES}.{extension}")).unwrap()
    }

    fn committed() -> SavedArgs {
        SavedArgs { report: format!("{FIGURES}.json").into() }
    }

    #[test]
    fn the_committed_picture_and_table_are_those_of_the_committed_report() {
        assert!(chart(&committed()).unwrap() == text("svg"), "`doorbell-rig chart` gives another picture");
        assert_eq!(table(&committed()).unwrap(), text("md"));
        let (outcomes, conditions) = read(&committed().report).unwrap();
        assert_eq!(report::json(&outcomes, &conditions), text("json"));
    }

    #[test]
    fn every_committed_row_is_clean() {
        let (outcomes, _) = read(&committed().report).unwrap();
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
    fn a_readme_that_shows_the_table_shows_this_one() {
        let readme = fs::read_to_string(README).unwrap();
        if readme.contains("compare-6.12.svg") {
            let rows = text("md");
            for line in rows.lines().filter(|line| line.starts_with('|')) {
                assert!(readme.contains(line), "the README lacks\n{line}");
            }
        }
    }

    #[test]
    fn a_file_that_is_no_report_is_named() {
        let args = SavedArgs { report: concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into() };
        let error = table(&args).unwrap_err().to_string();
        assert!(error.contains("Cargo.toml"), "{error}");
    }

    #[test]
    fn three_files_are_saved_and_read_again() {
        let (outcomes, conditions) = read(&committed().report).unwrap();
        let folder = std::env::temp_dir().join(format!("doorbell-rig-figures-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let saved = save(&folder.join("x-6.1"), &outcomes, &conditions);
        let texts = ["json", "md", "svg"]
            .map(|extension| fs::read_to_string(folder.join(format!("x-6.1.{extension}"))));
        fs::remove_dir_all(&folder).unwrap();
        saved.unwrap();
        let expected = ["json", "md", "svg"].map(text);
        assert!(texts.map(Result::unwrap) == expected);
    }
}
