//! Serves small files of a directory from memory. Jobs of the compute lane read changed files.
//!
//! Designed for `/.well-known/acme-challenge/` (RFC 8555 8.3): few files, which exist for minutes
//! and are requested immediately after their creation. If a file is not in memory, a job looks it
//! up before the reply is 404.

use crate::build::compute::ScanRunner;
use crate::reload::watch::{Scan, Stamp, Watched};
use arc_swap::ArcSwap;
use doorbell::http::{StaticReply, Status};
use doorbell_proxy_config::model::Files;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of files of a directory, so that a directory configured by mistake does not fill
/// the memory.
const FILES_MAX: usize = 10_000;

/// Maximum total size of the files of a directory.
const BYTES_MAX: u64 = 64 << 20;

type Table = HashMap<Box<[u8]>, Stored>;

/// Maximum length of a file name (`NAME_MAX`, limits.h).
const NAME_LEN_MAX: usize = 255;

/// The prepared replies for the files of a directory. Clones share the replies.
#[derive(Clone, Debug)]
pub(crate) struct Directory(Arc<Content>);

#[derive(Debug)]
struct Content {
    table: ArcSwap<Table>,
    files: Files,
    headers: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
struct Stored {
    stamp: Stamp,
    reply: StaticReply,
}

/// Reads the files of a directory.
#[derive(Debug)]
pub(crate) struct DirectoryReader {
    content: Arc<Content>,
    scan_runner: ScanRunner,
}

impl Directory {
    /// Reads the current files. A directory that does not exist yet counts as empty.
    pub(crate) fn open(
        files: Files,
        headers: Vec<(String, String)>,
        scan_runner: ScanRunner,
    ) -> (Self, DirectoryReader) {
        let content = Arc::new(Content { table: ArcSwap::from_pointee(Table::new()), files, headers });
        let mut reader = DirectoryReader { content: Arc::clone(&content), scan_runner };
        if let Scan::Refused(why) = reader.scan() {
            tracing::warn!("{}: {why}", reader.name());
        }
        (Self(content), reader)
    }

    /// Passes the reply for the file of this name to `found`.
    pub(crate) fn with<T>(&self, name: &[u8], found: impl FnOnce(Option<&StaticReply>) -> T) -> T {
        found(self.0.table.load().get(name).map(|stored| &stored.reply))
    }

    /// Reads the file of this name, which may be newer than the last scan.
    pub(crate) fn fetch(&self, name: &[u8]) -> Option<StaticReply> {
        let dir = self.0.dir().ok()?;
        self.0.stat_file(&dir, name)?;
        self.0.reply(&dir, name)
    }

    /// Whether this can be the name of a served file. If not, no job is needed.
    pub(crate) fn may_have(name: &[u8]) -> bool {
        !name.starts_with(b".")
            && (1..=NAME_LEN_MAX).contains(&name.len())
            && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
    }
}

impl Content {
    fn read(&self) -> io::Result<(Table, bool)> {
        let before = self.table.load();
        let mut table = Table::new();
        let dir = self.dir()?;
        let (mut bytes, mut changed) = (0, false);
        for entry in std::fs::read_dir(&self.files.dir)? {
            let name = entry?.file_name();
            let name = name.as_bytes();
            let Some((stamp, len)) = self.stat_file(&dir, name) else { continue };
            bytes += len;
            if table.len() == FILES_MAX || bytes > BYTES_MAX {
                return Err(io::Error::other(format!(
                    "there are more than {FILES_MAX} files or {} MiB in {}: give it a directory of its own",
                    BYTES_MAX >> 20,
                    self.files.dir.display()
                )));
            }
            let stored = match before.get(name) {
                Some(stored) if stored.stamp == stamp => stored.clone(),
                _ => {
                    let Some(reply) = self.reply(&dir, name) else { continue };
                    changed = true;
                    Stored { stamp, reply }
                }
            };
            table.insert(name.into(), stored);
        }
        changed |= table.len() != before.len();
        Ok((table, changed))
    }

    /// Opens the directory. Symbolic links in its own path are followed.
    fn dir(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.files.dir, flags, Mode::empty())?)
    }

    /// Returns the stamp and size of a regular file that is neither hidden nor too large. A file
    /// that is removed meanwhile is treated as missing.
    fn stat_file(&self, dir: &OwnedFd, name: &[u8]) -> Option<(Stamp, u64)> {
        if name.starts_with(b".") {
            return None;
        }
        let meta = open_beneath(dir, name, OFlags::PATH).ok()?.metadata().ok()?;
        let takes = meta.is_file() && meta.len() <= u64::from(self.files.max_bytes);
        takes.then(|| (Stamp::of(&meta), meta.len()))
    }

    fn reply(&self, dir: &OwnedFd, name: &[u8]) -> Option<StaticReply> {
        let mut content = Vec::new();
        // The file may grow during the read, or another file may have replaced it.
        let len_max = u64::from(self.files.max_bytes);
        let file = open_beneath(dir, name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        file.take(len_max + 1).read_to_end(&mut content).ok()?;
        if content.len() as u64 > len_max {
            return None;
        }
        let reply = StaticReply::new(Status::OK).body(&self.files.content_type, content).ok()?;
        self.headers.iter().try_fold(reply, |reply, (name, value)| reply.header(name, value).ok())
    }

    fn scan(&self) -> Scan {
        match self.read() {
            Ok((_, false)) => Scan::Same,
            Ok((table, true)) => {
                let what = format!("{} files", table.len());
                self.table.store(Arc::new(table));
                Scan::Changed(what)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let was_empty = self.table.load().is_empty();
                self.table.store(Arc::new(Table::new()));
                if was_empty { Scan::Same } else { Scan::Changed("the directory is gone".to_owned()) }
            }
            Err(error) => Scan::Refused(error.to_string()),
        }
    }
}

