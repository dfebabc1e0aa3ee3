//! Errors of the rig.

use std::path::{Path, PathBuf};

/// An error that ends a command early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RigError {
    /// An external program failed; `detail` is the end of its output.
    #[error("`{command}` failed: {detail}")]
    Command { command: String, detail: String },
    /// A file of figures is invalid.
    #[error("{path}: {detail}")]
    Figures { path: PathBuf, detail: String },
    /// The guest failed. `detail` completes the message "the guest ..".
    #[error("the guest {detail}")]
    Guest { detail: String },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    /// A program is not installed.
    #[error("`{program}` is not installed; it is in the Debian package {package}")]
    Missing { program: String, package: String },
    /// `--only` matches no row.
    #[error("no row matches {patterns:?}; `doorbell-rig list` prints all names")]
    NoRow { patterns: Vec<String> },
    /// The load is not supported on this machine.
    #[error("{load} cannot be measured on this machine; only close and keep can")]
    NotNative { load: String },
    /// A package lacks an expected file.
    #[error("package {package}: {detail}")]
    Package { package: String, detail: String },
    /// A suite of Debian is not available from this machine's mirror. `detail` is the cause.
    #[error("the mirror of this machine does not have the suite {suite}: {detail}")]
    Suite { suite: String, detail: String },
}

impl RigError {
    pub(crate) fn command(command: impl Into<String>, detail: impl ToString) -> Self {
        Self::Command { command: command.into(), detail: detail.to_string() }
    }

    pub(crate) fn package(package: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Package { package: package.into(), detail: detail.into() }
    }

    /// Returns a closure for `map_err` that adds `path` to an [`std::io::Error`].
    pub(crate) fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        |source| Self::Io { path, source }
    }
}
