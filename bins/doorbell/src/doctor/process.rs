//! The limits of this process (descriptors, memory, CPUs, system calls), its time zone, and the
//! variables from systemd.

use super::{Finding, Level, Read};
use doorbell_proxy_config::system_zone;
use doorbell_proxy_server::workers::{self, Limits};
use rustix::process::{Resource, getrlimit};
use std::ffi::OsString;

/// Recommended number of descriptors: the default maximum number of connections, plus some for
/// other files.
const NOFILE_WANTED: u64 = 65_536 + 64;

/// Minimum number of descriptors, for the listeners and a few connections.
const NOFILE_MIN: u64 = 64;

/// Recommended locked memory: before Linux 5.12, rings count as locked memory.
const MEMLOCK_WANTED: u64 = 8 << 20;

pub(super) fn findings(read: Read<'_>) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some(release) = read("/proc/sys/kernel/osrelease") {
        all.push(Finding::ok("process", "kernel", release));
    }
    let nofile = getrlimit(Resource::Nofile);
    all.push(files(nofile.current, nofile.maximum));
    all.push(locked(getrlimit(Resource::Memlock).current, read));
    all.extend(quota(read));
    let chosen = workers::default_workers();
    let workers = format!("{} by default", chosen.count);
    all.push(Finding {
        why: format!("limited by {}", chosen.why),
        ..Finding::ok("process", "workers", workers)
    });
    all.push(time_zone(system_zone()));
    all.extend(status(read));
    all.extend(systemd());
    all
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or_else(|| "no limit".into(), |limit| limit.to_string())
}

pub(super) fn files(soft: Option<u64>, hard: Option<u64>) -> Finding {
    let found = Finding::ok("process", "open files", format!("{} of at most {}", shown(soft), shown(hard)));
    match soft {
        Some(soft) if soft < NOFILE_MIN => {
            found.because(Level::Fatal, "every connection needs a descriptor", "LimitNOFILE=, ulimit -n")
        }
        Some(soft) if soft < NOFILE_WANTED => found.because(
            Level::Hint,
            format!("every connection needs a descriptor, so at most about {soft} are possible"),
            format!("LimitNOFILE={NOFILE_WANTED} in the unit, or ulimit -n {NOFILE_WANTED}"),
        ),
        _ => found,
    }
}

fn locked(soft: Option<u64>, read: Read<'_>) -> Finding {
    let found = Finding::ok("process", "locked memory", shown(soft));
    let is_counted = read("/proc/sys/kernel/osrelease").is_some_and(|release| is_before_5_12(&release));
    match soft {
        Some(soft) if is_counted && soft < MEMLOCK_WANTED => found.because(
            Level::Degraded,
            "before Linux 5.12 the memory of rings counts as locked memory",
            "LimitMEMLOCK=8M in the unit, or ulimit -l 8192",
        ),
        _ => found,
    }
}

pub(super) fn is_before_5_12(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < (5, 12),
        _ => false,
    }
}

/// CPU and memory limits of the cgroup.
pub(super) fn quota(read: Read<'_>) -> Vec<Finding> {
    let Some(Limits { cpus, memory }) = Limits::of(read) else { return Vec::new() };
    let quota = cpus.map_or_else(|| "no limit".into(), |cpus| format!("{cpus:.2} CPUs"));
    let found = Finding::ok("process", "CPU quota", quota);
    let found = match cpus {
        Some(cpus) if cpus < 1.0 => found.because(
            Level::Hint,
            "once the quota of a period is used up, connections wait for the next period, up to 100 ms",
            "allow at least one CPU, or set no limit (in Kubernetes: a request without a limit)",
        ),
        _ => found,
    };
    let bytes = memory.map_or_else(|| "no limit".into(), |bytes| format!("{} MiB", bytes >> 20));
    vec![found, Finding::ok("process", "memory limit", bytes)]
}

/// The default time zone of maintenance windows.
pub(super) fn time_zone(zone: Result<String, OsString>) -> Finding {
    match zone {
        Ok(name) => Finding::ok("process", "time zone", name),
        Err(asked) => Finding::ok("process", "time zone", "UTC").because(
            Level::Degraded,
            format!("TZ={asked:?} is not a time zone; maintenance windows without a time zone use UTC"),
            "set TZ to a name such as Europe/Berlin",
        ),
    }
}

/// Findings from `/proc/self/status` (seccomp(2), prctl(2)), and whether this is process 1.
fn status(read: Read<'_>) -> Vec<Finding> {
    let text = read("/proc/self/status").unwrap_or_default();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let seccomp = match field("Seccomp:") {
        Some("0") => "no filter",
        Some("1") => "strict",
        Some("2") => "a filter",
        _ => "unknown",
    };
    let privileges = match field("NoNewPrivs:") {
        Some("1") => "cannot be gained",
        Some(_) => "can be gained through set-user-ID programs",
        None => "unknown",
    };
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let first = if pid == 1 { "yes: reaps orphaned processes" } else { "no" };
    vec![
        Finding::ok("process", "seccomp", seccomp),
        Finding::ok("process", "privileges", privileges),
        Finding::ok("process", "process 1", first),
    ]
}

/// Findings about the variables that systemd passed to this process (sd_notify(3),
/// sd_listen_fds(3)).
fn systemd() -> Vec<Finding> {
    let mut all = Vec::new();
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_FDNAMES", "INVOCATION_ID"] {
        if let Ok(value) = std::env::var(name) {
            all.push(Finding::ok("systemd", name, value));
        }
    }
    all
}
