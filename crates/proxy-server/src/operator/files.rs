//! Maintenance by files: a file in `[maintenance] file_dir` puts the target with the name of the
//! file into maintenance. Files that existed before doorbell started also count.

use super::Operator;
use crate::reload::watch::{Scan, Watched};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Maximum number of files that are read although their name is not that of a target. Such files
/// are only logged; they may name targets of a later configuration.
const UNKNOWN_MAX: usize = 1024;

/// Maximum number of bytes of a file that are read as the reason.
const REASON_READ_MAX: u64 = 1024;

/// Watches `[maintenance] file_dir`.
#[derive(Debug)]
pub(crate) struct MaintenanceFiles {
    directory: PathBuf,
    operator: Operator,
    known: BTreeMap<String, String>,
    /// File names without a target; each is logged once.
    unknown: BTreeSet<String>,
    /// True while there are more files without a target than are read.
    has_more: bool,
}

/// The files of a directory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Declared {
    /// The reasons by file name.
    reasons: BTreeMap<String, String>,
    /// Number of files without a target that were not read.
    skipped: usize,
}

impl MaintenanceFiles {
    /// Reads the directory immediately, so that existing files apply from the first probe on.
    pub(crate) fn new(directory: &Path, operator: &Operator) -> Self {
        let mut files = Self {
            directory: directory.to_owned(),
            operator: operator.clone(),
            known: BTreeMap::new(),
            unknown: BTreeSet::new(),
            has_more: false,
        };
        if let Scan::Refused(why) = files.scan() {
            tracing::error!("{}: {why}", files.name());
        }
        files
    }

    /// Reads all files with a target, and the first [`UNKNOWN_MAX`] others in the order of their
    /// names. Returns no files if the directory does not exist.
    fn read(&self, is_target: impl Fn(&str) -> bool) -> Result<Declared, String> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Declared::default()),
            Err(error) => return Err(error.to_string()),
        };
        let (mut names, mut unknown, mut skipped) = (Vec::new(), BTreeSet::new(), 0);
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // Editors and Kubernetes mounts use names that begin with a dot.
            if name.starts_with('.') {
                continue;
            }
            if is_target(&name) {
                names.push(name);
            } else if unknown.insert(name) && unknown.len() > UNKNOWN_MAX {
                unknown.pop_last();
                skipped += 1;
            }
        }
        let mut reasons = BTreeMap::new();
        for name in names.into_iter().chain(unknown) {
            let path = self.directory.join(&name);
            match fs::metadata(&path) {
                Ok(meta) if meta.is_file() => drop(reasons.insert(name, first_line(&path))),
                Ok(_) => {}
                // Removed meanwhile, or a symbolic link to a missing file.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                // The file may still be there: an error must not end its maintenance.
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
        Ok(Declared { reasons, skipped })
    }
}

/// Returns the first line of a file; empty if the file cannot be read, because its existence is
/// enough.
fn first_line(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(REASON_READ_MAX).read_to_end(&mut bytes));
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    read.map(|_| String::from_utf8_lossy(line).trim().to_owned()).unwrap_or_default()
}

impl Watched for MaintenanceFiles {
    fn name(&self) -> String {
        format!("maintenance files in {}", self.directory.display())
    }

    fn directories(&self) -> Vec<PathBuf> {
        vec![self.directory.clone()]
    }

    fn scan(&mut self) -> Scan {
        let Declared { reasons, skipped } = match self.read(|name| self.operator.is_target(name)) {
            Ok(declared) => declared,
            Err(why) => return Scan::Refused(why),
        };
        if skipped > 0 && !self.has_more {
            tracing::warn!(
                "{}: {skipped} files are ignored: besides those of endpoints and checks, only {UNKNOWN_MAX} are read",
                self.name()
            );
        }
        self.has_more = skipped > 0;
        // Called even if no file changed, because a reload may have added or removed targets.
        let unknown = self.operator.set_file_maintenance(&reasons);
        for name in unknown.difference(&self.unknown) {
            tracing::warn!("{}: unknown endpoint or check {name:?}", self.name());
        }
        self.unknown = unknown;
        if reasons == self.known {
            return Scan::Same;
        }
        self.known = reasons;
        let names: Vec<&str> = self.known.keys().map(String::as_str).collect();
        Scan::Changed(if names.is_empty() { "no files".into() } else { names.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::supervisor::Supervisor;

    /// A directory with many other files: every declaration counts.
    #[test]
    fn other_files_do_not_hide_declarations() {
        let directory = std::env::temp_dir().join(format!("doorbell-many-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let targets = || (0..40).map(|number| format!("target-{number:02}"));
        for (at, target) in targets().enumerate() {
            for number in 0..30 {
                fs::write(directory.join(format!("other-{at:02}-{number:02}")), "").unwrap();
                fs::write(directory.join(format!(".dot-{at:02}-{number:02}")), "").unwrap();
            }
            fs::write(directory.join(target), "disks").unwrap();
        }
        let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
        let files = MaintenanceFiles::new(&directory, &operator);
        let Declared { reasons, skipped } = files.read(|name| name.starts_with("target-")).unwrap();
        assert!(targets().all(|target| reasons.get(&target).is_some_and(|reason| reason == "disks")));
        assert_eq!((reasons.len(), skipped), (40 + UNKNOWN_MAX, 1200 - UNKNOWN_MAX));
        assert!(files.has_more, "it was logged");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn an_error_keeps_the_maintenance() {
        let directory =
            std::env::temp_dir().join(format!("doorbell-maintenance-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("readyz"), "disks\nmore").unwrap();
        let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
        let mut files = MaintenanceFiles::new(&directory, &operator);
        assert_eq!(files.known, BTreeMap::from([("readyz".to_owned(), "disks".to_owned())]));
        let link = directory.join("second");
        std::os::unix::fs::symlink(&link, &link).unwrap();
        assert!(matches!(files.scan(), Scan::Refused(why) if why.starts_with("second: ")));
        assert_eq!(files.known.len(), 1);
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(directory.join("missing"), &link).unwrap();
        assert!(matches!(files.scan(), Scan::Same), "a link to a missing file is ignored");
        fs::remove_dir_all(&directory).unwrap();
    }
}
