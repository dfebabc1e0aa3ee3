//! Why the rig stopped.
//!
//! Does not know about: how it is shown.

use std::path::{Path, PathBuf};

/// Everything that ends a run early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RigError {
    /// The agent inside the guest cannot go on.
    #[error("{detail}")]
    Agent {
        /// Why.
        detail: String,
    },
    /// A program this needs came back with a failure.
    #[error("`{command}` failed: {detail}")]
    Command {
        /// What was run.
        command: String,
        /// The end of what it wrote.
        detail: String,
    },
    /// A file of figures is not one.
    #[error("{path}: {detail}; `doorbell-rig gate --write` makes a new one")]
    Figures {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The machine inside QEMU did not do what it should.
    #[error("the guest {detail}")]
    Guest {
        /// A predicate: "stopped without a word", with the end of its console.
        detail: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A program is not installed.
    #[error("`{program}` is not installed: it is in the Debian package {package}")]
    Missing {
        /// The program.
        program: String,
        /// Its package.
        package: String,
    },
    /// `--only` left nothing.
    #[error("no row matches {patterns:?}; `doorbell-rig list` names them all")]
    NoRow {
        /// What was asked for.
        patterns: Vec<String>,
    },
    /// A load that is not for this machine.
    #[error("{load} is not measured on this machine: close and keep are")]
    NotNative {
        /// What was asked for.
        load: String,
    },
    /// A package did not hold what it should.
    #[error("package {package}: {detail}")]
    Package {
        /// The package.
        package: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A suite of Debian cannot be had from this machine's mirror.
    #[error("the suite {suite} cannot be had from the mirror of this machine: {detail}")]
    Suite {
        /// Its name.
        suite: String,
        /// What apt said.
        detail: String,
    },
}

impl RigError {
    /// Turns an [`std::io::Error`] about `path` into one of ours; for `map_err`.
    pub(crate) fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        |source| Self::Io { path, source }
    }
}
