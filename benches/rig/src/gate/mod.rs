//! The gate: a few rows against committed figures, so that no change makes a connection dearer without being seen.
//!
//! Does not know about: how rows are measured.

mod figures;
mod verdict;

use std::path::{Path, PathBuf};

use figures::{Committed, Line, Taken};

use crate::error::RigError;
use crate::image::servers::Entry;
use crate::image::{Contents, Kernel, OurPrograms};
use crate::plan::{Mode, Plan, Row};
use crate::report::{Conditions, Outcome};
use crate::session::Session;
use crate::tool;

/// What is measured: the server on new connections and on kept ones, and the other driver.
const ROWS: [(&str, Mode); 3] =
    [("doorbell-uring", Mode::Close), ("doorbell-uring", Mode::Keep), ("doorbell-epoll", Mode::Close)];
const IN_FLIGHT: u32 = 64;
const KERNEL: Kernel = Kernel::V6_12;
const CPU: &str = "max";
/// Samples of each row.
const REPEAT: u32 = 3;

/// Where the figures are committed.
pub(crate) fn default_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("gate.json")
}

/// Measures and compares with `file`, or writes it. The text for the user, and whether the gate is passed.
pub(crate) fn run(ours: &OurPrograms, file: &Path, write: bool) -> Result<(String, bool), RigError> {
    let committed = if write { None } else { Some(figures::read(file)?) };
    let rows: Vec<Row> = ROWS
        .iter()
        .map(|&(server, mode)| Row { server: server.to_owned(), mode, in_flight: IN_FLIGHT })
        .collect();
    let plan = Plan { repeat: REPEAT, servers: servers(&rows)?, rows, checks: Vec::new() };
    let session = Session { kernel: KERNEL, cpu: CPU.to_owned() };
    let (outcomes, conditions) = session.run(&plan, &Contents::of_catalogue(&plan, ours)?)?;
    let measured = taken(&outcomes, &conditions)?;
    match committed {
        None => {
            figures::write(file, &measured)?;
            Ok((format!("{}\nwritten to {}\n", verdict::list(&measured), file.display()), true))
        }
        Some(committed) => Ok(verdict::judge(&committed, &measured)),
    }
}

fn servers(rows: &[Row]) -> Result<Vec<crate::plan::Server>, RigError> {
    let mut servers: Vec<crate::plan::Server> = Vec::new();
    for row in rows.iter().filter(|row| Entry::named(&row.server).is_some()) {
        let entry = Entry::named(&row.server).expect("filtered");
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
