//! The standard process metrics, from `/proc/self`.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use crate::family::{Families, as_f64};

/// Values from the kernel; unavailable ones are omitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// User and system CPU time in seconds.
    pub cpu_secs: Option<f64>,
    /// Start time in seconds since 1970.
    pub start_secs: Option<f64>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// Size of the virtual memory.
    pub virtual_bytes: Option<u64>,
    /// Size of the resident memory.
    pub resident_bytes: Option<u64>,
    /// Open descriptors.
    pub open_fds: Option<u64>,
    /// Maximum number of open descriptors.
    pub max_fds: Option<u64>,
}

impl Process {
    /// Reads the values of this process.
    #[must_use]
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name in parentheses may contain any character (proc_pid_stat(5)); field 3 follows it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let secs = |ticks: u64| as_f64(ticks) / as_f64(clock_ticks_per_second());
        let ticks = field(14).zip(field(15)).map(|(user, system)| user + system);
        Self {
            cpu_secs: ticks.map(secs),
            start_secs: field(22).zip(boot_secs()).map(|(ticks, boot)| as_f64(boot) + secs(ticks)),
            threads: field(20),
            virtual_bytes: field(23),
            resident_bytes: field(24).map(|pages| pages * page_size() as u64),
            // Excludes the descriptor that reads the directory.
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).saturating_sub(1)),
            max_fds: getrlimit(Resource::Nofile).current,
        }
    }

    /// Adds the families of the process.
    pub fn gather(&self, families: &mut Families) {
        if let Some(secs) = self.cpu_secs {
            families.counter("process_cpu_seconds", "User and system CPU time in seconds.").add([], secs);
        }
        if let Some(secs) = self.start_secs {
            let help = "Start time of the process in seconds since 1970.";
            families.gauge("process_start_time_seconds", help).add([], secs);
        }
        let gauges = [
            ("process_threads", "Number of threads.", self.threads),
            ("process_virtual_memory_bytes", "Virtual memory size in bytes.", self.virtual_bytes),
            ("process_resident_memory_bytes", "Resident memory size in bytes.", self.resident_bytes),
            ("process_open_fds", "Open file descriptors.", self.open_fds),
            ("process_max_fds", "Maximum number of open file descriptors.", self.max_fds),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                families.gauge(name, help).count([], value);
            }
        }
    }
}

/// Boot time of the system in seconds since 1970 (proc_stat(5)).
fn boot_secs() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_read() {
        let process = Process::read();
        assert!(
            process.threads >= Some(1) && process.open_fds > Some(2) && process.max_fds > Some(2),
            "{process:?}"
        );
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        assert!(
            process.start_secs.is_some_and(|start| (now - 86_400.0..=now + 2.0).contains(&start)),
            "{process:?}"
        );
        assert!(process.resident_bytes > Some(1 << 20) && process.cpu_secs.is_some(), "{process:?}");
    }
}
