//! What operators declared, kept in a file across restarts.
//!
//! Does not know about: what follows from it, when it changes.
//!
//! The file is written beside the old one, forced to the disk and renamed over it, so that a kill at any moment leaves one or the other.
//! One that cannot be used is set aside, and nothing was declared then. The lock of `NAME.lock` says which process keeps it; it ends with the
//! process, however that ends.

mod content;
#[cfg(test)]
mod tests;

pub(super) use content::{Moment, SavedHold, SavedState};

use content::Damage;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a file that is read. A full one, with every target in maintenance and every reason as long as it may be, is smaller.
const FILE_LEN_MAX: u64 = 4 << 20;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    /// `None` until the place can be written.
    lock: Option<File>,
    /// Why the last write failed; each cause is told once.
    failed: Option<String>,
}

/// Another process keeps its state there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InUse;

impl StateFile {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), lock: None, failed: None }
    }

    /// Takes the lock, and tries whether the place can be written: where it cannot, that is told, and tried again with each write.
    pub(super) fn claim(&mut self) -> Result<(), InUse> {
        match self.claim_lock() {
            Ok(true) => {}
            Ok(false) => return Err(InUse),
            Err(error) => {
                self.tell(Err(error.to_string()));
                return Ok(());
            }
        }
        let new = self.path.with_added_extension("new");
        let tried = if self.path.is_dir() { Err(Errno::ISDIR.into()) } else { write_new(&new, b"") };
        let _gone = fs::remove_file(&new);
        self.tell(tried.map_err(|error: io::Error| error.to_string()));
        Ok(())
    }

    /// Whether it is ours; where it cannot be known, why.
    fn claim_lock(&mut self) -> io::Result<bool> {
        if self.lock.is_some() {
            return Ok(true);
        }
        fs::create_dir_all(folder_of(&self.path))?;
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.path.with_added_extension("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Ok(()) => {}
            // A file system without locks.
            Err(error) => tracing::warn!(
                "{} cannot be locked, another instance would overwrite it: {error}",
                self.path.display()
            ),
        }
        self.lock = Some(file);
        Ok(true)
    }

    /// What was kept. What cannot be used is told and set aside.
    pub(super) fn load(&self) -> Option<SavedState> {
        let read = read(&self.path);
        let path = self.path.display();
        match read.map(|bytes| SavedState::decode(&bytes)) {
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
    pub(super) fn save(&mut self, kept: &SavedState) -> Result<(), String> {
        let outcome = match self.claim_lock() {
            Ok(true) => write(&self.path, &kept.encode()).map_err(|error| error.to_string()),
            Ok(false) => Err("another instance keeps its state there".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        self.tell(outcome.clone());
        outcome
    }

    fn tell(&mut self, outcome: Result<(), String>) {
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
        self.failed = outcome.err();
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_LEN_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_added_extension("new");
    let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // A part of it takes room on a disk that may be full.
        let _gone = fs::remove_file(&new);
    }
    written?;
    // Only then does the new name outlive a crash of the machine.
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

fn write_new(new: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(new)?;
    file.write_all(bytes)?;
    file.sync_all()
}
