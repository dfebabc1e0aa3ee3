//! Watches the configuration file and certificates, and starts a new generation on a change.

use super::generations::{Generations, Reading};
use crate::operator::Operator;
use crate::reload::watch::{Scan, Stamps, Watched, directories_of};
use doorbell_proxy_config::model::{Config, ReloadOn};
use std::path::PathBuf;
use std::sync::Arc;

/// Watches the configuration file and the files of its secrets.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    generations: Arc<Generations>,
    operator: Operator,
    last: LastReading,
}

/// The files of the last reading.
#[derive(Debug)]
struct LastReading {
    files: Vec<PathBuf>,
    /// Taken before the last reading, of the files that the reading before it named.
    stamps: Stamps,
}

/// The files whose change starts a new generation of the same configuration: certificates that
/// listeners wait for, and those that components have read only once.
#[derive(Debug)]
pub(crate) struct GenerationFiles {
    generations: Arc<Generations>,
    /// The stamps at the last scan.
    examined: Stamps,
}

impl ConfigFile {
    /// Creates the watched file; `None` without a configuration file. A reload can turn watching on
    /// and off.
    pub(crate) fn watched(generations: &Arc<Generations>, operator: &Operator) -> Option<Self> {
        // The stamps are empty, so the first scan reads again and detects changes since the start.
        let Reading { files, .. } = generations.read()?;
        let (generations, operator) = (Arc::clone(generations), operator.clone());
        Some(Self { generations, operator, last: LastReading { files, stamps: Stamps::default() } })
    }

    fn is_enabled(&self) -> bool {
        self.generations.with_config(|config| config.lifecycle.reloads_on(ReloadOn::File)).unwrap_or_default()
    }
}

impl LastReading {
    /// Reads the configuration if a file has changed. After a change of the list of files, the next
    /// call reads them again: the stamps differ, and the new files may have changed since this
    /// reading.
    fn read_changed(&mut self, read: impl FnOnce() -> Option<Reading>) -> Option<Result<Config, String>> {
        let stamps = Stamps::of(self.files.iter().map(PathBuf::as_path));
        if stamps == self.stamps {
            return None;
        }
        self.stamps = stamps;
        let Reading { config, files } = read()?;
        self.files = files;
        Some(config)
    }
}

impl Watched for ConfigFile {
    fn name(&self) -> String {
        let file = self.last.files.first().map(|file| file.display().to_string());
        format!("configuration {}", file.unwrap_or_default())
    }

    fn directories(&self) -> Vec<PathBuf> {
        if !self.is_enabled() {
            return Vec::new();
        }
        self.last.files.iter().flat_map(|file| directories_of(file)).collect()
    }

    fn scan(&mut self) -> Scan {
        if !self.is_enabled() {
            return Scan::Same;
        }
        let config = self.last.read_changed(|| self.generations.read());
        if config.is_some_and(|config| self.generations.is_outdated(config)) {
            // The reload logs its result.
            let _logged = self.operator.reload();
        }
        Scan::Same
    }
}

impl GenerationFiles {
    pub(crate) fn watched(generations: &Arc<Generations>) -> Self {
        Self { generations: Arc::clone(generations), examined: Stamps::default() }
    }
}

impl Watched for GenerationFiles {
    fn name(&self) -> String {
        "certificates of checks, stores and waiting listeners".to_owned()
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.generations.directories()
    }

    fn scan(&mut self) -> Scan {
        match self.generations.follow_files(&mut self.examined) {
            None => Scan::Same,
            Some(Ok(what)) => Scan::Changed(what),
            Some(Err(why)) => Scan::Refused(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_that_changes_after_it_was_read_is_read_again() {
        let file = |name: &str| std::env::temp_dir().join(format!("doorbell-{name}-{}", std::process::id()));
        let files = ["reading", "secret"].map(file);
        files.iter().for_each(|file| std::fs::write(file, "old").unwrap());
        let reading = || Some(Reading { config: Err(String::new()), files: files.to_vec() });
        let mut last = LastReading { files: files[..1].to_vec(), stamps: Stamps::default() };
        let first = last.read_changed(|| {
            let reading = reading();
            std::fs::write(&files[1], "newer").unwrap();
            reading
        });
        assert!(first.is_some() && last.read_changed(reading).is_some());
        assert!(last.read_changed(reading).is_none());
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}
