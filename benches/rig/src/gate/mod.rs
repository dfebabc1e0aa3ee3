//! The gate compares a few rows with committed figures or with another build, so that a change
//! cannot make a connection more expensive unnoticed. It also verifies promised limits of one row
//! relative to another.

pub(crate) mod base;
mod figures;
mod verdict;

use std::path::{Path, PathBuf};

use figures::{Committed, Line, Taken};
use verdict::PROMISES;

use crate::error::RigError;
use crate::image::{self, Contents, Kernel, OurPrograms};
use crate::plan::{Plan, Row};
use crate::report::{Form, Page, Run, show};
use crate::session::Session;
use crate::tool;

/// The rows: new connections at two levels of concurrency and under default scheduling, persistent
/// connections without and with pipelining, and the epoll driver.
const ROWS: [&str; 6] = [
    "doorbell-uring/close/64",
    "doorbell-uring/close/512",
    "doorbell-uring/free/64",
    "doorbell-uring/keep/64",
    "doorbell-uring/keep-16/64",
    "doorbell-epoll/close/64",
];
const KERNEL: Kernel = Kernel::V6_12;
const CPU: &str = "max";
/// Samples of each row.
const REPEAT: u32 = 3;

/// Path of the committed figures.
pub(crate) fn default_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gate.json")
}

/// Measures, and compares the figures with those in `file` or writes them to `file`. Returns the
/// output, and whether the gate passed.
pub(crate) fn run(ours: &mut OurPrograms, file: &Path, write: bool) -> Result<(String, bool), RigError> {
    let committed = if write { None } else { Some(figures::read(file)?) };
    let (plan, contents) = plan(rows(), ours)?;
    let run = session().run(&plan, &contents)?;
    let measured = taken(&run)?;
    let mut page = Page::default();
    let passed = match committed {
        None => {
            figures::write(file, &measured)?;
            page.words(format!("Written to {}.", file.display()));
            verdict::judge(&measured, &measured, &mut page)
        }
        Some(committed) => verdict::judge(&committed, &measured, &mut page),
    };
    let kept =
        verdict::judge_promises(&PROMISES, |id| Some(run.clean_figures(&row_of(id))?.server), &mut page);
    Ok((show(Form::Table, &(), || page), passed && kept))
}

fn session() -> Session {
    Session { kernel: KERNEL, cpu: CPU.to_owned() }
}

/// The plan for all of `rows`, and its contents. A missing server is an error.
fn plan(rows: Vec<Row>, ours: &mut OurPrograms) -> Result<(Plan, Contents), RigError> {
    let (plan, contents, missing) = image::plan(rows, REPEAT, ours);
    missing.into_iter().next().map_or(Ok((plan, contents)), |(_, error)| Err(error))
}

/// The rows that have a committed figure and the rows of promises, each once.
fn rows() -> Vec<Row> {
    let promised = PROMISES.iter().flat_map(|promise| [promise.row, promise.beside]);
    let mut rows: Vec<Row> = Vec::new();
    for row in ROWS.into_iter().filter(|id| has_figure(id)).chain(promised).map(row_of) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

/// Whether the row has a committed figure. A row under default scheduling has none, because its
/// samples differ by 15 %; it is only compared with another build.
fn has_figure(id: &str) -> bool {
    row_of(id).load.mode.is_batch()
}

fn row_of(id: &str) -> Row {
    let (server, load) = id.split_once('/').expect("a server and its load");
    Row { server: server.to_owned(), load: load.parse().expect("the load of a row") }
}

/// The measured figures of the rows that have a committed figure, and their conditions. A row that
/// could not be measured or has a failed request is an error, because it cannot be compared.
fn taken(run: &Run) -> Result<Committed, RigError> {
    let mut rows = Vec::new();
    let is_ours = |id: &str| ROWS.contains(&id) && has_figure(id);
    for outcome in run.rows.iter().filter(|outcome| is_ours(&outcome.row.id())) {
        let row = outcome.row.id();
        let figures = outcome.clean_figures().ok_or_else(|| RigError::Guest {
            detail: format!(
                "did not serve {row} without a failure: {}",
                outcome.problem().unwrap_or_default()
            ),
        })?;
        let spread_percent = (figures.server_spread_percent * 100.0).round() / 100.0;
        rows.push(Line { row, server: figures.server.round(), spread_percent });
    }
    let conditions = &run.conditions;
    let taken = Taken {
        kernel_package: conditions.kernel_package.clone(),
        rustc: rustc_version()?,
        qemu: conditions.qemu.clone(),
        cpu: conditions.cpu.clone(),
        repeat: conditions.repeat,
    };
    Ok(Committed { taken, rows })
}

/// The compiler that builds the workspace.
fn rustc_version() -> Result<String, RigError> {
    let said = tool::capture("rustc", "rustc", &["--version"], Path::new(env!("CARGO_MANIFEST_DIR")))?;
    Ok(said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::servers::Entry;

    #[test]
    fn every_row_is_of_the_catalogue_and_measured_once() {
        let rows = rows();
        for row in &rows {
            let entry = Entry::named(&row.server).unwrap_or_else(|| panic!("{}", row.server));
            assert!(entry.serves(row.load.mode), "{}", row.id());
            assert_eq!(rows.iter().filter(|other| *other == row).count(), 1);
        }
        for promise in &PROMISES {
            assert!([promise.row, promise.beside].iter().all(|id| rows.iter().any(|row| row.id() == **id)));
        }
    }
}
