//! The kernel's statistics of a process: resident memory, descriptors, processor time, threads.
//!
//! Does not know about: the server; it reads `/proc`.

use std::fs;
use std::io;
use std::time::Duration;

/// Resident bytes of a process: `VmRSS` of `/proc/PID/status`.
///
/// Use `"self"` for this process.
///
/// # Errors
/// When the process has ended.
pub fn rss_bytes(pid: &str) -> io::Result<u64> {
    status_kib(pid, "VmRSS:").map(|kib| kib * 1024)
}

/// Resident bytes without file-backed and shared pages: `RssAnon`, memory the program allocated and
/// touched.
///
/// # Errors
/// When the process has ended.
pub fn rss_anon_bytes(pid: &str) -> io::Result<u64> {
    status_kib(pid, "RssAnon:").map(|kib| kib * 1024)
}

fn status_kib(pid: &str, name: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Number of open descriptors of a process.
///
/// # Errors
/// When the process has ended.
pub fn fds(pid: &str) -> io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Processor time of those threads of a process whose names start with `prefix`, from `schedstat`
/// (nanoseconds).
///
/// # Errors
/// When the process has ended.
pub fn thread_cpu(pid: &str, prefix: &str) -> io::Result<Duration> {
    let mut total = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        // A thread that ends during the loop adds no time.
        let (Ok(name), Ok(stat)) =
            (fs::read_to_string(task.join("comm")), fs::read_to_string(task.join("schedstat")))
        else {
            continue;
        };
        if name.starts_with(prefix) {
            total += Duration::from_nanos(
                stat.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0),
            );
        }
    }
    Ok(total)
}

/// Names of the threads of a process.
///
/// # Errors
/// When the process has ended.
pub fn threads(pid: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Ok(name) = fs::read_to_string(task?.path().join("comm")) {
            names.push(name.trim().to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_there() {
        assert!(rss_bytes("self").unwrap() > 100_000);
        assert!(rss_anon_bytes("self").unwrap() < rss_bytes("self").unwrap());
        assert!(fds("self").unwrap() >= 3);
        assert!(thread_cpu("self", "").unwrap() > Duration::ZERO);
        assert!(!threads("self").unwrap().is_empty());
        assert!(rss_bytes("999999999").is_err());
    }
}
