//! Stores drains, maintenance and ended windows in a file across restarts.
//!
//! A new file is written next to the old one, synced, and renamed over the old one, so that one of
//! them is intact if the process is killed at any moment. A file that cannot be decoded is set
//! aside. The process that holds the lock on `NAME.lock` owns the file; the kernel releases the
//! lock when the process ends. All of them are next to the target of a symbolic link.

mod content;
#[cfg(test)]
mod tests;

pub(super) use content::{Moment, SavedHold, SavedState, SavedWindow};

use content::DecodeError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum size of a file. The largest possible state is smaller.
const FILE_LEN_MAX: u64 = 4 << 20;

/// Interval and maximum number of further attempts to acquire the lock at the start: a predecessor
/// may be about to exit.
const CLAIM_EVERY: Duration = Duration::from_millis(10);
const CLAIMS_MAX: u32 = 100;

/// Maximum number of symbolic links that are followed, as in the kernel.
const LINKS_MAX: usize = 40;

/// The state file and its lock.
#[derive(Debug)]
pub(super) struct StateFile {
    /// The file, not a symbolic link, because the rename of a new file would replace the link.
    path: PathBuf,
    /// `None` until the lock is acquired.
    lock: Option<File>,
    /// Cause, if the last write failed; the same cause is not logged twice in a row.
    failed: Option<String>,
}

/// Another process holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InUse;

impl StateFile {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: target_of(path), lock: None, failed: None }
    }

    /// Acquires the lock as [`Self::claim`] does, and waits up to a second for a predecessor to
    /// exit.
    #[expect(clippy::disallowed_methods, reason = "the start of the program waits in real time")]
    pub(super) fn claim_after_predecessor(&mut self) -> Result<(), InUse> {
        for _ in 0..CLAIMS_MAX {
            match self.claim() {
                Ok(()) => return Ok(()),
                Err(InUse) => std::thread::sleep(CLAIM_EVERY),
            }
        }
        self.claim()
    }

    /// Acquires the lock, and logs an error if the state file cannot be written. If the lock file
    /// cannot be created, each write tries again.
    pub(super) fn claim(&mut self) -> Result<(), InUse> {
        match self.claim_lock() {
            Ok(true) => {}
            Ok(false) => return Err(InUse),
            Err(error) => {
                self.log_outcome(Err(error.to_string()));
                return Ok(());
            }
        }
        let new = self.path.with_added_extension("new");
        let tried = if self.path.is_dir() { Err(Errno::ISDIR.into()) } else { write_new(&new, b"") };
        let _gone = fs::remove_file(&new);
        self.log_outcome(tried.map_err(|error: io::Error| error.to_string()));
        Ok(())
    }

    /// Acquires the lock, unless this process already has it; false if another process has it.
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
            // The file system does not support locks.
            Err(error) => tracing::warn!(
                "cannot lock {}: {error}; another instance could overwrite it",
                self.path.display()
            ),
        }
        self.lock = Some(file);
        Ok(true)
    }

    /// The saved state. A file that cannot be decoded is logged and set aside.
    pub(super) fn load(&self) -> Option<SavedState> {
        let read = read(&self.path);
        let path = self.path.display();
        match read.map(|bytes| SavedState::decode(&bytes)) {
            Ok(Ok(saved)) => Some(saved),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::error!("cannot read {path}: {error}; drains and maintenance are not restored");
                None
            }
            Ok(Err(decode_error)) => {
                self.set_aside(&decode_error);
                None
            }
        }
    }

    /// Renames a file that cannot be decoded, so that it can be examined.
    fn set_aside(&self, decode_error: &DecodeError) {
        let (path, aside) = (self.path.display(), self.path.with_added_extension(decode_error.suffix()));
        match fs::rename(&self.path, &aside) {
            Ok(()) => tracing::warn!(
                "{path}: {decode_error}; set aside as {}, drains and maintenance are not restored",
                aside.display()
            ),
            Err(error) => tracing::error!(
                "{path}: {decode_error}, and cannot be set aside: {error}; drains and maintenance are not restored"
            ),
        }
    }

    /// Replaces the saved state; returns the cause of a failure.
    pub(super) fn save(&mut self, saved: &SavedState) -> Result<(), String> {
        let outcome = match self.claim_lock() {
            Ok(true) => write(&self.path, &saved.encode()).map_err(|error| error.to_string()),
            Ok(false) => Err("the state file is in use by another instance".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        self.log_outcome(outcome.clone());
        outcome
    }

    fn log_outcome(&mut self, outcome: Result<(), String>) {
        let path = self.path.display();
        match (&outcome, &self.failed) {
            (Err(why), reported) if reported.as_ref() != Some(why) => {
                tracing::error!(
                    "cannot write {path}: {why}; a restart would restore the state before the last change"
                );
            }
            (Ok(()), Some(_)) => tracing::info!("writing {path} succeeded again"),
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
        // A partial file would take space on a disk that may be full.
        let _gone = fs::remove_file(&new);
    }
    written?;
    // Syncs the rename, so that it survives a crash of the machine.
    File::open(folder_of(path))?.sync_all()
}

/// Follows a path that is a symbolic link; its target need not exist.
fn target_of(path: &Path) -> PathBuf {
    let next = |path: &PathBuf| Some(folder_of(path).join(fs::read_link(path).ok()?));
    let paths = std::iter::successors(Some(path.to_owned()), next);
    paths.take(LINKS_MAX + 1).last().unwrap_or_else(|| path.to_owned())
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
