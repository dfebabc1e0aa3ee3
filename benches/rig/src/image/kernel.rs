//! The kernels that a guest can boot, by version, and where their packages come from.

use std::fs;
use std::path::{Path, PathBuf};

use super::apt::Apt;
use super::deb::{self, Unpacked};
use crate::error::RigError;
use crate::plan::name_of;

/// A kernel, named by its version on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kernel {
    /// Debian 11.
    #[value(name = "5.10")]
    V5_10,
    /// Debian 12.
    #[value(name = "6.1")]
    V6_1,
    /// Debian 13; also available for Debian 12.
    #[value(name = "6.12")]
    V6_12,
    /// Debian 13's backports.
    #[value(name = "7.2")]
    V7_2,
}

/// An unpacked kernel.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The kernel image for QEMU.
    pub(crate) file: PathBuf,
    /// Name and version of its package.
    pub(crate) package: String,
}

impl Kernel {
    /// The Debian suite that offers the kernel.
    const fn suite(self) -> &'static str {
        match self {
            Self::V5_10 => "bullseye",
            Self::V6_1 => "bookworm",
            Self::V6_12 => "trixie",
            Self::V7_2 => "trixie-backports",
        }
    }

    /// Returns the newest kernel of this version, from this machine's own suites or otherwise from
    /// the suite that offers it.
    pub(crate) fn find(self, cache: &Path) -> Result<Found, RigError> {
        let (name, suite) = (name_of(&self), self.suite());
        let pattern = format!("^linux-(image|binary)-{}[.+].*-cloud-amd64$", name.replace('.', "\\."));
        for apt in [None, Some(suite)] {
            let apt = apt.map_or_else(|| Ok(Apt::machine()), |suite| Apt::suite(suite, cache))?;
            let listed = apt.run("apt-cache", &["search", "--names-only", &pattern], cache)?;
            // If both packages exist, the image is in `linux-binary`, and `linux-image` only
            // depends on it.
            for kind in ["linux-binary-", "linux-image-"] {
                let accept = |name: &str| name.starts_with(kind) && !name.contains("unsigned");
                if let Some(package) = deb::newest(&listed, accept) {
                    let Unpacked { package, version, folder } = deb::unpacked(&apt, &package, cache)?;
                    let file = kernel_in(&folder, &package)?;
                    return Ok(Found { file, package: format!("{package} {version}") });
                }
            }
        }
        let missing = format!("neither this machine's suites nor {suite} offer this kernel");
        Err(RigError::package(format!("linux-image-{name}"), missing))
    }
}

/// Path of the image: `/boot/vmlinuz-VERSION`, or from 7.1 on `/usr/lib/modules/VERSION/vmlinuz`.
fn kernel_in(folder: &Path, package: &str) -> Result<PathBuf, RigError> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let modules = entries(folder.join("usr/lib/modules")).map(|version| version.path().join("vmlinuz"));
    let boot = entries(folder.join("boot")).map(|file| file.path());
    let is_kernel = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")) && path.is_file()
    };
    boot.chain(modules).find(is_kernel).ok_or_else(|| RigError::package(package, "holds no kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_found_in_both_places_and_its_absence_is_said() {
        for (number, place) in
            ["", "boot/vmlinuz-6.12", "usr/lib/modules/7.2/vmlinuz"].into_iter().enumerate()
        {
            let folder =
                std::env::temp_dir().join(format!("doorbell-rig-deb-{}-{number}", std::process::id()));
            fs::create_dir_all(folder.join("usr/lib/modules/7.2")).unwrap();
            fs::create_dir_all(folder.join("boot")).unwrap();
            if !place.is_empty() {
                fs::write(folder.join(place), b"x").unwrap();
            }
            let found = kernel_in(&folder, "the-package");
            fs::remove_dir_all(&folder).unwrap();
            match found {
                Ok(file) => assert!(!place.is_empty() && file.ends_with(place), "{}", file.display()),
                Err(error) => {
                    assert_eq!(
                        (place, error.to_string()),
                        ("", "package the-package: holds no kernel".into())
                    );
                }
            }
        }
    }
}
