//! Files that were made for a generation: they go again where it does not come to serve.
//!
//! Does not know about: what is in them.

use crate::config::model::{Access, AccessFile, Config};
use std::path::PathBuf;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct RollbackFiles(Option<PathBuf>);

impl RollbackFiles {
    /// What there will be that is not there yet. To be asked before it is made.
    pub(super) fn of(config: &Config) -> Self {
        let log = &config.log;
        Self(match &log.access_file {
            AccessFile::Path(path) if log.access != Access::Off && !path.exists() => Some(path.clone()),
            AccessFile::Path(_) | AccessFile::Stdout => None,
        })
    }

    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for RollbackFiles {
    fn drop(&mut self) {
        // Somebody else may have written there meanwhile: that file stays.
        let empty = self.0.take().filter(|path| path.metadata().is_ok_and(|meta| meta.len() == 0));
        if let Some(path) = empty {
            let _gone = std::fs::remove_file(path);
        }
    }
}
