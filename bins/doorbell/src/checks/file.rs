//! A file: is it there, is it new enough, is the right thing in it?
//!
//! Does not know about: who writes it.

use super::dial::cause_of;
use super::judge::contains;
use super::look::Looker;
use super::{Complaint, Verdict};
use crate::config::format_duration;
use crate::config::model::FileCheck;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a file that are looked at.
const READ_MAX: u64 = 1 << 20;

/// Looks at one file.
#[derive(Debug)]
pub(super) struct FileAsk {
    check: Arc<FileCheck>,
    looker: Looker,
}

impl FileAsk {
    pub(super) fn new(check: FileCheck) -> Self {
        Self { check: Arc::new(check), looker: Looker::default() }
    }

    pub(super) async fn ask(&self) -> Verdict {
        let check = Arc::clone(&self.check);
        self.looker.look(move || look(&check)).await
    }
}

fn look(check: &FileCheck) -> Verdict {
    let meta = match std::fs::metadata(&check.path) {
        Ok(_) if !check.exists => return Err(Complaint::failure("the file is there")),
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound && !check.exists => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Complaint::failure("there is no such file"));
        }
        Err(error) => return Err(Complaint::error(cause_of(&error))),
    };
    if let Some(max) = check.max_age {
        // A file of the future is new.
        let age = meta.modified().ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
        if age > max {
            let age = format_duration(Duration::from_secs(age.as_secs()));
            let reason = format!("it changed {age} ago, at most {} is well", format_duration(max));
            return Err(Complaint::failure(reason));
        }
    }
    let Some(part) = &check.contains else { return Ok(()) };
    // A pipe would make us wait, and a device may have no end.
    if !meta.is_file() {
        return Err(Complaint::failure("it is not a file that can be read"));
    }
    let mut content = Vec::new();
    let read = File::open(&check.path).and_then(|file| file.take(READ_MAX).read_to_end(&mut content));
    read.map_err(|error| Complaint::error(cause_of(&error)))?;
    match contains(&content, part.as_bytes()) {
        true => Ok(()),
        false => Err(Complaint::failure(format!("the file lacks {part:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_health::Outcome;

    #[test]
    fn a_file_is_looked_at() {
        let dir = std::env::temp_dir().join(format!("doorbell-file-check-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("state");
        let there = FileCheck::of(path.clone());
        let absent = FileCheck { exists: false, ..there.clone() };
        let filled = FileCheck { contains: Some("ready".to_owned()), ..there.clone() };
        let fresh = FileCheck { max_age: Some(Duration::from_secs(60)), ..there.clone() };
        let reason = |check: &FileCheck| look(check).err().map(|complaint| complaint.reason);
        assert_eq!(reason(&there).as_deref(), Some("there is no such file"));
        assert_eq!((reason(&absent), reason(&fresh).is_some()), (None, true));
        std::fs::write(&path, "not yet").unwrap();
        assert_eq!((reason(&there), reason(&fresh)), (None, None));
        assert_eq!(reason(&absent).as_deref(), Some("the file is there"));
        assert_eq!(reason(&filled).as_deref(), Some("the file lacks \"ready\""));
        std::fs::write(&path, "ready\n").unwrap();
        assert_eq!(reason(&filled), None);
        let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        assert!(reason(&fresh).unwrap().ends_with(" ago, at most 1m is well"));
        let folder = FileCheck { path: dir.clone(), ..filled };
        assert_eq!(reason(&folder).as_deref(), Some("it is not a file that can be read"));
        let below = FileCheck { path: path.join("below"), ..there };
        assert_eq!(look(&below).unwrap_err().outcome, Outcome::Error);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
