//! What operators declared, kept in a file across restarts.
//!
//! Does not know about: what follows from it, when it changes.
//!
//! The file is written beside the old one, forced to the disk and renamed over it, so that a kill at any moment leaves one or the other.
//! One that cannot be used is set aside, and nothing was declared then.

mod kept;
#[cfg(test)]
mod tests;

pub(super) use kept::{Kept, KeptHold, Moment};

use kept::Damage;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a file that is read. A full one, with every target in maintenance and every reason as long as it may be, is smaller.
const FILE_LEN_MAX: u64 = 4 << 20;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    /// Why the last write failed; each cause is told once.
    failed: Option<String>,
}

impl Store {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), failed: None }
    }

    /// What was kept. What cannot be used is told and set aside.
    pub(super) fn load(&self) -> Option<Kept> {
        let read = read(&self.path);
        let path = self.path.display();
        match read.map(|bytes| Kept::decode(&bytes)) {
            Ok(Ok(kept)) => Some(kept),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::error!("{path} cannot be read, no maintenance is known from before: {error}");
                None
            }
            Ok(Err(damage)) => {
                self.set_aside(&damage);
                None
            }
        }
    }

    /// Somebody may want to look at it.
    fn set_aside(&self, damage: &Damage) {
        let (path, aside) = (self.path.display(), self.path.with_added_extension(damage.suffix()));
        match fs::rename(&self.path, &aside) {
            Ok(()) => tracing::warn!(
                "{path}: {damage}; it is set aside as {}, and no maintenance is known from before",
                aside.display()
            ),
            Err(error) => tracing::error!(
                "{path}: {damage}, and it cannot be set aside: {error}; no maintenance is known from before"
            ),
        }
    }

    /// Keeps this, and nothing else any more; why not, where it cannot be kept.
    pub(super) fn save(&mut self, kept: &Kept) -> Result<(), String> {
        let outcome = write(&self.path, &kept.encode()).map_err(|error| error.to_string());
        let path = self.path.display();
        match (&outcome, &self.failed) {
            (Err(why), told) if told.as_ref() != Some(why) => {
                tracing::error!(
                    "{path} cannot be written, what operators declare is lost at a restart: {why}"
                );
            }
            (Ok(()), Some(_)) => tracing::info!("{path} can be written again"),
            _ => {}
        }
        self.failed = outcome.clone().err();
        outcome
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_LEN_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder)?;
    let new = path.with_added_extension("new");
    let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // A part of it takes room on a disk that may be full.
        let _gone = fs::remove_file(&new);
    }
    written?;
    // Only then does the new name outlive a crash of the machine.
    File::open(folder)?.sync_all()
}

fn write_new(new: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(new)?;
    file.write_all(bytes)?;
    file.sync_all()
}
