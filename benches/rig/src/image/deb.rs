//! Debian packages by name: fetched by apt, unpacked into the cache, never installed.
//!
//! Does not know about: the contents of packages.

use std::fs;
use std::path::{Path, PathBuf};

use super::apt::{Apt, folder_name};
use crate::error::RigError;
use crate::tool;

/// An unpacked package.
#[derive(Clone, Debug)]
pub(crate) struct Unpacked {
    pub(crate) package: String,
    pub(crate) version: String,
    /// The folder with the files of the package.
    pub(crate) folder: PathBuf,
}

/// Returns the newest package whose name matches the extended regular expression `pattern` and
/// passes `accept`.
pub(crate) fn newest(
    apt: &Apt,
    pattern: &str,
    accept: impl Fn(&str) -> bool,
    cache: &Path,
) -> Result<Option<String>, RigError> {
    let found = apt.run("apt-cache", &["search", "--names-only", pattern], cache)?;
    Ok(last_of(&found, accept))
}

/// Returns the candidate version of `package`, unpacked below `cache`. It is fetched only if it is
/// missing there.
pub(crate) fn unpacked(apt: &Apt, package: &str, cache: &Path) -> Result<Unpacked, RigError> {
    let version = candidate(apt, package, cache)?;
    let folder = cache.join(folder_name(package, &version));
    let done = Unpacked { package: package.to_owned(), version, folder };
    if done.folder.is_dir() {
        return Ok(done);
    }
    let fetched = cache.join(format!("fetch-{package}-{}", std::process::id()));
    fs::create_dir_all(&fetched).map_err(RigError::io(&fetched))?;
    let unpacked = fetched.join("unpacked");
    let moved = fetch(apt, package, &fetched, &unpacked).and_then(|()| {
        // A concurrent run may have unpacked the same contents first.
        fs::rename(&unpacked, &done.folder)
            .or_else(|error| if done.folder.is_dir() { Ok(()) } else { Err(error) })
            .map_err(RigError::io(&done.folder))
    });
    fs::remove_dir_all(&fetched).map_err(RigError::io(&fetched))?;
    moved.map(|()| done)
}

fn fetch(apt: &Apt, package: &str, folder: &Path, unpacked: &Path) -> Result<(), RigError> {
    apt.run("apt-get", &["download", "-q", package], folder)?;
    let files = fs::read_dir(folder).map_err(RigError::io(folder))?;
    let deb = files
        .filter_map(Result::ok)
        .map(|file| file.path())
        .find(|path| path.extension().is_some_and(|end| end == "deb"))
        .ok_or_else(|| RigError::Package {
            package: package.to_owned(),
            detail: "apt fetched no file".into(),
        })?;
    let words = [deb.to_string_lossy(), unpacked.to_string_lossy()];
    tool::capture("dpkg-deb", "dpkg", &["-x", &words[0], &words[1]], folder).map(drop)
}

fn candidate(apt: &Apt, package: &str, folder: &Path) -> Result<String, RigError> {
    let shown = apt.run("apt-cache", &["policy", package], folder)?;
    version_of(&shown).ok_or_else(|| RigError::Package {
        package: package.to_owned(),
        detail: "apt offers no version of this package; `apt-get update` may help".into(),
    })
}

/// The accepted name with the highest version in the output of `apt-cache search`, which has lines
/// of `name - description`.
fn last_of(found: &str, accept: impl Fn(&str) -> bool) -> Option<String> {
    let names = found.lines().filter_map(|line| line.split_once(" - ")).map(|(name, _)| name.trim());
    names.filter(|name| accept(name)).max_by_key(|name| parts(name)).map(str::to_owned)
}

/// Splits a name into text and numbers, so that numbers are compared by value.
fn parts(name: &str) -> Vec<(u64, &str)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text_len = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(text_len);
        let digits_len = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(digits_len);
        parts.push((0, text));
        parts.push((digits.parse().unwrap_or(0), ""));
        rest = after;
    }
    parts
}

/// The candidate version in the output of `apt-cache policy`.
fn version_of(shown: &str) -> Option<String> {
    let version = shown.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_the_highest_number_and_not_the_last_letter() {
        let found = "linux-image-6.12.94+deb13-cloud-amd64 - Linux 6.12\n\
                     linux-image-6.12.107+deb13-cloud-amd64 - Linux 6.12\n\
                     linux-image-6.12.9+deb13-cloud-amd64 - Linux - 6.12\n\
                     nonsense\n";
        assert_eq!(last_of(found, |_| true).unwrap(), "linux-image-6.12.107+deb13-cloud-amd64");
        assert_eq!(
            last_of(found, |name| !name.contains("107")).unwrap(),
            "linux-image-6.12.94+deb13-cloud-amd64"
        );
        assert_eq!(last_of(found, |_| false), None);
        assert_eq!(last_of("", |_| true), None);
    }

    #[test]
    fn the_version_apt_would_fetch() {
        let shown = "busybox-static:\n  Installed: (none)\n  Candidate: 1:1.35.0-4+b1\n  Version table:\n";
        assert_eq!(version_of(shown).as_deref(), Some("1:1.35.0-4+b1"));
        assert_eq!(version_of("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(version_of(""), None);
    }
}
