//! Actions of processes for signals (proc_pid_status(5)).
//!
//! Does not know about: the meaning of a signal.

use rustix::process::{Pid, getpid};

/// The signals that this process does not ignore. A program leaves ignored signals alone: nohup(1),
/// for example, starts a program with an ignored SIGHUP.
pub(super) fn not_ignored(signals: impl IntoIterator<Item = i32>) -> impl Iterator<Item = i32> {
    let ignored = set(getpid(), "SigIgn:");
    signals.into_iter().filter(move |signal| !contains(ignored, *signal))
}

/// Whether a process has a handler for a signal.
pub(super) fn has_handler(pid: Pid, signal: i32) -> bool {
    contains(set(pid, "SigCgt:"), signal)
}

/// A set of signals in the status of a process; empty if the status cannot be read.
fn set(pid: Pid, name: &str) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix(name));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

const fn contains(set: u64, signal: i32) -> bool {
    set >> (signal - 1) & 1 == 1
}
