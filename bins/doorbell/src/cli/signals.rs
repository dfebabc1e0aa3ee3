//! Signal actions (proc_pid_status(5)) and process groups (proc_pid_stat(5)) of processes.

use rustix::process::{Pid, getpid};
use signal_hook::consts::SIGHUP;

/// Those of the signals that this process does not ignore. Signals that were ignored at the start
/// should stay ignored: nohup(1), for example, starts a program with SIGHUP ignored.
pub(super) fn not_ignored(signals: impl IntoIterator<Item = i32>) -> impl Iterator<Item = i32> {
    let ignored = set(getpid(), "SigIgn:");
    signals.into_iter().filter(move |signal| !contains(ignored, *signal))
}

/// Whether a process has a handler for a signal.
pub(super) fn has_handler(pid: Pid, signal: i32) -> bool {
    contains(set(pid, "SigCgt:"), signal)
}

/// Whether a signal that the terminal sent to this process reaches a child, too, because both are
/// in the same process group. At a hangup, the kernel sends SIGHUP only to the session leader.
pub(super) fn reaches_group_of(child: Pid, signal: i32) -> bool {
    let (Some((group, session)), Some((other, _))) = (group_and_session(getpid()), group_and_session(child))
    else {
        return false;
    };
    let is_leader = session == getpid().as_raw_nonzero().get();
    group == other && !(signal == SIGHUP && is_leader)
}

/// The process group and the session of a process. Each is 0 if its leader is outside the PID
/// namespace, which `getpgid` and `getsid` of rustix cannot return.
fn group_and_session(pid: Pid) -> Option<(i32, i32)> {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // `PID (NAME) STATE PARENT GROUP SESSION ..`; NAME may contain any byte.
    let stat = String::from_utf8_lossy(&stat);
    let mut ids = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(2).map(str::parse);
    Some((ids.next()?.ok()?, ids.next()?.ok()?))
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
