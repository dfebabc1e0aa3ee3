//! Watches the configuration file and awaited certificates, and reloads on a change.
//!
//! Does not know about: how directories are watched, the steps of a reload.

use super::generations::{Generations, Reading};
use crate::config::model::ReloadOn;
use crate::operator::Operator;
use crate::reload::watch::{Scan, Stamps, Watched, directories_of};
use std::path::PathBuf;
use std::sync::Arc;

/// Watches the configuration file and the files of its secrets.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    generations: Arc<Generations>,
    operator: Operator,
    files: Vec<PathBuf>,
    stamps: Stamps,
}

/// The files of all certificates that listeners of the current generation wait for.
#[derive(Debug)]
pub(crate) struct AwaitedFiles(Arc<Generations>);

impl ConfigFile {
    /// Creates the watched file; `None` without a configuration file. A reload can turn watching on
    /// and off.
    pub(crate) fn watched(generations: &Arc<Generations>, operator: &Operator) -> Option<Self> {
        // The first scan detects changes since the start.
        let Reading { files, .. } = generations.read()?;
        let (generations, operator) = (Arc::clone(generations), operator.clone());
        Some(Self { generations, operator, files, stamps: Stamps::default() })
    }

    fn is_enabled(&self) -> bool {
        self.generations.with_config(|config| config.lifecycle.reloads_on(ReloadOn::File)).unwrap_or_default()
    }

    fn stamps(&self) -> Stamps {
        Stamps::of(self.files.iter().map(PathBuf::as_path))
    }
}

impl Watched for ConfigFile {
    fn name(&self) -> String {
        let file = self.files.first().map(|file| file.display().to_string());
        format!("configuration {}", file.unwrap_or_default())
    }

    fn directories(&self) -> Vec<PathBuf> {
        if !self.is_enabled() {
            return Vec::new();
        }
        self.files.iter().flat_map(|file| directories_of(file)).collect()
    }

    fn scan(&mut self) -> Scan {
        let stamps = self.stamps();
        if stamps == self.stamps || !self.is_enabled() {
            return Scan::Same;
        }
        self.stamps = stamps;
        let Some(Reading { config, files }) = self.generations.read() else { return Scan::Same };
        if self.files != files {
            self.files = files;
            // A change to one of these files since it was read is detected only when the file
            // changes again.
            self.stamps = self.stamps();
        }
        if !self.generations.is_outdated(config) {
            return Scan::Same;
        }
        // The reload logs its result.
        let _logged = self.operator.reload();
        Scan::Same
    }
}

impl AwaitedFiles {
    pub(crate) fn watched(generations: &Arc<Generations>) -> Self {
        Self(Arc::clone(generations))
    }
}

impl Watched for AwaitedFiles {
    fn name(&self) -> String {
        "listeners that wait for a certificate".to_owned()
    }

    fn directories(&self) -> Vec<PathBuf> {
        let awaited = self.0.awaited();
        awaited.map(|(awaited, config)| awaited.directories(&config)).unwrap_or_default()
    }

    fn scan(&mut self) -> Scan {
        match self.0.open_awaited() {
            None => Scan::Same,
            Some(Ok(what)) => Scan::Changed(what),
            Some(Err(why)) => Scan::Refused(why),
        }
    }
}
