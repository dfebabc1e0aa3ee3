//! The committed figures as a file.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::RigError;
use crate::report::json;

/// The contents of the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Committed {
    /// The conditions of the measurement.
    pub(super) taken: Taken,
    /// The rows of the gate.
    pub(super) rows: Vec<Line>,
}

/// Conditions besides the code that affect the figures.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Taken {
    /// Name and version of the kernel's package.
    pub(super) kernel_package: String,
    /// Version of the compiler.
    pub(super) rustc: String,
    /// QEMU and its version.
    pub(super) qemu: String,
    /// Name of the CPU model in QEMU.
    pub(super) cpu: String,
    /// Samples of each row.
    pub(super) repeat: u32,
}

/// One row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    /// `server/mode/in flight`.
    pub(super) row: String,
    /// Instructions of the server per request, median of the samples.
    pub(super) server: f64,
    /// Maximum minus minimum of the samples, in per cent of the median.
    pub(super) spread_percent: f64,
}

pub(super) fn read(file: &Path) -> Result<Committed, RigError> {
    let text = fs::read(file).map_err(RigError::io(file))?;
    let invalid = |error| format!("{error}; `doorbell-rig gate --write` creates a new file");
    serde_json::from_slice(&text)
        .map_err(|error| RigError::Figures { path: file.to_owned(), detail: invalid(error) })
}

pub(super) fn write(file: &Path, committed: &Committed) -> Result<(), RigError> {
    fs::write(file, json(committed)).map_err(RigError::io(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_wrong_file_is_named() {
        let file = std::env::temp_dir().join(format!("doorbell-rig-gate-{}.json", std::process::id()));
        let line = Line { row: "a/close/64".into(), server: 18_900.0, spread_percent: 0.12 };
        let committed = Committed { taken: Taken { repeat: 3, ..Taken::default() }, rows: vec![line] };
        write(&file, &committed).unwrap();
        let back = read(&file).unwrap();
        fs::write(&file, "{\"rows\": []}").unwrap();
        let error = read(&file).unwrap_err().to_string();
        fs::remove_file(&file).unwrap();
        assert_eq!(back.taken, committed.taken);
        assert_eq!((back.rows[0].server, back.rows[0].spread_percent), (18_900.0, 0.12));
        assert!(error.contains("doorbell-rig-gate") && error.contains("taken"), "{error}");
        assert!(read(&file).unwrap_err().to_string().contains("doorbell-rig-gate"));
    }
}
