//! The gate: a few rows against committed figures, so that no change makes a connection dearer without being seen, and what was promised of
//! one row beside another.
//!
//! Does not know about: how rows are measured.

mod figures;
mod promises;
mod verdict;

use std::path::{Path, PathBuf};

use figures::{Committed, Line, Taken};
use promises::PROMISES;

use crate::error::RigError;
use crate::image::servers::Entry;
use crate::image::{Contents, Kernel, OurPrograms, programs};
use crate::plan::{Load, Plan, Row};
use crate::report::{Conditions, Outcome};
use crate::session::Session;
use crate::tool;

/// What is held to committed figures: the server on new connections and on kept ones, and the other driver.
const ROWS: [&str; 3] = ["doorbell-uring/close/64", "doorbell-uring/keep/64", "doorbell-epoll/close/64"];
const KERNEL: Kernel = Kernel::V6_12;
const CPU: &str = "max";
/// Samples of each row.
const REPEAT: u32 = 3;

/// Where the figures are committed.
pub(crate) fn default_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gate.json")
}

/// Builds what [`run`] measures. The text for the user, and that nothing is dearer.
pub(crate) fn build(ours: &mut OurPrograms) -> Result<(String, bool), RigError> {
    let servers = servers(&rows(), ours)?;
    Ok((format!("built what {} servers run\n", servers.len()), true))
}

/// Measures and compares with `file`, or writes it. The text for the user, and whether the gate is passed.
pub(crate) fn run(ours: &mut OurPrograms, file: &Path, write: bool) -> Result<(String, bool), RigError> {
    let committed = if write { None } else { Some(figures::read(file)?) };
    let rows = rows();
    let plan = Plan { repeat: REPEAT, servers: servers(&rows, ours)?, rows, checks: Vec::new() };
    let session = Session { kernel: KERNEL, cpu: CPU.to_owned() };
    let (outcomes, conditions) = session.run(&plan, &Contents::of_catalogue(&plan, ours)?)?;
    let measured = taken(&outcomes, &conditions)?;
    let (promises, kept) = promises::judge(&PROMISES, &measured);
    let of_the_file = |line: &Line| ROWS.contains(&line.row.as_str());
    let measured =
        Committed { rows: measured.rows.into_iter().filter(of_the_file).collect(), taken: measured.taken };
    match committed {
        None => {
            figures::write(file, &measured)?;
            let list = verdict::list(&measured);
            Ok((format!("{list}\n{promises}\nwritten to {}\n", file.display()), kept))
        }
        Some(committed) => {
            let (text, passed) = verdict::judge(&committed, &measured);
            Ok((format!("{text}\n{promises}"), passed && kept))
        }
    }
}

/// Those of the file and those that promises are about, each once.
fn rows() -> Vec<Row> {
    let promised = PROMISES.iter().flat_map(|promise| [promise.row, promise.beside]);
    let mut rows: Vec<Row> = Vec::new();
    for row in ROWS.into_iter().chain(promised).map(row_of) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

fn row_of(id: &str) -> Row {
    let (server, load) = id.split_once('/').expect("a server and its load");
    let Load { mode, in_flight } = load.parse().expect("the load of a row");
    Row { server: server.to_owned(), mode, in_flight }
}

fn servers(rows: &[Row], ours: &mut OurPrograms) -> Result<Vec<crate::plan::Server>, RigError> {
    let mut servers: Vec<crate::plan::Server> = Vec::new();
    for row in rows {
        let entry = Entry::named(&row.server).expect("a row of the catalogue");
        programs::provide(entry, ours)?;
        let server = entry.server(&crate::image::program_path(entry)?.to_string_lossy());
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    Ok(servers)
}

/// A row that could not be measured, or with a failed request, is an error: there is nothing to compare.
fn taken(outcomes: &[Outcome], conditions: &Conditions) -> Result<Committed, RigError> {
    let mut rows = Vec::new();
    for outcome in outcomes {
        let figures = outcome.figures().filter(|_| outcome.is_clean());
        let figures = figures.ok_or_else(|| RigError::Guest {
            detail: format!(
                "did not serve {} without a failure: {}",
                outcome.row.id(),
                outcome.failure.as_deref().unwrap_or("a request failed")
            ),
        })?;
        rows.push(Line {
            row: outcome.row.id(),
            server: figures.server.round(),
            spread_percent: figures.server_spread_percent,
        });
    }
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

    #[test]
    fn every_row_is_of_the_catalogue_and_measured_once() {
        let rows = rows();
        for row in &rows {
            let entry = Entry::named(&row.server).unwrap_or_else(|| panic!("{}", row.server));
            assert!(entry.serves(row.mode), "{}", row.id());
            assert_eq!(rows.iter().filter(|other| *other == row).count(), 1);
        }
        for promise in &PROMISES {
            assert!([promise.row, promise.beside].iter().all(|id| rows.iter().any(|row| row.id() == **id)));
        }
    }
}
