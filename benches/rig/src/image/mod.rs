//! The image of a guest: a kernel, and an initial RAM disk with the servers, the load generator,
//! and this program, which runs the plan.

mod apt;
mod cpio;
mod deb;
mod kernel;
mod libs;
pub(crate) mod programs;
pub(crate) mod servers;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use apt::Apt;
use cpio::Archive;
use kernel::Found;
pub(crate) use kernel::Kernel;
use servers::{CATALOGUE, FOLDER, Program, ServerEnvironment, Setup};

use crate::error::RigError;
use crate::plan::{Plan, Row};
use crate::tool;

/// Path of this program inside the guest.
pub(crate) const AGENT: &str = "/rig/doorbell-rig";
/// Path of doorbell inside the guest.
pub(crate) const DOORBELL: &str = "/rig/doorbell";
/// Path of the load generator inside the guest.
pub(crate) const LOAD: &str = "/rig/doorbell-load";
/// Path of the plan inside the guest.
const PLAN: &str = "/rig/plan.json";
/// The program that sets the scheduling policy. It is copied because Debian's static busybox lacks
/// it.
pub(crate) const CHRT: &str = "/usr/bin/chrt";

/// Prefix of a RAM disk's file name. The process ID follows.
const INITRD: &str = "initrd-";

/// Folders that init, nginx or haproxy require.
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

/// The guest's init script. It raises the limit of TIME_WAIT sockets and widens the port range, so
/// that one boot can make thousands of connections.
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

/// The files for QEMU.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) kernel: Found,
    pub(crate) initrd: PathBuf,
}

/// The contents of an image besides the kernel and this program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// Path of the load generator on this machine, if a load is needed.
    pub(crate) load: Option<PathBuf>,
    /// Programs, with their paths on this machine and in the guest. Their libraries are added.
    pub(crate) programs: Vec<(PathBuf, String)>,
    /// Files, with their paths in the guest and their contents.
    pub(crate) files: Vec<(String, String)>,
}

/// Paths of the programs that are built, or given as files.
#[derive(Clone, Debug)]
pub(crate) struct OurPrograms {
    pub(crate) doorbell: PathBuf,
    pub(crate) load: PathBuf,
    /// The built programs of `benches/peers`, by name.
    pub(crate) peers: BTreeMap<&'static str, PathBuf>,
}

/// Returns the plan for the rows whose servers are available with the contents that it needs, and
/// the servers that are not available, with reasons. Adds the programs that it builds to `ours`.
pub(crate) fn plan(
    mut rows: Vec<Row>,
    repeat: u32,
    ours: &mut OurPrograms,
) -> (Plan, Contents, Vec<(&'static str, RigError)>) {
    let (mut servers, mut missing) = (Vec::new(), Vec::new());
    let mut contents = Contents { load: Some(ours.load.clone()), ..Contents::default() };
    for entry in CATALOGUE.iter().filter(|entry| rows.iter().any(|row| row.server == entry.name)) {
        match programs::provide(entry, ours) {
            Ok(outside) => {
                let inside = match entry.program {
                    Program::Doorbell => DOORBELL.to_owned(),
                    Program::Go { program, .. } | Program::Rust { program, .. } => {
                        format!("{FOLDER}/{program}")
                    }
                    Program::Installed { .. } => outside.to_string_lossy().into_owned(),
                };
                let Setup { server, files } = entry.at(&inside, &ServerEnvironment::GUEST);
                servers.push(server);
                contents.programs.push((outside, inside));
                contents.files.extend(files);
            }
            Err(error) => missing.push((entry.name, error)),
        }
    }
    rows.retain(|row| missing.iter().all(|(name, _)| *name != row.server));
    (Plan { repeat, rows, servers, checks: Vec::new() }, contents, missing)
}

/// Builds the image for `plan`. Packages are fetched once and kept in `cache`.
pub(crate) fn build(
    kernel: Kernel,
    plan: &Plan,
    contents: &Contents,
    cache: &Path,
) -> Result<Image, RigError> {
    fs::create_dir_all(cache).map_err(RigError::io(cache))?;
    let kernel = kernel.find(cache)?;
    let busybox = deb::unpacked(&Apt::machine(), "busybox-static", cache)?.folder.join("bin/busybox");

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
    if let Some(load) = &contents.load {
        add_program(&mut archive, load, LOAD)?;
    }
    for (outside, inside) in &contents.programs {
        add_program(&mut archive, outside, inside)?;
    }
    for (path, text) in &contents.files {
        archive.file(path, text.as_bytes());
    }
    let text = serde_json::to_vec(plan).expect("a plan is plain data");
    archive.file(PLAN, &text);

    discard_abandoned(cache)?;
    let initrd = cache.join(format!("{INITRD}{}", std::process::id()));
    fs::write(&initrd, archive.finish()).map_err(RigError::io(&initrd))?;
    Ok(Image { kernel, initrd })
}

/// Deletes the RAM disks that killed runs left behind.
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
    /// Deletes the files that only one boot uses.
    pub(crate) fn discard(&self) -> Result<(), RigError> {
        fs::remove_file(&self.initrd).map_err(RigError::io(&self.initrd))
    }
}

/// Adds a program at the path `inside`, and its libraries at their own paths, where the loader
/// expects them.
fn add_program(archive: &mut Archive, outside: &Path, inside: &str) -> Result<(), RigError> {
    for library in libs::of(outside)? {
        archive.file(&library.to_string_lossy(), &read(&library)?);
    }
    archive.file(inside, &read(outside)?);
    Ok(())
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
}
