//! Errors of the rig.
//!
//! Does not know about: their presentation.

use std::path::{Path, PathBuf};

/// An error that ends a run early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RigError {
    /// An external program failed; `detail` is the end of its output.
    #[error("`{command}` failed: {detail}")]
    Command { command: String, detail: String },
    /// A file of figures is invalid.
    #[error("{path}: {detail}; `doorbell-rig gate --write` makes a new one")]
    Figures { path: PathBuf, detail: String },
    /// The machine inside QEMU failed; `detail` is a predicate, with the end of its console.
    #[error("the guest {detail}")]
    Guest { detail: String },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    /// A program is not installed.
    #[error("`{program}` is not installed: it is in the Debian package {package}")]
    Missing { program: String, package: String },
    /// `--only` matches no row.
    #[error("no row matches {patterns:?}; `doorbell-rig list` names them all")]
    NoRow { patterns: Vec<String> },
    /// A load that is not supported on this machine.
    #[error("{load} is not measured on this machine: close and keep are")]
    NotNative { load: String },
    /// A package lacks an expected file.
    #[error("package {package}: {detail}")]
    Package { package: String, detail: String },
    /// A suite of Debian is not available from this machine's mirror; `detail` is from apt.
    #[error("the suite {suite} cannot be had from the mirror of this machine: {detail}")]
    Suite { suite: String, detail: String },
}

impl RigError {
    /// Converts an [`std::io::Error`] about `path`; for `map_err`.
    pub(crate) fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        |source| Self::Io { path, source }
    }
}
