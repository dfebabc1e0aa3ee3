//! Debian packages by name: fetched by apt, unpacked into the cache, never installed.

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

/// Returns the candidate version of `package`, unpacked below `cache`. It is fetched only if it is
/// missing there.
pub(crate) fn unpacked(apt: &Apt, package: &str, cache: &Path) -> Result<Unpacked, RigError> {
    let lacks_version = "apt offers no version of this package; `apt-get update` may help";
    let version = version_of(&apt.run("apt-cache", &["policy", package], cache)?)
        .ok_or_else(|| RigError::package(package, lacks_version))?;
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
        .ok_or_else(|| RigError::package(package, "apt fetched no file"))?;
    let words = [deb.to_string_lossy(), unpacked.to_string_lossy()];
    tool::capture("dpkg-deb", "dpkg", &["-x", &words[0], &words[1]], folder).map(drop)
}

/// The accepted name with the highest version in the output of `apt-cache search`, which has lines
/// of `name - description`.
pub(crate) fn newest(found: &str, accept: impl Fn(&str) -> bool) -> Option<String> {
    let names = found.lines().filter_map(|line| line.split_once(" - ")).map(|(name, _)| name.trim());
    names.filter(|name| accept(name)).max_by_key(|name| numbers(name)).map(str::to_owned)
}

/// The numbers in a name, which decide which of two names that match one pattern is newer.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
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
        assert_eq!(newest(found, |_| true).unwrap(), "linux-image-6.12.107+deb13-cloud-amd64");
        assert_eq!(
            newest(found, |name| !name.contains("107")).unwrap(),
            "linux-image-6.12.94+deb13-cloud-amd64"
        );
        assert_eq!(newest(found, |_| false), None);
        assert_eq!(newest("", |_| true), None);
    }

    #[test]
    fn the_version_apt_would_fetch() {
        let shown = "busybox-static:\n  Installed: (none)\n  Candidate: 1:1.35.0-4+b1\n  Version table:\n";
        assert_eq!(version_of(shown).as_deref(), Some("1:1.35.0-4+b1"));
        assert_eq!(version_of("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(version_of(""), None);
    }
}
