//! The image a guest boots: a kernel, and an initial RAM disk with the servers, the load generator and this program as agent.
//!
//! Does not know about: QEMU, figures.

mod cpio;
mod deb;
mod libs;
pub(crate) mod programs;
pub(crate) mod servers;

use std::fs;
use std::path::{Path, PathBuf};

use cpio::Archive;
use servers::{Entry, FOLDER, Program};

use crate::error::RigError;
use crate::plan::Plan;
use crate::tool;

/// Path of this program inside the guest.
const AGENT: &str = "/rig/doorbell-rig";
/// Path of the load generator inside the guest.
pub(crate) const LOAD: &str = "/rig/doorbell-load";
/// Path of the plan inside the guest.
const PLAN: &str = "/rig/plan.json";
/// The program that sets the scheduling policy; the static busybox of Debian does not have it.
pub(crate) const CHRT: &str = "/usr/bin/chrt";

/// Before the process id in the name of a RAM disk.
const INITRD: &str = "initrd-";

/// Folders that init, nginx or haproxy want to find.
const FOLDERS: [&str; 9] = [
    "/dev",
    "/proc",
    "/sys",
    "/tmp",
    "/run",
    "/var/lib/nginx",
    "/var/log/nginx",
    "/var/lib/haproxy",
    "/root",
];

/// What the guest runs first. TIME_WAIT and the port range are made roomy, so that thousands of connections fit in one boot.
const INIT: &str = r"#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox ip link set lo up
ulimit -n 1048576
echo 1024 65000 > /proc/sys/net/ipv4/ip_local_port_range
echo 262144 > /proc/sys/net/ipv4/tcp_max_tw_buckets
echo 8192 > /proc/sys/net/ipv4/tcp_max_syn_backlog
echo 8192 > /proc/sys/net/core/somaxconn
/rig/doorbell-rig guest /rig/plan.json
/bin/busybox poweroff -f
";

/// Kernels by the name users type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kernel {
    /// Debian 12's own.
    #[value(name = "6.1")]
    V6_1,
    /// Debian 13's own, also offered to Debian 12.
    #[value(name = "6.12")]
    V6_12,
}

/// What QEMU needs.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// The kernel.
    pub(crate) kernel: PathBuf,
    /// The initial RAM disk.
    pub(crate) initrd: PathBuf,
}

/// Where the programs of this workspace are.
#[derive(Clone, Debug)]
pub(crate) struct OurPrograms {
    /// `doorbell`.
    pub(crate) doorbell: PathBuf,
    /// `doorbell-load`.
    pub(crate) load: PathBuf,
}

impl Kernel {
    /// The package apt is asked for.
    pub(crate) const fn package(self) -> &'static str {
        match self {
            Self::V6_1 => "linux-image-cloud-amd64",
            Self::V6_12 => "linux-image-6.12-cloud-amd64",
        }
    }
}

/// Path inside the guest of what an entry of the catalogue starts; a missing program is an error that names its package.
pub(crate) fn program_path(entry: &Entry) -> Result<PathBuf, RigError> {
    match entry.program {
        Program::Doorbell => Ok(PathBuf::from(FOLDER).join("doorbell")),
        Program::Installed { program, package } => tool::find(program, package),
    }
}

