//! Redirects from a link map: a file with a path and its new location in each line. The file is
//! read again when it changes; the previous redirects are used until the file has been read.
//!
//! Does not know about: routes, the format of the file (see `doorbell-http`).

use crate::build::compute::ScanRunner;
use crate::reload::watch::{Scan, Stamps, Watched, directories_of};
use arc_swap::{ArcSwap, Guard};
use doorbell::http::linkmap::{LinkMap, MAP_BYTES_MAX};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of reported errors of a file; further errors are only counted.
const MISTAKES_SHOWN_MAX: usize = 5;

/// The redirects of a link map. Clones share the redirects.
#[derive(Clone, Debug)]
pub(crate) struct Links(Arc<ArcSwap<LinkMap>>);

/// Reads the file of a link map.
#[derive(Debug)]
pub(crate) struct LinksReader {
    links: Arc<ArcSwap<LinkMap>>,
    path: PathBuf,
    stamps: Stamps,
    /// Stamps of a read in progress.
    pending_stamps: Option<Stamps>,
    scan_runner: ScanRunner,
}

impl Links {
    /// Reads the current redirects.
    pub(crate) fn open(path: PathBuf, scan_runner: ScanRunner) -> Result<(Self, LinksReader), String> {
        let stamps = Stamps::of([path.as_path()]);
        let links = Arc::new(ArcSwap::from_pointee(read(&path)?));
        Ok((Self(Arc::clone(&links)), LinksReader { links, path, stamps, pending_stamps: None, scan_runner }))
    }

    /// The current redirects.
    pub(crate) fn load(&self) -> Guard<Arc<LinkMap>> {
        self.0.load()
    }
}

impl Watched for LinksReader {
    fn name(&self) -> String {
        format!("links of {}", self.path.display())
    }

    fn directories(&self) -> Vec<PathBuf> {
        directories_of(&self.path)
    }

    fn scan(&mut self) -> Scan {
        let stamps = self.pending_stamps.take().unwrap_or_else(|| Stamps::of([self.path.as_path()]));
        if stamps == self.stamps {
            return Scan::Same;
        }
        let (links, path) = (Arc::clone(&self.links), self.path.clone());
        let scan = self.scan_runner.scan(move || match read(&path) {
            Ok(read) => {
                let what = format!("{} links", read.len());
                links.store(Arc::new(read));
                Scan::Changed(what)
            }
            Err(why) => Scan::Refused(why),
        });
        // A change during the read results in different stamps, so the next scan detects it.
        match scan {
            Scan::Later => self.pending_stamps = Some(stamps),
            Scan::Changed(_) | Scan::Refused(_) | Scan::Same => self.stamps = stamps,
        }
        scan
    }
}

fn read(path: &Path) -> Result<LinkMap, String> {
    let named = |error| format!("{}: {error}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(named)?;
    file.take(MAP_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(named)?;
    LinkMap::parse(&text).map_err(|mistakes| {
        let shown = mistakes.iter().take(MISTAKES_SHOWN_MAX).map(ToString::to_string);
        let mut text = format!("{}: {}", path.display(), shown.collect::<Vec<_>>().join("; "));
        if let Some(more) = mistakes.len().checked_sub(MISTAKES_SHOWN_MAX).filter(|more| *more > 0) {
            text.push_str(&format!("; and {more} more"));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_links_are_taken_and_mistakes_are_not() {
        let dir = std::env::temp_dir().join(format!("doorbell-maps-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("links.map");
        std::fs::write(&path, "/a https://a.example/\n").unwrap();
        let (links, mut reader) = Links::open(path.clone(), ScanRunner::new(None)).unwrap();
        let location = |from: &str| {
            links.load().find(from.as_bytes()).map(|link| String::from_utf8_lossy(link.location).into_owned())
        };
        assert_eq!(location("/a").as_deref(), Some("https://a.example/"));
        assert_eq!(reader.scan(), Scan::Same);
        std::fs::write(&path, "/a https://a.example/\n/b https://b.example/ 301\n").unwrap();
        assert_eq!(reader.scan(), Scan::Changed("2 links".to_owned()));
        assert_eq!(location("/b").as_deref(), Some("https://b.example/"));
        std::fs::write(&path, "/a nowhere at all\n").unwrap();
        assert!(matches!(reader.scan(), Scan::Refused(why) if why.contains("links.map: line 1: ")));
        assert_eq!(location("/b").as_deref(), Some("https://b.example/"), "the old ones stay");
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(matches!(reader.scan(), Scan::Refused(_)), "a removed file changes nothing");
        assert_eq!(location("/b").as_deref(), Some("https://b.example/"));
    }
}