/// Opens a file of this name. A symbolic link may lead to any path below the directory, as in a
/// mounted ConfigMap, but not out of the directory: a user with write access could otherwise
/// publish any file that this process can read.
fn open_beneath(dir: &OwnedFd, name: &[u8], flags: OFlags) -> rustix::io::Result<File> {
    let (name, flags) = (OsStr::from_bytes(name), flags | OFlags::CLOEXEC);
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let opened = match rustix::fs::openat2(dir, name, flags, Mode::empty(), resolve) {
        // Linux before 5.6, or a sandbox that forbids the call: symbolic links are refused.
        Err(Errno::NOSYS | Errno::PERM) => {
            rustix::fs::openat(dir, name, flags | OFlags::NOFOLLOW, Mode::empty())
        }
        opened => opened,
    };
    opened.map(File::from)
}

impl Watched for DirectoryReader {
    fn name(&self) -> String {
        format!("files of {}", self.content.files.dir.display())
    }

    fn directories(&self) -> Vec<PathBuf> {
        vec![self.content.files.dir.clone()]
    }

    fn scan(&mut self) -> Scan {
        let content = Arc::clone(&self.content);
        self.scan_runner.scan(move || content.scan())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn open(dir: &Path, max_bytes: u32) -> (Directory, DirectoryReader) {
        let files = Files { dir: dir.to_owned(), content_type: "text/plain".to_owned(), max_bytes };
        let headers = vec![("Cache-Control".to_owned(), "no-store".to_owned())];
        Directory::open(files, headers, ScanRunner::new(None))
    }

    fn content(directory: &Directory, name: &str) -> Option<Vec<u8>> {
        directory.with(name.as_bytes(), |reply| reply.map(|reply| reply.content().to_vec()))
    }

    #[test]
    fn files_come_and_change_and_go() {
        let dir = std::env::temp_dir().join(format!("doorbell-files-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&dir);
        let (directory, mut reader) = open(&dir, 16);
        assert_eq!(content(&directory, "token"), None, "a missing directory counts as empty");
        std::fs::create_dir_all(dir.join("folder")).unwrap();
        for (name, text) in
            [("token", "one"), (".hidden", "x"), ("long", "12345678901234567"), ("folder/deep", "x")]
        {
            std::fs::write(dir.join(name), text).unwrap();
        }
        assert_eq!(reader.scan(), Scan::Changed("1 files".to_owned()));
        assert_eq!(reader.scan(), Scan::Same);
        assert_eq!(content(&directory, "token").as_deref(), Some(&b"one"[..]));
        for name in [".hidden", "long", "folder", "folder/deep", "../token", ""] {
            assert_eq!(content(&directory, name), None, "{name}");
        }
        std::fs::write(dir.join("token"), "other").unwrap();
        assert_eq!(reader.scan(), Scan::Changed("1 files".to_owned()));
        assert_eq!(content(&directory, "token").as_deref(), Some(&b"other"[..]));
        std::fs::remove_file(dir.join("token")).unwrap();
        assert_eq!(reader.scan(), Scan::Changed("0 files".to_owned()));
        assert_eq!(content(&directory, "token"), None);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(reader.scan(), Scan::Same);
    }

    /// Links that lead out of the directory are refused, in a scan of the directory and in a read
    /// by name.
    #[test]
    fn links_lead_anywhere_below_the_directory_and_not_out_of_it() {
        let scratch = std::env::temp_dir().join(format!("doorbell-links-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&scratch);
        let dir = scratch.join("dir");
        std::fs::create_dir_all(dir.join("..v1")).unwrap();
        std::fs::write(scratch.join("secret"), "secret").unwrap();
        std::fs::write(dir.join("..v1/token"), "good").unwrap();
        symlink("..v1", dir.join("..data")).unwrap();
        symlink("..data/token", dir.join("token")).unwrap();
        symlink("token", dir.join("again")).unwrap();
        symlink("../secret", dir.join("relative")).unwrap();
        symlink(scratch.join("secret"), dir.join("absolute")).unwrap();
        symlink("/proc/self/environ", dir.join("environ")).unwrap();
        symlink("/proc/self/cwd/Cargo.toml", dir.join("magic")).unwrap();
        symlink("..", dir.join("up")).unwrap();
        symlink("up/secret", dir.join("through")).unwrap();
        symlink("self", dir.join("self")).unwrap();
        // The operator may configure a directory behind a link.
        let outside = scratch.join("link");
        symlink(&dir, &outside).unwrap();
        for path in [&dir, &outside] {
            let (directory, _reader) = open(path, 1024);
            for name in ["token", "again"] {
                assert_eq!(content(&directory, name).as_deref(), Some(&b"good"[..]), "{name}");
                assert_eq!(directory.fetch(name.as_bytes()).unwrap().content().as_ref(), b"good", "{name}");
            }
            for name in ["relative", "absolute", "environ", "magic", "up", "through", "self", "..data"] {
                assert_eq!(content(&directory, name), None, "{name}");
                assert!(directory.fetch(name.as_bytes()).is_none(), "{name}");
            }
        }
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn a_directory_of_too_many_files_is_refused_and_the_old_ones_stay() {
        let dir = std::env::temp_dir().join(format!("doorbell-many-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("token"), "one").unwrap();
        let (directory, mut reader) = open(&dir, 16);
        for number in 0..FILES_MAX {
            std::fs::write(dir.join(number.to_string()), "").unwrap();
        }
        assert!(matches!(reader.scan(), Scan::Refused(why) if why.contains("more than 10000 files")));
        assert_eq!(content(&directory, "token").as_deref(), Some(&b"one"[..]));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
