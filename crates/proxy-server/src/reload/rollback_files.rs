//! Files created for a generation, which are removed if it is not put in use.

use doorbell::http::log::Level;
use doorbell_proxy_config::model::{AccessFile, Config};
use std::path::PathBuf;

/// Files to remove if a generation is not put in use.
#[derive(Debug)]
pub(super) struct RollbackFiles(Option<PathBuf>);

impl RollbackFiles {
    /// Collects the files that the generation will create. Must be called before they are created.
    pub(super) fn of(config: &Config) -> Self {
        let log = &config.log;
        Self(match &log.access_file {
            AccessFile::Path(path) if log.access != Level::Off && !path.exists() => Some(path.clone()),
            AccessFile::Path(_) | AccessFile::Stdout => None,
        })
    }

    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for RollbackFiles {
    fn drop(&mut self) {
        // A file that another process has written to is kept.
        let empty = self.0.take().filter(|path| path.metadata().is_ok_and(|meta| meta.len() == 0));
        if let Some(path) = empty {
            let _gone = std::fs::remove_file(path);
        }
    }
}
