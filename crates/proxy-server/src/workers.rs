//! The default number of workers, derived from the CPUs and the memory that this process may use.

use doorbell_proxy_config::Config;
use rustix::thread::sched_getaffinity;
use std::num::NonZero;
use std::sync::OnceLock;

/// Memory of one worker: ring, buffers, stack and connections. Measured with the program of the
/// container image on Linux 6.18, as the memory charged to its cgroup with 1, 8 and 64 workers. On
/// io_uring, a worker takes 0.68 MiB, or 0.69 MiB while 256 connections are busy; the kernel uses
/// 0.62 MiB of it for the ring. On epoll, a worker takes 0.09 MiB, or 0.10 MiB with these
/// connections. None of this memory is locked (`VmLck`, `VmPin`).
const MEMORY_OF_WORKER: u64 = 1 << 20;

/// Memory in addition to that of the workers: 1 MiB of data, 6 MiB of code (unless the code is
/// charged to another cgroup), and a margin.
const MEMORY_OF_PROGRAM: u64 = 8 << 20;

/// Maximum number of workers in a container without a CPU quota, because the container shares the
/// CPUs with other containers.
const SHARED_MAX: usize = 4;

/// Maximum of `runtime.workers`.
const MAX: usize = 1024;

/// Reads a file of the system.
pub type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A number of workers, and the limit that determined it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// The number.
    pub count: usize,
    /// What limits it.
    pub why: String,
}

/// The smallest limits of the cgroup (version 2) of this process and of the cgroups above it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// CPUs: `cpu.max`.
    pub cpus: Option<f64>,
    /// Bytes: `memory.max`.
    pub memory: Option<u64>,
}

/// The configured number of workers, or else [`default_workers`].
pub(crate) fn count(config: &Config) -> usize {
    let configured = config.runtime.workers.and_then(|count| usize::try_from(count).ok());
    configured.unwrap_or_else(|| default_workers().count)
}

/// The default number of workers. Determined once, so that a reload has the same number as the
/// start.
pub fn default_workers() -> &'static Workers {
    static DEFAULT: OnceLock<Workers> = OnceLock::new();
    DEFAULT.get_or_init(|| {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        choose(cores(), Limits::of(&read).unwrap_or_default(), is_container(&read))
    })
}

impl Limits {
    /// Reads the limits; `None` without a cgroup of version 2.
    pub fn of(read: Read<'_>) -> Option<Self> {
        let mut limits = Self::default();
        let own = read("/proc/self/cgroup")?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let mut folder = path.trim_end_matches('/').to_owned();
        loop {
            let file = |name: &str| read(&format!("/sys/fs/cgroup{folder}/{name}"));
            if let Some((quota, period)) = file("cpu.max").as_deref().and_then(|text| text.split_once(' '))
                && let (Ok(quota), Ok(period)) = (quota.parse::<f64>(), period.trim_end().parse::<f64>())
            {
                limits.cpus = Some(limits.cpus.map_or(quota / period, |known| known.min(quota / period)));
            }
            if let Some(bytes) = file("memory.max").and_then(|text| text.trim_end().parse::<u64>().ok()) {
                limits.memory = Some(limits.memory.map_or(bytes, |known| known.min(bytes)));
            }
            match folder.rfind('/') {
                Some(end) => folder.truncate(end),
                None => return Some(limits),
            }
        }
    }
}

/// CPUs on which this process may run (sched_getaffinity(2)).
fn cores() -> usize {
    let allowed = sched_getaffinity(None).ok().and_then(|set| usize::try_from(set.count()).ok());
    let known = || std::thread::available_parallelism().map_or(1, NonZero::get);
    allowed.filter(|count| *count > 0).unwrap_or_else(known)
}

