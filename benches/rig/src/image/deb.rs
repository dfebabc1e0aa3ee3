//! Debian packages by name: fetched by this machine's apt, unpacked into the cache, never installed.
//!
//! Does not know about: what is in them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::RigError;
use crate::tool;

/// The package that a metapackage such as `linux-image-cloud-amd64` stands for.
pub(crate) fn behind(metapackage: &str, folder: &Path) -> Result<String, RigError> {
    let listed = tool::capture("apt-cache", "apt", &["depends", "--important", metapackage], folder)
        .map_err(|error| RigError::Package {
            package: metapackage.to_owned(),
            detail: format!("apt does not know it here ({error}); `apt-get update` may help"),
        })?;
    first_image(&listed).ok_or_else(|| RigError::Package {
        package: metapackage.to_owned(),
        detail: format!("depends on no linux-image package:\n{}", tool::tail(&listed)),
    })
}

/// The folder `package` is unpacked in, under `cache`. Fetched only when this version is not there yet.
pub(crate) fn unpacked(package: &str, cache: &Path) -> Result<PathBuf, RigError> {
    let version = candidate(package, cache)?;
    let folder = cache.join(format!("{package}_{}", version.replace([':', '~'], "_")));
    if folder.is_dir() {
        return Ok(folder);
    }
    let fetched = cache.join(format!("fetch-{package}-{}", std::process::id()));
    fs::create_dir_all(&fetched).map_err(RigError::io(&fetched))?;
    let unpacked = fetched.join("unpacked");
    let done = fetch(package, &fetched, &unpacked).and_then(|()| {
        // Another run may have been first; its content is the same.
        fs::rename(&unpacked, &folder)
            .or_else(|error| if folder.is_dir() { Ok(()) } else { Err(error) })
            .map_err(RigError::io(&folder))
    });
    fs::remove_dir_all(&fetched).map_err(RigError::io(&fetched))?;
    done.map(|()| folder)
}

fn fetch(package: &str, folder: &Path, unpacked: &Path) -> Result<(), RigError> {
    tool::capture("apt-get", "apt", &["download", "-q", package], folder)?;
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

fn candidate(package: &str, folder: &Path) -> Result<String, RigError> {
    let shown = tool::capture("apt-cache", "apt", &["policy", package], folder)?;
    version_of(&shown).ok_or_else(|| RigError::Package {
        package: package.to_owned(),
        detail: "apt has no version of it here; `apt-get update` may help".into(),
    })
}

/// From `apt-cache depends`: the first image that is depended on.
fn first_image(listed: &str) -> Option<String> {
    listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-") || name.starts_with("linux-binary-"))
        .map(str::to_owned)
}

/// From `apt-cache policy`: the version that would be fetched.
fn version_of(shown: &str) -> Option<String> {
    let version = shown.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_behind_a_metapackage() {
        let cases = [
            (
                "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-1-cloud-amd64\n",
                Some("linux-image-6.1.0-1-cloud-amd64"),
            ),
            (
                "x\n  Depends: libc6\n  Depends: linux-binary-7.2-cloud-amd64\n",
                Some("linux-binary-7.2-cloud-amd64"),
            ),
            ("x\n  Depends: libc6\n", None),
            ("", None),
        ];
        for (listed, expected) in cases {
            assert_eq!(first_image(listed).as_deref(), expected, "{listed}");
        }
    }

    #[test]
    fn the_version_apt_would_fetch() {
        let shown = "busybox-static:\n  Installed: (none)\n  Candidate: 1:1.35.0-4+b1\n  Version table:\n";
        assert_eq!(version_of(shown).as_deref(), Some("1:1.35.0-4+b1"));
        assert_eq!(version_of("x:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(version_of(""), None);
    }
}