/// Builds the image for `plan`. Packages are fetched once and kept in `cache`.
pub(crate) fn build(
    kernel: Kernel,
    plan: &Plan,
    ours: &OurPrograms,
    cache: &Path,
) -> Result<Image, RigError> {
    fs::create_dir_all(cache).map_err(RigError::io(cache))?;
    let package = deb::behind(kernel.package(), cache)?;
    let kernel = kernel_in(&deb::unpacked(&package, cache)?, &package)?;
    let busybox = deb::unpacked("busybox-static", cache)?.join("bin/busybox");

    let mut archive = Archive::default();
    for folder in FOLDERS {
        archive.folder(folder);
    }
    archive.file("/init", INIT.as_bytes());
    archive.file("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n");
    archive.file("/etc/group", b"root:x:0:\n");
    archive.file("/etc/nsswitch.conf", b"passwd: files\ngroup: files\n");
    archive.file("/bin/busybox", &read(&busybox)?);
    add_program(&mut archive, &tool::find("chrt", "util-linux")?, CHRT)?;
    let myself = std::env::current_exe().map_err(RigError::io("/proc/self/exe"))?;
    add_program(&mut archive, &myself, AGENT)?;
    add_program(&mut archive, &ours.load, LOAD)?;
    for server in &plan.servers {
        let entry = Entry::named(&server.name).expect("plans are made from the catalogue");
        let inside = program_path(entry)?;
        let outside = if entry.is_ours() { &ours.doorbell } else { &inside };
        add_program(&mut archive, outside, &inside.to_string_lossy())?;
        archive.file(&entry.config_path(), entry.config().as_bytes());
    }
    let text = serde_json::to_vec(plan).expect("a plan is plain data");
    archive.file(PLAN, &text);

    discard_abandoned(cache)?;
    let initrd = cache.join(format!("{INITRD}{}", std::process::id()));
    fs::write(&initrd, archive.finish()).map_err(RigError::io(&initrd))?;
    Ok(Image { kernel, initrd })
}

/// Deletes the RAM disks of runs that were killed.
fn discard_abandoned(cache: &Path) -> Result<(), RigError> {
    let files = fs::read_dir(cache).map_err(RigError::io(cache))?;
    for path in files.filter_map(Result::ok).map(|file| file.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_abandoned =
            name.strip_prefix(INITRD).is_some_and(|process| !Path::new("/proc").join(process).exists());
        if is_abandoned {
            fs::remove_file(&path).map_err(RigError::io(&path))?;
        }
    }
    Ok(())
}

impl Image {
    /// Deletes what belongs to one boot only.
    pub(crate) fn discard(&self) -> Result<(), RigError> {
        fs::remove_file(&self.initrd).map_err(RigError::io(&self.initrd))
    }
}

/// Adds a program under the path `inside`, and its libraries under their own paths, where its loader looks for them.
fn add_program(archive: &mut Archive, outside: &Path, inside: &str) -> Result<(), RigError> {
    for library in libs::of(outside)? {
        archive.file(&library.to_string_lossy(), &read(&library)?);
    }
    archive.file(inside, &read(outside)?);
    Ok(())
}

fn kernel_in(folder: &Path, package: &str) -> Result<PathBuf, RigError> {
    let boot = folder.join("boot");
    let files = fs::read_dir(&boot).map_err(RigError::io(&boot))?;
    files
        .filter_map(Result::ok)
        .map(|file| file.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")))
        .ok_or_else(|| RigError::Package { package: package.to_owned(), detail: "holds no kernel".into() })
}

fn read(path: &Path) -> Result<Vec<u8>, RigError> {
    fs::read(path).map_err(RigError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_disks_of_dead_runs_are_deleted() {
        let cache = std::env::temp_dir().join(format!("doorbell-rig-cache-{}", std::process::id()));
        fs::create_dir_all(&cache).unwrap();
        let mine = cache.join(format!("{INITRD}{}", std::process::id()));
        let dead = cache.join(format!("{INITRD}{}", u32::MAX));
        let other = cache.join("linux-image");
        for file in [&mine, &dead, &other] {
            fs::write(file, b"x").unwrap();
        }
        discard_abandoned(&cache).unwrap();
        let left = [&mine, &dead, &other].map(|file| file.exists());
        fs::remove_dir_all(&cache).unwrap();
        assert_eq!(left, [true, false, true]);
    }

    #[test]
    fn a_package_without_a_kernel_says_so() {
        let folder = std::env::temp_dir().join(format!("doorbell-rig-deb-{}", std::process::id()));
        fs::create_dir_all(folder.join("boot")).unwrap();
        let without = kernel_in(&folder, "the-package").unwrap_err().to_string();
        fs::write(folder.join("boot/vmlinuz-6.12"), b"x").unwrap();
        let with = kernel_in(&folder, "the-package").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(without, "package the-package: holds no kernel");
        assert!(with.ends_with("boot/vmlinuz-6.12"));
    }
}