fn choose(cores: usize, limits: Limits, is_container: bool) -> Workers {
    let whole = |cpus: f64| (1..MAX).find(|&count| count as f64 >= cpus).unwrap_or(MAX);
    let mut all = vec![(cores, format!("{cores} CPUs"))];
    match limits.cpus {
        Some(cpus) => all.push((whole(cpus), format!("a CPU quota of {cpus:.2}"))),
        None if is_container => all.push((SHARED_MAX, "a container without a CPU quota".to_owned())),
        None => {}
    }
    if let Some(bytes) = limits.memory {
        let count =
            usize::try_from(bytes.saturating_sub(MEMORY_OF_PROGRAM) / MEMORY_OF_WORKER).unwrap_or(MAX);
        all.push((count, format!("a memory limit of {} MiB", bytes >> 20)));
    }
    let (count, why) = all.into_iter().min_by_key(|(count, _)| *count).unwrap_or_default();
    Workers { count: count.clamp(1, MAX), why }
}

/// Detects container runtimes: Kubernetes and podman set variables, Docker and podman create a
/// file, and images are mounted with overlayfs.
fn is_container(read: Read<'_>) -> bool {
    let has_variable =
        ["KUBERNETES_SERVICE_HOST", "container"].iter().any(|name| std::env::var_os(name).is_some());
    let has_file = ["/.dockerenv", "/run/.containerenv"].iter().any(|path| read(path).is_some());
    has_variable || has_file || is_stacked(&read("/proc/self/mountinfo").unwrap_or_default())
}

/// Whether the root file system of this process is an overlay (proc_pid_mountinfo(5)).
fn is_stacked(mounts: &str) -> bool {
    let is_root = |line: &&str| line.split(' ').nth(4) == Some("/");
    let root = mounts.lines().rfind(is_root).and_then(|line| line.split_once(" - "));
    root.is_some_and(|(_, kind)| kind.starts_with("overlay "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_tightest_limit_counts() {
        for (cores, cpus, memory, is_container, expected, why) in [
            (8, None, None, false, 8, "8 CPUs"),
            (2, None, None, true, 2, "2 CPUs"),
            (96, None, None, true, 4, "a container without a CPU quota"),
            (96, Some(1.5), None, true, 2, "a CPU quota of 1.50"),
            (96, Some(8.0), None, true, 8, "a CPU quota of 8.00"),
            (96, Some(0.05), None, false, 1, "a CPU quota of 0.05"),
            (96, None, Some(64 * MIB), false, 56, "a memory limit of 64 MiB"),
            (96, Some(90.0), Some(16 * MIB), true, 8, "a memory limit of 16 MiB"),
            (4, None, Some(MIB / 2), false, 1, "a memory limit of 0 MiB"),
            (4096, None, None, false, 1024, "4096 CPUs"),
        ] {
            let found = choose(cores, Limits { cpus, memory }, is_container);
            assert_eq!((found.count, found.why.as_str()), (expected, why));
        }
    }

    #[test]
    fn limits_of_surrounding_groups_count() {
        let read = |path: &str| match path {
            "/proc/self/cgroup" => Some("0::/a/b\n".to_owned()),
            "/sys/fs/cgroup/a/b/cpu.max" => Some("max 100000\n".to_owned()),
            "/sys/fs/cgroup/a/cpu.max" => Some("150000 100000\n".to_owned()),
            "/sys/fs/cgroup/a/b/memory.max" => Some("67108864\n".to_owned()),
            "/sys/fs/cgroup/memory.max" => Some("max\n".to_owned()),
            _ => None,
        };
        assert_eq!(Limits::of(&read), Some(Limits { cpus: Some(1.5), memory: Some(64 * MIB) }));
        assert_eq!(Limits::of(&|_| None), None);
    }

    #[test]
    fn an_overlay_is_a_container() {
        let root = |kind: &str| {
            format!(
                "29 1 0:26 / / rw,relatime shared:1 - {kind} {kind} rw\n30 29 0:27 / /proc rw - proc proc rw\n"
            )
        };
        assert!(is_stacked(&root("overlay")) && !is_stacked(&root("ext4")) && !is_stacked(""));
        // The last mount on a path hides earlier ones.
        assert!(!is_stacked(&format!("{}{}", root("overlay"), root("tmpfs"))));
    }
}
